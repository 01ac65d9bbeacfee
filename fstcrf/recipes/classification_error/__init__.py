"""Training on smooth counts of errors: the experiments of Suzuki, McDermott and Isozaki (2006).

=========  ============================================================
SYSTEMS    likelihood, errors of sentences, F of segments
chunking   CoNLL-2000 with the paper's features
entities   CoNLL-2003 with the paper's features
=========  ============================================================
"""

from typing import TYPE_CHECKING

from fstcrf.lazy import importer

if TYPE_CHECKING:
    from fstcrf.recipes.classification_error.systems import SYSTEMS
    from fstcrf.recipes.classification_error.tasks import chunking, entities

__all__ = ["SYSTEMS", "chunking", "entities"]

__getattr__ = importer(__name__, {"SYSTEMS": "systems", "chunking": "tasks", "entities": "tasks"})
