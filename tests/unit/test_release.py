"""What a release says of itself, in several files, is the same and is true."""

from __future__ import annotations

import importlib
import inspect
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import fstcrf

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
INSTALLING = (ROOT / "docs" / "start" / "installing.md").read_text("utf-8")
STABILITY = (ROOT / "docs" / "reference" / "api-stability.md").read_text("utf-8")
INTERFACE = (ROOT / "docs" / "reference" / "api.md").read_text("utf-8")
KINDS = ["Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"]
OF_OTHERS = {"fstcrf.ext.jax", "fstcrf.ext.torch"}  # need packages that need not be there


def package(requirement: str) -> str:
    """Return the name of what is required."""
    found = re.match(r"[A-Za-z0-9_.-]+", requirement)
    assert found
    return found.group()


def rows(page: str, heading: str) -> list[list[str]]:
    """Return the cells of the first table behind a heading."""
    lines = page[page.index(heading) :].splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith("| ---"))
    table = lines[start + 1 :]
    end = next((i for i, line in enumerate(table) if not line.startswith("|")), len(table))
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table[:end]]


def quoted(cells: list[str]) -> list[str]:
    return [name for cell in cells for name in re.findall(r"`([\w.]+)`", cell)]


# --- Versions -----------------------------------------------------------------------------------


def test_the_version_is_written_in_one_place() -> None:
    assert "version" in PROJECT["project"]["dynamic"]
    assert importlib.metadata.version("fstcrf") == fstcrf.__version__
    others = ["pyproject.toml", "CITATION.cff", "conda/recipe.yaml", "docs/conf.py", "Makefile"]
    assert [p for p in others if fstcrf.__version__ in (ROOT / p).read_text("utf-8")] == []


def test_the_changelog_keeps_its_form() -> None:
    text = (ROOT / "CHANGELOG.md").read_text("utf-8")
    releases = re.split(r"^## ", text, flags=re.MULTILINE)[1:]
    assert re.match(rf"\[{fstcrf.__version__}\] - (unreleased|\d{{4}}-\d\d-\d\d)\n", releases[0])
    assert all(re.match(r"\[\d+\.\d+\.\d+\] - \d{4}-\d\d-\d\d\n", r) for r in releases[1:])
    assert len(text.splitlines()) <= 60
    for release in releases:
        kinds = re.findall(r"^### (?!Known limits)(.+)$", release, re.MULTILINE)
        assert kinds == [kind for kind in KINDS if kind in kinds]


# --- Dependencies -------------------------------------------------------------------------------

NEEDED = sorted(package(d) for d in PROJECT["project"]["dependencies"])


def test_an_installation_brings_no_package_of_hundreds_of_megabytes() -> None:
    assert NEEDED == ["cffi", "click", "lark", "msgspec", "numpy", "rich", "scipy"]


def test_the_group_of_the_workflows_and_the_conda_recipe_name_all_that_is_needed() -> None:
    wanted = set(PROJECT["project"]["dependencies"])
    assert wanted <= set(PROJECT["dependency-groups"]["quick-tests"])
    recipe = (ROOT / "conda" / "recipe.yaml").read_text("utf-8")
    run = recipe[recipe.index("  run:\n") : recipe.index("  run_constraints:")]
    listed = {line.strip().removeprefix("- ").replace(" >=", ">=") for line in run.splitlines()[1:]}
    assert listed == wanted | {"python>=3.11"}


def test_extras() -> None:
    extras = PROJECT["project"]["optional-dependencies"]
    listed = [names[0] for names in (quoted([row[0]]) for row in rows(INSTALLING, "## Extras"))]
    assert sorted(listed) == sorted(extras)
    (everything,) = extras["all"]
    names = re.findall(r"\w+", everything.removeprefix("fstcrf"))
    assert set(names) == set(extras) - {"all"}
    assert len(names) == 11  # as the table says
    assert set(listed[1:12]) == set(names)


def test_actions_of_others_are_pinned_by_their_commits() -> None:
    workflows = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
    used = [line for path in workflows for line in path.read_text("utf-8").splitlines()
            if "uses:" in line]  # fmt: skip
    assert len(used) > 10
    for line in used:
        assert re.fullmatch(r" +- uses: [\w/-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", line), line


# --- Public names -------------------------------------------------------------------------------


def test_the_list_of_public_names_is_what_the_package_offers() -> None:
    names = [name for row in rows(STABILITY, "## Names") for name in quoted([row[0]])]
    assert sorted(names) == sorted(fstcrf.__all__)


def test_dir_lists_public_names_and_packages() -> None:
    shown = {name for name in dir(fstcrf) if not name.startswith("__")}
    packages = shown - set(fstcrf.__all__)
    assert set(fstcrf.__all__) <= shown
    assert all(inspect.ismodule(getattr(fstcrf, name)) for name in packages)
    listed = re.findall(r"`fstcrf\.(\w+)", STABILITY)
    assert packages <= set(listed) | {"ext", "text", "machines"}


def test_a_checkout_without_the_kernel_names_the_command_that_builds_it() -> None:
    program = "import sys; sys.modules['fstcrf._kernel'] = None; import fstcrf; fstcrf.CRF"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    last = done.stderr.splitlines()[-1]
    assert last.startswith("ImportError: the C kernel of fstcrf is not compiled here: run `make")


MODULES = [
    name
    for row in rows(STABILITY, "Public besides")
    for name in quoted([row[0]])
    if name not in OF_OTHERS
]


def test_public_modules_are_those_of_the_python_interface() -> None:
    documented = set(re.findall(r"^   (fstcrf\.[.\w]+)$", INTERFACE, re.MULTILINE))
    assert documented == set(MODULES)


@pytest.mark.parametrize("module", ["fstcrf", *MODULES])
def test_public_names_exist_and_are_documented(module: str) -> None:
    found = importlib.import_module(module)
    assert inspect.getdoc(found)
    for name in getattr(found, "__all__", []):
        value = getattr(found, name)
        if inspect.isclass(value) or inspect.isfunction(value):
            assert inspect.getdoc(value), f"{module}.{name} has no docstring"
