"""scikit-learn, which is an extra: said in one line where it is absent."""

from __future__ import annotations

from typing import Any

from fstcrf.lazy import optional

__all__ = ["sklearn"]


def sklearn(part: str) -> Any:
    """Return a module of scikit-learn.

    Raises
    ------
    MissingDependencyError
        It is not installed.
    """
    return optional(
        f"sklearn.{part}",
        "fstcrf.compat.sklearn_crfsuite needs scikit-learn: pip install 'fstcrf[sklearn]'",
    )
