"""Packages as attributes, documentation in a fresh interpreter, and packages that are extras."""

from __future__ import annotations

import pkgutil
import subprocess
import sys
from pathlib import Path

import pytest

import fstcrf
from fstcrf.errors import MissingDependencyError
from fstcrf.lazy import optional

PACKAGES = sorted(
    module.name
    for module in pkgutil.iter_modules(fstcrf.__path__)
    if not module.name.startswith("_")
)


def fresh(code: str) -> str:
    """What a new interpreter prints after a bare ``import fstcrf``."""
    done = subprocess.run(
        [sys.executable, "-c", f"import fstcrf\n{code}"],
        capture_output=True,
        text=True,
        check=False,
        cwd=Path(fstcrf.__file__).parents[1],
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


FORKED = """
import os
for name in {names}:
    if os.fork() == 0:
        print(getattr(fstcrf, name).__name__, flush=True)
        os._exit(0)
    os.wait()
"""


@pytest.mark.thorough
def test_every_package_is_an_attribute() -> None:
    """Of an interpreter that has imported none of the others: each is asked for in a fork."""
    wanted = "".join(f"fstcrf.{name}\n" for name in PACKAGES)
    assert fresh(FORKED.format(names=PACKAGES)) == wanted


@pytest.mark.thorough
def test_a_submodule_is_an_attribute_of_a_lazy_package() -> None:
    assert fresh("print(fstcrf.taggers.training.train_crf.__name__)") == "train_crf\n"
    assert fresh("print(fstcrf.taggers.tagmaps.__name__)") == "fstcrf.taggers.tagmaps\n"


def test_what_is_not_there_is_an_attribute_error() -> None:
    code = "print(*(hasattr(p, 'nothing') for p in (fstcrf, fstcrf.taggers, fstcrf.ext.compat)))"
    assert fresh(code) == "False False False\n"


@pytest.mark.thorough
def test_help_on_training_lists_its_arguments() -> None:
    text = fresh("help(fstcrf.CRF.train); help(fstcrf.CRF)")
    assert "Function train".lower() in text.lower()
    for word in ("features", "structure", "max_iterations", "Gold"):
        assert word in text
    assert "train_crf(data" in text


def test_the_import_brings_nothing_with_it() -> None:
    code = "import sys; print(*sorted(m for m in sys.modules if m.startswith('fstcrf.')))"
    assert set(fresh(code).split()) <= {"fstcrf.lazy", "fstcrf.errors"}
    assert fresh("import sys; print('numpy' in sys.modules)") == "False\n"


def package(folder: Path, name: str, text: str) -> None:
    (folder / name).mkdir()
    (folder / name / "__init__.py").write_text(text)


def test_a_package_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(MissingDependencyError, match="it needs this: pip install it"):
        optional("no_such_package_at_all.part", "it needs this: pip install it")
    monkeypatch.setitem(sys.modules, "sklearn", None)
    with pytest.raises(MissingDependencyError, match="pip install"):
        optional("sklearn.base", "pip install it")


@pytest.mark.parametrize(
    "text",
    [
        "import no_such_module_of_others",
        "raise ImportError('libx.so: cannot open')",
        "from os import no",
    ],
)
def test_an_error_inside_a_package_is_not_its_absence(
    text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package(tmp_path, "broken_inside", text)
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ImportError) as caught:
        optional("broken_inside", "pip install it")
    assert not isinstance(caught.value, MissingDependencyError)
    assert "pip install" not in str(caught.value)


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("name", "ask"),
    [
        ("sklearn", "fstcrf.ext.compat.sklearn_crfsuite"),
        ("optuna", "fstcrf.ext.tune.study.installed()"),
        ("usaddress", "fstcrf.ext.addresses.installed()"),
        ("pynini", "fstcrf.machines.openfst.pynini_module()"),
        ("matplotlib", "fstcrf.recipes.report.blank_figure(1, 1)"),
    ],
)
def test_every_extra_tells_broken_from_absent(name: str, ask: str, tmp_path: Path) -> None:
    package(tmp_path, name, "import a_part_that_is_missing")
    code = "\n".join(
        (
            f"import sys; sys.path.insert(0, {str(tmp_path)!r})",
            f"try: {ask}",
            "except ImportError as error: print(type(error).__name__, error)",
        )
    )
    assert fresh(code) == "ModuleNotFoundError No module named 'a_part_that_is_missing'\n"
    gone = code.replace(f"sys.path.insert(0, {str(tmp_path)!r})", f"sys.modules[{name!r}] = None")
    assert fresh(gone).startswith("MissingDependencyError ")
