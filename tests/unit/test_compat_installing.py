"""Drop-ins in the place of the packages, and the runner of others' test suites."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from fstcrf.errors import OptionError
from fstcrf.ext.compat import install

REPOSITORY = Path(__file__).parents[2]


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


SUITES = {
    "passing": """\
import pycrfsuite
def test_which():
    assert pycrfsuite.__name__ == "fstcrf.ext.compat.pycrfsuite"
""",
    "failing": "def test_it():\n    assert False\n",
    "replacing": """\
import sys, types
def test_it():  # another package in their place
    sys.modules["pycrfsuite"] = types.ModuleType("p")
""",
}


def foreign(folder: Path, *names: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tests.foreign", str(folder), *names]
    alone = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    return subprocess.run(
        command, cwd=REPOSITORY, env=alone, capture_output=True, text=True, check=False
    )


@pytest.mark.thorough
def test_the_runner_runs_suites_against_the_drop_ins(tmp_path: Path) -> None:
    for name, code in SUITES.items():
        (tmp_path / name / "tests").mkdir(parents=True)
        (tmp_path / name / "tests" / "test_it.py").write_text(code)
    (tmp_path / "no-suite").mkdir()
    done = foreign(tmp_path)
    assert done.returncode == 1
    for name in SUITES:
        verdict = "passed" if name == "passing" else "FAILED (1)"
        assert f"{name:<24} {verdict}\n" in done.stdout
    assert "no-suite" not in done.stdout
    assert foreign(tmp_path, "passing").returncode == 0


def test_the_runner_says_what_is_missing(tmp_path: Path) -> None:
    done = foreign(tmp_path, "absent")
    assert done.returncode == 1
    assert "expected" in done.stderr
    assert str(tmp_path / "absent" / "tests") in done.stderr
