"""Drop-ins in the place of the packages, and the runner of others' test suites."""

from __future__ import annotations

import subprocess
import sys

import pytest

from fstcrf.errors import OptionError
from fstcrf.ext.compat import DROP_INS, install


def run(code: str) -> str:
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout


@pytest.mark.thorough
def test_as_the_documentation_says() -> None:
    said = run(
        "import sys, fstcrf.ext.compat.pycrfsuite\n"
        "sys.modules['pycrfsuite'] = fstcrf.ext.compat.pycrfsuite\n"
        "import pycrfsuite\n"
        "from pycrfsuite import Tagger, _dumpparser\n"
        "from pycrfsuite._logparser import TrainLogParser\n"
        "from fstcrf.ext.compat.pycrfsuite._logparser import TrainLogParser as Ours\n"
        "import pycrfsuite._pycrfsuite as compiled\n"
        "print(Tagger.__module__, TrainLogParser is Ours, pycrfsuite.CRFSUITE_VERSION)\n"
        "print(compiled.Tagger is Tagger, compiled.CRFSUITE_VERSION)\n"
    )
    assert said == "fstcrf.ext.compat.pycrfsuite.tagger True 0.12.2\nTrue 0.12.2\n"


@pytest.mark.thorough
def test_parts_of_the_real_package_do_not_stay() -> None:
    pytest.importorskip("pycrfsuite", reason="python-crfsuite is not installed")
    said = run(
        "import pycrfsuite._logparser, fstcrf.ext.compat as compat\n"
        "compat.install('pycrfsuite')\n"
        "import pycrfsuite._logparser as parser\n"
        "print(parser.TrainLogParser.__module__)\n"
    )
    assert said == "fstcrf.ext.compat.pycrfsuite.log\n"


@pytest.mark.thorough
@pytest.mark.parametrize("before", [False, True], ids=["first", "behind the packages"])
def test_parts_of_a_drop_in_are_its_own(before: bool) -> None:
    """A class is the same one in whichever part of the package it is looked up."""
    for name in DROP_INS:
        pytest.importorskip(name, reason=f"{name} is not installed")
    said = run(
        f"NAMES, BEFORE = {list(DROP_INS)}, {before}\n"
        "import importlib, pkgutil\n"
        "if BEFORE: list(map(importlib.import_module, NAMES))\n"
        "import fstcrf.ext.compat as compat\n"
        "compat.install()\n"
        "for name in NAMES:\n"
        "    whole = importlib.import_module(name)\n"
        "    for part in pkgutil.iter_modules(whole.__path__):\n"
        "        module = importlib.import_module(f'{name}.{part.name}')\n"
        "        assert module.__name__ == f'{compat.DROP_INS[name]}.{part.name}'\n"
        "        for key, value in vars(module).items():\n"
        "            if isinstance(value, type) and key in vars(whole):\n"
        "                assert value is getattr(whole, key), (part.name, key)\n"
        "                print(part.name, key)\n"
    )
    assert "_pycrfsuite Tagger" in said
    assert "estimator CRF" in said


def test_no_drop_in() -> None:
    with pytest.raises(OptionError, match="'crfpp'"):
        install("crfpp")


@pytest.mark.thorough
def test_importing_installs_nothing() -> None:
    said = run(
        "import sys, fstcrf, fstcrf.ext.compat\n"
        "heavy = 'fstcrf.ext.compat.', 'numpy', 'sklearn'\n"
        "print([m for m in sys.modules if m.startswith(heavy)])\n"
        "import fstcrf.ext.compat.plugin, fstcrf.ext.compat.pycrfsuite\n"
        "print('pycrfsuite' in sys.modules)\n"
    )
    assert said == "[]\nFalse\n"
