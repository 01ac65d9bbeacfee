"""Label histories as states, arcs and slots: the structure of a CRF, without its numbers.

==============  ==========================================================
Topology        states, arcs, slots; labels to states and back
chain_topology  order 0, 1 or 2, with forbidden successions left out
==============  ==========================================================
"""

from fstcrf.topology.orders import chain_topology
from fstcrf.topology.topology import START, Topology

__all__ = ["START", "Topology", "chain_topology"]
