"""Import cycles of the core, hidden ones too: which modules need each other to do their work.

An import counts at the head of a module, within a function, and as the name of a `LazyModule` or
`StaticFunction`. Imports for type checkers alone do not count. A name that a package hands on
counts as an import of the module that defines it.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import fstcrf
from fstcrf.machines.ways import components

__all__ = ["cycles", "imports"]

ROOT = Path(fstcrf.__file__).parent
OUTSIDE = {"ext", "cli", "recipes"}
_BY_NAME = {"LazyModule", "StaticFunction"}


def modules(root: Path = ROOT) -> dict[str, ast.Module]:
    """Return the modules of the core by name; a package has the name of its folder."""
    found: dict[str, ast.Module] = {}
    for path in sorted(root.rglob("*.py")):
        parts = path.relative_to(root).with_suffix("").parts
        if parts[0] not in OUTSIDE:
            named = parts[:-1] if parts[-1] == "__init__" else parts
            found[".".join((root.name, *named))] = ast.parse(path.read_text("utf-8"))
    return found


def _statements(tree: ast.AST, *, types: bool) -> Iterator[ast.AST]:
    """Yield all nodes; those under ``if TYPE_CHECKING`` only with `types`."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            for inner in node.body if types else []:
                yield inner
                yield from _statements(inner, types=types)
            for inner in node.orelse:
                yield inner
                yield from _statements(inner, types=types)
            continue
        yield node
        yield from _statements(node, types=types)


def _handed_on(trees: dict[str, ast.Module]) -> dict[tuple[str, str], str]:
    """Return the module that defines each name of a package, as the package imports it."""
    found: dict[tuple[str, str], str] = {}
    for package, tree in trees.items():
        for node in _statements(tree, types=True):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(package + "."):
                found |= {
                    (package, alias.asname or alias.name): str(node.module) for alias in node.names
                }
    return found


def imports(trees: dict[str, ast.Module]) -> dict[str, set[str]]:
    """Return the modules that each module imports anywhere.

    A package is not one of them: what is asked of it is an import of the module that defines it.
    """
    handed = _handed_on(trees)
    edges: dict[str, set[str]] = {}
    packages = {name.rpartition(".")[0] for name in trees}

    def home(package: str, name: str) -> str:
        inner = f"{package}.{name}"
        return inner if inner in trees else handed.get((package, name), package)

    for name in sorted(trees.keys() - packages):
        asked: set[tuple[str, str]] = set()  # a module or package, and a name of it
        known: dict[str, str] = {}  # names of this module that are packages
        nodes = list(_statements(trees[name], types=False))
        for node in nodes:
            if isinstance(node, ast.ImportFrom):
                asked |= {(str(node.module), alias.name) for alias in node.names}
                inner = {alias.asname or alias.name: alias.name for alias in node.names}
                known |= {here: f"{node.module}.{there}" for here, there in inner.items()}
            elif isinstance(node, ast.Assign) and (module := _by_name(node.value)):
                known[ast.unparse(node.targets[0])] = module
            if module := _by_name(node):
                asked.add((module, ""))
        for node in nodes:
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
                package = known.get(node.value.id, "")
                asked |= {(package, node.attr)} if package in packages else set()
        reached = {home(module, inner) for module, inner in asked}
        edges[name] = (reached & trees.keys()) - packages - {name}
    return edges


def _by_name(node: ast.AST) -> str:
    """Return the module that a call such as ``LazyModule("a.b")`` imports when it is used."""
    if not isinstance(node, ast.Call) or ast.unparse(node.func) not in _BY_NAME:
        return ""
    given = node.args[0] if node.args else None
    return str(given.value) if isinstance(given, ast.Constant) else ""


def cycles(edges: dict[str, set[str]]) -> list[list[str]]:
    """Return the sets of modules that import each other, each sorted."""
    names = sorted(edges)
    number = {name: k for k, name in enumerate(names)}
    steps = [[number[other] for other in sorted(edges[name])] for name in names]
    return sorted(sorted(names[k] for k in part) for part in components(steps) if len(part) > 1)
