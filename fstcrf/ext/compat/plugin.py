"""The drop-ins for test suites of others: ``pytest -p fstcrf.ext.compat.plugin``.

They are put into place before the first conftest.py is read, not when this module is imported. At
the end, the plugin checks that the tests ran against them.
"""

from __future__ import annotations

import sys

from fstcrf.ext.compat import DROP_INS, install


def pytest_load_initial_conftests() -> None:
    """Put the drop-ins into place."""
    install()


def pytest_sessionfinish() -> None:
    """Refuse a run in which something has put another package into their place."""
    for name, drop_in in DROP_INS.items():
        found = sys.modules.get(name)
        if found is not None and found.__name__ != drop_in:
            raise RuntimeError(f"{name} is {found.__name__} after the tests, expected {drop_in}")
