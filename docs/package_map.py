"""Write the map of packages into the page on architecture: ``python docs/package_map.py``.

Sizes come from the tree, the orders from the contracts of import-linter, what a package is from the
page itself. ``python docs/package_map.py COMMIT`` counts an older commit instead and prints that.
"""

from __future__ import annotations

import ast
import io
import re
import subprocess
import sys
import tarfile
import tempfile
import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple, TypeAlias

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "reference" / "architecture.md"
PACKAGE = "fstcrf"

_ROW = re.compile(r"^\| `(\w+)` \| [\d,]+ \| [\d,]+ \| (.*)$", re.MULTILINE)

Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef


class Counts(NamedTuple):
    """What is counted of a tree of modules; in words, its fields are the rows of the table."""

    modules: int
    lines: int
    in_circles: int
    imports_in_functions: int
    any_in_signatures: int
    classes_with_two_homes: int


def modules_of(root: Path) -> dict[str, ast.Module]:
    """Return the modules of the package by their dotted names."""
    found = {}
    for path in sorted((root / PACKAGE).rglob("*.py")):
        parts = path.relative_to(root).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        found[name] = ast.parse(path.read_text())
    return found


def counts(root: Path) -> Counts:
    """Count a tree: imports under ``TYPE_CHECKING`` and in functions count for circles, too."""
    modules = modules_of(root)
    lines = sum(len(p.read_text().splitlines()) for p in (root / PACKAGE).rglob("*.py"))
    edges = {name: set(_imported(tree, modules)) for name, tree in modules.items()}
    inner = sum(
        1
        for tree in modules.values()
        for node in {id(n): n for f in _functions(tree) for n in ast.walk(f)}.values()
        if any(True for _ in _targets(node, modules))
    )
    homes = Counter(
        node.name
        for tree in modules.values()
        for node in tree.body
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    )
    loose = sum(_is_loose(f) for tree in modules.values() for f in _public(tree))
    several = sum(n > 1 for n in homes.values())
    return Counts(len(modules), lines, _in_circles(edges), inner, loose, several)


def _functions(tree: ast.Module) -> Iterator[Function]:
    return (n for n in ast.walk(tree) if isinstance(n, Function))


def _public(tree: ast.Module) -> Iterator[Function]:
    """Yield functions, methods and constructors that have no underscore."""
    for node in tree.body:
        inside = node.body if isinstance(node, ast.ClassDef) else [node]
        if isinstance(node, ast.ClassDef | Function) and node.name.startswith("_"):
            continue
        for one in inside:
            if isinstance(one, Function) and (one.name[0] != "_" or one.name == "__init__"):
                yield one


def _is_loose(function: Function) -> bool:
    """Whether a signature says `Any`."""
    given = function.args
    several = [*given.posonlyargs, *given.args, *given.kwonlyargs, given.vararg, given.kwarg]
    types = [function.returns, *(a.annotation for a in several if a is not None)]
    nodes = (n for one in types if one is not None for n in ast.walk(one))
    return any(isinstance(n, ast.Name) and n.id == "Any" for n in nodes)


def _targets(node: ast.AST, modules: Mapping[str, ast.Module]) -> Iterator[str]:
    """Yield the modules of the package that an import names."""
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names if alias.name in modules)
    if isinstance(node, ast.ImportFrom) and node.module in modules:
        for alias in node.names:
            full = f"{node.module}.{alias.name}"
            yield full if full in modules else node.module or ""


def _imported(tree: ast.Module, modules: Mapping[str, ast.Module]) -> Iterator[str]:
    for node in ast.walk(tree):
        yield from _targets(node, modules)


def _in_circles(edges: Mapping[str, set[str]]) -> int:
    """Return how many modules reach themselves."""
    return sum(_reaches(name, edges) for name in edges)


def _reaches(name: str, edges: Mapping[str, set[str]]) -> bool:
    seen: set[str] = set()
    waiting = edges[name] - {name}
    while waiting:
        seen |= waiting
        waiting = {to for one in waiting for to in edges[one]} - seen
    return name in seen


# --- The page -------------------------------------------------------------------------------------


def rows(page: str) -> str:
    """Return the rows of the map, in Markdown."""
    orders = _orders()
    meanings = {}
    for name, what in _ROW.findall(page):
        meanings[name] = re.split(r"(?<!\\)\|", what)[0].strip()
    found = []
    for name in _top_first(orders[PACKAGE]):
        path = ROOT / PACKAGE / name
        files = sorted(path.rglob("*.py")) if path.is_dir() else [path.with_suffix(".py")]
        lines = sum(len(file.read_text().splitlines()) for file in files)
        order = " > ".join(
            " \\| ".join(f"`{part}`" for part in _parts(layer))
            for layer in orders.get(f"{PACKAGE}.{name}", [])
        )
        found.append(f"| `{name}` | {len(files)} | {lines:,} | {meanings[name]} | {order} |")
    return "\n".join(found)


def _orders() -> dict[str, list[str]]:
    """Return the layers of each package, top first."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    contracts = settings["tool"]["importlinter"]["contracts"]
    layered = [c for c in contracts if c["type"] == "layers"]
    return {c.get("containers", [PACKAGE])[0]: c["layers"] for c in layered}


def _parts(layer: str) -> list[str]:
    return [part.strip(" ()").removeprefix(f"{PACKAGE}.") for part in re.split(r"[|:]", layer)]


def _top_first(layers: list[str]) -> list[str]:
    known = {p.stem for p in (ROOT / PACKAGE).iterdir() if p.is_dir() or p.suffix == ".py"}
    return [name for layer in layers for name in _parts(layer) if name in known]


def _main(arguments: list[str]) -> None:
    if arguments:
        command = ["git", "archive", arguments[0], PACKAGE]
        tree = subprocess.run(command, cwd=ROOT, capture_output=True, check=True)  # noqa: S603 (git)
        with (
            tempfile.TemporaryDirectory() as folder,
            tarfile.open(fileobj=io.BytesIO(tree.stdout)) as archive,
        ):
            archive.extractall(folder, filter="data")
            sys.stdout.write(f"{counts(Path(folder))}\n")
        return
    page = PAGE.read_text()
    first = page.index("| `__main__` |")
    PAGE.write_text(page[:first] + rows(page) + page[page.index("\n\n", first) :])
    sys.stdout.write(f"{counts(ROOT)}\n")


if __name__ == "__main__":
    _main(sys.argv[1:])
