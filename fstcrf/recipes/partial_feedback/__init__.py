"""Noun-phrase chunking learnt from rewards for samples.

===========  ====================================================
data         CoNLL-2000 with the noun phrases of its chunks
systems      what is compared, with the settings that dev data chose
learning     what becomes of them
rates        the choice of rates on dev data
curves       learning curves, and their picture
differences  what controls bring
speed        how many samples a second
recipe       the run and its report
===========  ====================================================
"""

from typing import TYPE_CHECKING

from fstcrf.lazy import importer

if TYPE_CHECKING:
    from fstcrf.recipes.partial_feedback.recipe import run

__all__ = ["run"]

__getattr__ = importer(__name__, {"run": "recipe"})
