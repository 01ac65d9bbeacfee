"""Writes golden files that are missing, and the answers of this checkout to questions about them.

    python -m tests.golden.make                             # what is missing, and its answers
    python -m tests.golden.make NAME … --because "reason"   # other answers of files that stay

A file that is there stays as it is: it shows what was written in its day. Its answers change where
they were wrong; the reason then stands beside them.
"""

from __future__ import annotations

import argparse
import json
import warnings
from pathlib import Path
from typing import Any

from tests.golden.cases import CASES, fresh, pack, stored

__all__ = ["answers", "file_of", "kept"]

FILES, ANSWERS = Path(__file__).parent / "files", Path(__file__).parent / "answers"


def file_of(name: str) -> Path:
    """Return the path of a golden file."""
    return FILES / f"{name}{CASES[name].ending}"


def kept(name: str) -> dict[str, Any]:
    """Return what is kept of a golden file: its answers, and why they are others than at first."""
    found: dict[str, Any] = json.loads((ANSWERS / f"{name}.json").read_text("utf-8"))
    return found


def answers(name: str) -> Any:
    """Return the answers of this checkout, as they come back from JSON."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return json.loads(json.dumps(fresh(file_of(name), CASES[name].ask)))


def _write(name: str) -> None:
    path = file_of(name)
    if not stored(path).exists():
        FILES.mkdir(exist_ok=True)
        CASES[name].write(path)
        for made in path.rglob("*") if path.is_dir() else [path]:
            pack(made)


def _keep(name: str, because: str | None) -> None:
    path = ANSWERS / f"{name}.json"
    reasons = kept(name)["reasons"] if path.exists() else []
    found = {"reasons": reasons + ([because] if because else []), "answers": answers(name)}
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(found, ensure_ascii=False, separators=(",", ":")) + "\n", "utf-8")


def _main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--because", metavar="REASON", help="why answers that are kept change")
    given = parser.parse_args()
    if odd := [name for name in given.names if name not in CASES]:
        parser.error(f"no golden file {odd[0]!r}; there is {', '.join(CASES)}")
    if given.names and not given.because:
        parser.error("answers change for a reason: say it with --because")
    for name in CASES:
        if not stored(file_of(name)).exists() or not (ANSWERS / f"{name}.json").exists():
            _write(name)
            _keep(name, None)
        elif name in given.names:
            _keep(name, given.because)


if __name__ == "__main__":
    _main()
