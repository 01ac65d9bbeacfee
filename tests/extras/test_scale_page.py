"""The programs of the page about serving, each as it stands there, in its own process."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from tests.test_docs import DOCS, ROOT, Block, blocks, commands

pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")

pytestmark = pytest.mark.extras

PAGE = (DOCS / "guides" / "serving.md").read_text("utf-8")
MARK = "<!-- not run: tests/extras/test_scale_page.py runs it -->\n```"
MINE = [part.split("\n```")[0].partition("\n")[2] for part in PAGE.split(MARK)[1:]]
PROGRAMS = [b for b in blocks(PAGE) if b.language == "python" and b.text.strip() in MINE]
COMMANDS = [b for b in blocks(PAGE) if b.language == "console" and b.text.strip() in MINE]
ENGINES = {"pyspark": 4000, "ray": 4000, "dask": 4000}


def ran(command: Sequence[str], folder: Path) -> None:
    binaries = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    quiet = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_AUTH_MODE": "disabled"}
    done = subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, **quiet, "PYTHONPATH": path, "PATH": binaries},
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the model, the inputs, and the outputs of the commands."""
    found = tmp_path_factory.mktemp("scale")
    ran([sys.executable, "-c", PROGRAMS[0].text], found)
    for block in COMMANDS:
        ran(["bash", "-euo", "pipefail", "-c", "\n".join(commands(block))], found)
    return found


def rows(path: Path) -> dict[int, Any]:
    """Return the rows of a Parquet file, or of all in a folder, by their pages."""
    files = sorted(path.glob("*.parquet")) if path.is_dir() else [path]
    found = [row for file in files for row in pq.ParquetFile(file).read().to_pylist()]
    return {row["page"]: row for row in found}


def program(engine: str) -> Block:
    (found,) = [
        b for b in PROGRAMS[1:] if f"import {engine}" in b.text or f"from {engine}" in b.text
    ]
    return found


def test_every_engine_has_its_program(folder: Path) -> None:
    assert len(PROGRAMS) == 1 + len(ENGINES)
    assert len({program(engine).line for engine in ENGINES}) == len(ENGINES)
    assert len(COMMANDS) == 2
    for name in ("0.parquet", "3.parquet"):
        assert (folder / "out" / name).read_bytes() == (folder / "out-2" / name).read_bytes()


@pytest.mark.parametrize("engine", ENGINES)
def test_an_engine_tags_as_the_command_does(engine: str, folder: Path, tmp_path: Path) -> None:
    if find_spec(engine) is None:
        pytest.skip(f"{engine} is not installed")
    if engine == "pyspark" and shutil.which("java") is None:
        pytest.skip("there is no Java, which Spark needs")
    shutil.copytree(folder / "in", tmp_path / "in")
    shutil.copy(folder / "ner.fstcrf", tmp_path)
    script = tmp_path / "program.py"
    script.write_text(program(engine).text)
    ran([sys.executable, str(script)], tmp_path)
    (output,) = tmp_path.glob("out*")
    found, wanted = rows(output), rows(folder / "out")
    assert len(found) == ENGINES[engine]
    assert {page: wanted[page] for page in found} == found
