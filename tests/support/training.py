"""Training by options with flat names, as the command line has them."""

from __future__ import annotations

from typing import Any

from fstcrf import CRF
from fstcrf.training.options import structured


def flat_train(data: Any, target: Any = None, template: Any = None, **options: Any) -> CRF:
    """Train a CRF."""
    flat = {"target": target, "template": template, **options}
    return CRF.train(data, **structured(flat))
