"""How large the house is: what is counted of a checkout, by the names in ``sizes.toml``.

The core is ``fstcrf/`` without the ring (``ext``), the commands (``cli``) and the recipes.
"""

from __future__ import annotations

import ast
import importlib.util
import re
import subprocess
import sys
import tempfile
import tomllib
import zlib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from fstcrf.lazy import made_once

ROOT = Path(__file__).parents[2]
TABLE = Path(__file__).with_name("sizes.toml")

OUTER = ("fstcrf/cli/", "fstcrf/ext/", "fstcrf/recipes/")
DROP_INS = "fstcrf/ext/compat/"  # have the parameters of other packages
MOST_PARAMETERS = 16
MOST_LINES = 700  # of a file; 600 are the aim

# Catch-alls and words of our own where the field has one.
PRIVATE_WORDS = {
    *("found", "known", "given", "told", "mine", "ours", "theirs", "still", "moving", "alone"),
    *("heard", "wishes", "itself", "asked", "asks", "drawn", "reach", "floor", "sure", "look"),
    *("spokes", "lightened", "tilings"),
}

Function = ast.FunctionDef | ast.AsyncFunctionDef


class Row(NamedTuple):
    """A number of the table: what it may be at most, and what it is to become."""

    limit: int
    goal: int


def table() -> dict[str, Row]:
    """Return the rows of the table by their names."""
    rows = tomllib.loads(TABLE.read_text("utf-8"))["sizes"]
    return {name: Row(**row) for name, row in rows.items()}


def parameters(function: Function) -> int:
    """Return how many parameters a caller may pass, ``*args`` and ``**kwargs`` not counted."""
    spelled = function.args
    names = [one.arg for one in (*spelled.posonlyargs, *spelled.args, *spelled.kwonlyargs)]
    return len(names) - (names[:1] in (["self"], ["cls"]))


class House:
    """A checkout, counted: files are those that git tracks, or would."""

    def __init__(self, root: Path = ROOT) -> None:
        self.root = root

    @made_once
    def files(self) -> list[str]:
        """Paths of all files, relative to the checkout."""
        listing = [*("git", "-C", str(self.root), "ls-files", "--cached", "--others")]
        command = [*listing, "--exclude-standard"]
        names = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        return sorted({name for name in names.split("\n") if name and (self.root / name).exists()})

    def text(self, name: str) -> str:
        """Return the text of a file."""
        return (self.root / name).read_text("utf-8", errors="replace")

    def lines(self, names: Iterable[str]) -> int:
        """Return how many lines some files have."""
        return sum(len(self.text(name).splitlines()) for name in names)

    def under(self, folder: str, suffixes: tuple[str, ...] = (".py",)) -> list[str]:
        """Return the files below a folder that end in one of some suffixes."""
        return [n for n in self.files if n.startswith(f"{folder}/") and n.endswith(suffixes)]

    @made_once
    def core(self) -> list[str]:
        """Modules of the core."""
        return [name for name in self.under("fstcrf") if not name.startswith(OUTER)]

    @made_once
    def trees(self) -> Mapping[str, ast.Module]:
        """Syntax trees of the core by file."""
        return {name: ast.parse(self.text(name)) for name in self.core}

    @property
    def nodes(self) -> Iterator[ast.AST]:
        """All nodes of the trees."""
        return (node for tree in self.trees.values() for node in ast.walk(tree))

    def widths(self) -> list[int]:
        """Return the numbers of parameters of public functions, drop-ins for others left out."""
        sources = [name for name in self.under("fstcrf") if not name.startswith(DROP_INS)]
        nodes = (node for name in sources for node in ast.walk(ast.parse(self.text(name))))
        functions = (node for node in nodes if isinstance(node, Function))
        public = (f for f in functions if f.name == "__init__" or not f.name.startswith("_"))
        return [parameters(function) for function in public]

    def stored(self) -> Iterator[str]:
        """Yield the names to which the core assigns, each time that it does."""
        for node in self.nodes:
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                yield node.id

    def long_files(self) -> dict[str, int]:
        """Return the sources that are longer than a file may be, with their lines."""
        sources = [*self.under("fstcrf"), *self.under("csrc", (".c", ".h"))]
        sizes = {name: self.lines([name]) for name in sources}
        return {name: size for name, size in sizes.items() if size > MOST_LINES}

    def entry_points(self) -> int:
        """Return how many functions the contract of the kernel declares."""
        contract = self.under("csrc", (".api.h",))
        return sum(len(re.findall(r"\bfc_\w+\s*\(", self.text(name))) for name in contract)

    def counted(self) -> dict[str, int]:
        """Return what is read off the sources, by the names of the table."""
        widths = self.widths()
        classes = (n for tree in self.trees.values() for n in tree.body)
        return {
            "rooms": len({name.split("/")[1] for name in self.under("fstcrf")}),
            "core modules": len(self.core),
            "core lines": self.lines(self.core),
            "core classes": sum(isinstance(node, ast.ClassDef) for node in classes),
            "wide functions": sum(width > MOST_PARAMETERS for width in widths),
            "widest function": max(widths),
            "Any in core": sum(len(re.findall(r"\bAny\b", self.text(n))) for n in self.core),
            "private words": sum(name in PRIVATE_WORDS for name in self.stored()),
            "ring lines": self.lines(self.under("fstcrf/ext")),
            "command lines": self.lines(self.under("fstcrf/cli")),
            "recipe lines": self.lines(self.under("fstcrf/recipes")),
            "C lines": self.lines(self.under("csrc", (".c", ".h"))),
            "C entry points": self.entry_points(),
            "test lines": self.lines(self.under("tests")),
            "pages": len(self.under("docs", (".md",))),
        }


# --- What is seen by running ----------------------------------------------------------------------

_LATTICE = "fstcrf.Lattice.from_arrays(['a', 'b'], [[0.0, 1.0], [1.0, 0.0]]).best()"
_TAGGER = "fstcrf.load(sys.argv[1]).tag({'word': ['x'], 'pos': ['x']})"
_COUNT = "print(sum(name.split('.')[0] == 'fstcrf' for name in sys.modules))"
_DEMO = """
import resource, runpy, sys
sys.argv = ['fstcrf', 'demo']
try:
    runpy.run_module('fstcrf', run_name='__main__')
except SystemExit as end:
    assert not end.code, end.code
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024)
"""


def _printed(program: str, *arguments: str) -> int:
    """Run a program in an interpreter of its own and return the number that it prints last."""
    # By a shell: a process has the peak of its parent's memory for its own, and ours has libraries.
    command = ["sh", "-c", '"$@"; exit $?', "sh", sys.executable, "-c", program, *arguments]
    done = subprocess.run(
        command, capture_output=True, text=True, check=True, cwd=tempfile.gettempdir()
    )
    return int(done.stdout.split()[-1])


def observed(model: Path) -> dict[str, int]:
    """Return what only a run shows; `model` is the file of a tagger of the columns word and pos."""
    return {
        "modules of an import": _printed(f"import sys, fstcrf; {_COUNT}"),
        "modules of a lattice": _printed(f"import sys, fstcrf; {_LATTICE}; {_COUNT}"),
        "modules of a tagger": _printed(f"import sys, fstcrf; {_TAGGER}; {_COUNT}", str(model)),
    }


def wheel_kilobytes(house: House) -> int:
    """Return how large a wheel is, about: the package's files and its kernel, each packed."""
    kernel = importlib.util.find_spec("fstcrf._kernel")
    assert kernel is not None
    assert kernel.origin is not None
    sources = [house.root / name for name in house.files if name.startswith("fstcrf/")]
    packed = (zlib.compress(path.read_bytes()) for path in [*sources, Path(kernel.origin)])
    return sum(map(len, packed)) // 1000


def demo_megabytes() -> int:
    """Return the peak memory of ``fstcrf demo``."""
    return _printed(_DEMO)
