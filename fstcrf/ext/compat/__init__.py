"""Drop-in replacements for other packages: their interfaces, implemented by fstcrf.

::

    import sys, fstcrf.ext.compat.pycrfsuite
    sys.modules["pycrfsuite"] = fstcrf.ext.compat.pycrfsuite

For test suites of others there is a plugin of pytest: ``pytest -p fstcrf.ext.compat.plugin``.
"""

from __future__ import annotations

import importlib
import pkgutil
import sys
from typing import TYPE_CHECKING

from fstcrf.errors import MissingDependencyError, OptionError
from fstcrf.lazy import importer

if TYPE_CHECKING:
    from fstcrf.ext.compat import pycrfsuite, sklearn_crfsuite

__all__ = ["DROP_INS", "install", "pycrfsuite", "sklearn_crfsuite"]

DROP_INS = {
    "pycrfsuite": "fstcrf.ext.compat.pycrfsuite",
    "sklearn_crfsuite": "fstcrf.ext.compat.sklearn_crfsuite",
}


def install(*names: str) -> None:
    """Let ``import pycrfsuite`` and ``import sklearn_crfsuite`` find the drop-ins.

    Call it before other imports: a module keeps its imported objects.

    Parameters
    ----------
    *names : {"pycrfsuite", "sklearn_crfsuite"}
        Which of them. By default ``pycrfsuite``, and ``sklearn_crfsuite`` where scikit-learn is
        installed.

    Raises
    ------
    OptionError
        There is no drop-in for a package of this name.
    MissingDependencyError
        ``sklearn_crfsuite`` is asked for by name, and scikit-learn is not installed.
    """
    unknown = sorted(set(names) - set(DROP_INS))
    if unknown:
        raise OptionError(f"no drop-in for {unknown[0]!r}; there are {', '.join(DROP_INS)}")
    for name in names or DROP_INS:
        try:
            module = importlib.import_module(DROP_INS[name])
        except MissingDependencyError:
            if names:
                raise
            continue
        for loaded in [key for key in sys.modules if key.startswith(f"{name}.")]:
            del sys.modules[loaded]  # parts of the real package
        sys.modules[name] = module
        for part in pkgutil.iter_modules(module.__path__):  # else they would be loaded once more
            own = importlib.import_module(f"{DROP_INS[name]}.{part.name}")
            sys.modules[f"{name}.{part.name}"] = own


_, __getattr__ = importer(__name__)
