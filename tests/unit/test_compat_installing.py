"""Drop-ins in the place of the packages, and the runner of others' test suites."""

from __future__ import annotations

import subprocess
import sys

import pytest

from fstcrf.errors import OptionError
from fstcrf.ext.compat import install


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
