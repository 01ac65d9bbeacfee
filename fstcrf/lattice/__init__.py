"""One sentence's weighted transducer, and what can be asked of it.

=======  ===========================================================
Lattice  every label sequence of a sentence with its score
Path     one of them
=======  ===========================================================
"""

from fstcrf.lattice.lattice import Lattice
from fstcrf.lattice.path import Path

__all__ = ["Lattice", "Path"]
