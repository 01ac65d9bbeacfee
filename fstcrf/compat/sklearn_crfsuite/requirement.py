"""scikit-learn, which is an extra: said in one line where it is absent."""

from __future__ import annotations

import importlib
from typing import Any

from fstcrf.errors import MissingDependencyError

__all__ = ["sklearn"]


def sklearn(part: str) -> Any:
    """Return a module of scikit-learn.

    Raises
    ------
    MissingDependencyError
        It is not installed.
    """
    try:
        return importlib.import_module(f"sklearn.{part}")
    except ImportError:
        raise MissingDependencyError(
            "fstcrf.compat.sklearn_crfsuite needs scikit-learn: pip install 'fstcrf[sklearn]'"
        ) from None
