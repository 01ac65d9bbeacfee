"""Running the command line in tests: within this process, or in one of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from fstcrf.cli import main

ROOT = Path(__file__).resolve().parent.parent


def run(*arguments: object, given: str | bytes | None = None) -> Result:
    """Run ``fstcrf ARGUMENTS`` in this process."""
    return CliRunner().invoke(main, [str(a) for a in arguments], input=given)


def done(*arguments: object, given: str | bytes | None = None) -> str:
    """Run ``fstcrf ARGUMENTS``, which must succeed; return what it printed."""
    result = run(*arguments, given=given)
    assert result.exit_code == 0, result.stderr
    return result.stdout


def failure(*arguments: object, status: int = 1, given: str | bytes | None = None) -> str:
    """Run ``fstcrf ARGUMENTS``, which must fail with one line on stderr; return that line."""
    result = run(*arguments, given=given)
    assert result.exit_code == status, result.stderr
    lines = [line for line in result.stderr.splitlines() if line.startswith("fstcrf: error: ")]
    assert len(lines) == 1, result.stderr
    assert result.stderr.splitlines()[-1] == lines[0]
    return lines[0].removeprefix("fstcrf: error: ")


def start(*arguments: object, **options: Any) -> subprocess.Popen[str]:
    """Start ``fstcrf ARGUMENTS`` as a process, with pipes for what it prints."""
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    return subprocess.Popen(
        program(*arguments),
        text=True,
        env={**os.environ, "PYTHONPATH": path},
        **(pipes | options),
    )


def program(*arguments: object) -> Sequence[str]:
    """Return the command line of ``fstcrf ARGUMENTS``."""
    return [sys.executable, "-m", "fstcrf.cli", *map(str, arguments)]


def into_folder_with(models: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Work in a folder with links to models."""
    monkeypatch.chdir(folder)
    for path in models.iterdir():
        Path(path.name).symlink_to(path)
