"""Every code block of the README and the pages under docs/, and every docstring example, runs.

A page is run from top to bottom in one namespace and one temporary folder: ``python`` blocks by
exec, the lines of ``console`` and ``sh`` blocks that start with ``$ `` by bash. An HTML comment on
the line before a block changes that:

    <!-- needs data -->           only where FSTCRF_DATA is set; the block uses $FSTCRF_DATA
    <!-- slow -->                 only in `make test-long`
    <!-- not run: reason -->      never
    <!-- prints -->               of a ``text`` block: the code block before it prints exactly this

`make check` runs the pages in `QUICK` alone.
"""

from __future__ import annotations

import contextlib
import doctest
import importlib
import io
import os
import pkgutil
import re
import shlex
import subprocess
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import fstcrf
from fstcrf.ext.compat import DROP_INS
from tests.support import command as program

ROOT = Path(__file__).resolve().parent.parent
QUICK = {"templates.md"}  # pages of a second
DOCS = ROOT / "docs"
GROUPS = ("start", "guides", "reference", "measurements")
PAGES = [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))]
SHELL = frozenset({"console", "sh", "bash", "shell"})
MODULES = [
    module.name
    for module in pkgutil.walk_packages(fstcrf.__path__, "fstcrf.")
    if not module.name.endswith(("._kernel", ".__main__", ".jax", ".torch"))
]
TIMEOUT = 900  # seconds for one block
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE

_FENCE = re.compile(r"^(?P<indent> *)(?P<ticks>`{3,}|~{3,})(?P<language>\w*)[^`]*$")
_COMMENT = re.compile(r"^\s*<!--\s*(.*?)\s*-->\s*$")
_LASTING = re.compile(r"^(\w+=|export |set )|&& *cd |OLDPWD")
_FOLDER = re.compile(r"cd ([\w./$-]+)")
_PLAIN = re.compile(
    r"fstcrf ([^|&;<>`(){}*?!~\n]+?)(?: > ([\w./-]+)| \| ((?!.*fstcrf).+))?\s*(?:#.*)?"
)
_HERE = re.compile(r"<<-?\s*(['\"]?)(\w+)\1")


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block: its language, its first line's number, and when it runs."""

    language: str
    line: int
    text: str
    needs_data: bool = False
    slow: bool = False
    not_run: bool = False
    printed: str | None = None


def blocks(page: str) -> list[Block]:
    """Split a Markdown page into its fenced blocks."""
    found: list[Block] = []
    lines = page.splitlines()
    i = 0
    while i < len(lines):
        fence = _FENCE.match(lines[i])
        if fence is None:
            i += 1
            continue
        indent, ticks = len(fence["indent"]), fence["ticks"]
        end = next((k for k in range(i + 1, len(lines)) if lines[k].strip() == ticks), None)
        assert end is not None, f"line {i + 1}: the block is not closed"
        text = "\n".join(line[min(indent, len(line)) :] for line in lines[i + 1 : end])
        if lines[i - 1].strip() == "<!-- prints -->":
            found[-1] = replace(found[-1], printed=text)
        else:
            found.append(replace(Block(fence["language"], i + 2, text), **_marks(lines, i)))
        i = end + 1
    return found


def _marks(lines: list[str], fence: int) -> dict[str, Any]:
    marks: dict[str, Any] = dict.fromkeys(("needs_data", "slow", "not_run"), False)
    before = fence - 1
    while before >= 0 and (comment := _COMMENT.match(lines[before])):
        text = comment[1]
        if text in ("needs data", "slow"):
            marks[text.replace(" ", "_")] = True
        elif re.fullmatch(r"not run: .+", text):
            marks["not_run"] = True
        elif re.match(r"not.run|needs|slow", text):
            pytest.fail(f"line {before + 1}: unknown mark {text!r}")
        before -= 1
    return marks


def commands(block: Block) -> list[str]:
    """Return the commands of a console block: prompts and printed lines removed."""
    lines = iter(block.text.splitlines())
    kept: list[str] = []
    for line in lines:
        if not line.startswith("$ "):
            continue
        command = [line.removeprefix("$ ")]
        while command[-1].endswith("\\"):
            command.append(next(lines).removeprefix("> "))
        here = _HERE.search("\n".join(command))
        while here and command[-1].strip() != here[2]:
            command.append(next(lines))
        kept.append("\n".join(command))
    assert kept, f"line {block.line}: no line starts with '$ '; mark the block or give it one"
    return kept


def run(page: Path, selected: Iterable[Block]) -> None:
    """Run blocks in order, in the current folder."""
    namespace: dict[str, Any] = {"__name__": "__main__"}
    for block in selected:
        if block.language in SHELL:
            _run_commands(page, block)
        elif ">>> " in block.text:
            _run_session(page, block, namespace)
        else:
            source = "\n" * (block.line - 1) + block.text
            with contextlib.redirect_stdout(io.StringIO()) as printed:
                exec(compile(source, str(page), "exec"), namespace)
            if block.printed is not None:
                assert printed.getvalue().rstrip("\n") == block.printed, f"line {block.line}"


def _run_commands(page: Path, block: Block) -> None:
    """Run lines in turn: a plain ``fstcrf …`` here, as a process takes long to start."""
    given = commands(block)
    if any(_LASTING.search(command) for command in given):
        given = ["\n".join(given)]
    with contextlib.chdir(Path.cwd()):  # where the next block begins, too
        for command in given:
            if folder := _FOLDER.fullmatch(command):
                os.chdir(os.path.expandvars(folder[1]))
                continue
            plain = _PLAIN.fullmatch(command.replace("\\\n", " "))
            code, told = _in_bash(command) if plain is None else _here(*plain.groups())
            if code:
                pytest.fail(f"{page.name}:{block.line}: {command}: exit {code}\n{told}")


def _here(arguments: str, file: str | None, then: str | None) -> tuple[int, str]:
    done = program.run(*shlex.split(os.path.expandvars(arguments), comments=True))
    if file is not None:
        Path(file).write_bytes(done.stdout_bytes)
    if then is not None and not done.exit_code:
        return _in_bash(then, done.stdout)
    return done.exit_code, done.output


def _in_bash(command: str, given: str = "") -> tuple[int, str]:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", command],
        input=given,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env={**os.environ, "PATH": path},
        timeout=TIMEOUT,
        check=False,
        text=True,
    )
    return done.returncode, done.stdout


def _run_session(page: Path, block: Block, namespace: dict[str, Any]) -> None:
    test = doctest.DocTestParser().get_doctest(
        block.text, namespace, page.name, str(page), block.line - 1
    )
    runner = doctest.DocTestRunner(optionflags=FLAGS)
    runner.run(test, clear_globs=False)
    namespace.update(test.globs)
    assert runner.failures == 0, "see the output above"


_WITHOUT_DATA = pytest.mark.skipif(
    "FSTCRF_DATA" in os.environ, reason="these blocks run among those that need the corpora"
)


def _cases() -> Iterable[Any]:
    for page in PAGES:
        name = page.relative_to(ROOT).as_posix().removeprefix("docs/")
        runnable = [b for b in blocks(page.read_text("utf-8")) if _runnable(b)]
        quick = [b for b in runnable if not b.needs_data and not b.slow]
        with_data = [b for b in runnable if not b.slow]
        if quick:
            marks: list[pytest.MarkDecorator] = []
            if page.name not in QUICK:
                marks.append(pytest.mark.thorough)
            if len(with_data) > len(quick):
                marks.append(_WITHOUT_DATA)
            yield pytest.param(page, quick, id=name, marks=marks)
        if len(with_data) > len(quick):
            yield pytest.param(page, with_data, id=f"{name}-data", marks=[pytest.mark.corpus])
        if len(runnable) > len(with_data):
            marks = [pytest.mark.slow]
            if any(b.needs_data for b in runnable):
                marks.append(pytest.mark.corpus)
            yield pytest.param(page, runnable, id=f"{name}-slow", marks=marks)


def _runnable(block: Block) -> bool:
    return not block.not_run and block.language in SHELL | {"python", "pycon"}


@pytest.fixture
def _real_packages() -> Iterator[None]:
    """Take drop-ins that a page has installed out again: other tests compare them with the real."""

    def there() -> dict[str, ModuleType]:
        names = tuple(DROP_INS)
        return {key: m for key, m in sys.modules.items() if key.split(".")[0] in names}

    before = there()
    yield
    for key in there():
        del sys.modules[key]
    sys.modules.update(before)


@pytest.mark.usefixtures("_real_packages")
@pytest.mark.parametrize(("page", "selected"), list(_cases()))
def test_page(
    page: Path,
    selected: list[Block],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
) -> None:
    if any(block.needs_data for block in selected):
        monkeypatch.setenv("FSTCRF_DATA", str(request.getfixturevalue("data")))
    monkeypatch.chdir(tmp_path)
    run(page, selected)


def has_session(module: str) -> bool:
    path = ROOT / module.replace(".", "/")
    source = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    return ">>> " in source.read_text("utf-8")


@pytest.mark.thorough
@pytest.mark.parametrize("name", [name for name in ("fstcrf", *MODULES) if has_session(name)])
def test_docstrings(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    module = importlib.import_module(name)
    assert doctest.testmod(module, optionflags=FLAGS).failed == 0, "see the output above"


PAGE = """\
<!-- needs data -->
<!-- slow -->
```python
x = 1
```

<!-- not run: it needs the network -->
```console
$ echo no
```

1. A list:

   ```sh
   $ echo one \\
   > two
   one two
   $ cat > f <<'EOF'
   inside
   EOF
   ```
"""


def test_blocks_carry_their_marks_and_lines() -> None:
    first, second, third = blocks(PAGE)
    assert (first.needs_data, first.slow, first.not_run) == (True, True, False)
    assert (first.line, first.text) == (4, "x = 1")
    assert second.not_run
    assert commands(third) == ["echo one \\\ntwo", "cat > f <<'EOF'\ninside\nEOF"]


def test_a_failing_command_fails_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(pytest.fail.Exception, match=r"page\.md:7: exit 3: exit 3"):
        run(Path("page.md"), [Block("sh", 7, "$ exit 3")])


def test_a_console_block_without_a_prompt_is_an_error() -> None:
    with pytest.raises(AssertionError, match="no line starts with"):
        commands(Block("sh", 1, "make test"))
