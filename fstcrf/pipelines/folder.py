"""The folder of a pipeline: what has been trained, and by what.

::

    ner.fstcrf          a finished tagger
    field.checkpoint    the state of one that was interrupted
    pipeline.json       by what each tagger was trained; how the pipeline tags
    pipeline.fstcrf     all of it as one composition, once every task is finished
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import msgspec

from fstcrf.corpus.files import atomic_write, check_writable
from fstcrf.errors import ModelFileError
from fstcrf.model import load as load_tagger

if TYPE_CHECKING:
    from fstcrf.joint import Composition
    from fstcrf.model import CRF

__all__ = ["COMPOSITION", "Folder", "Manifest"]

COMPOSITION = "pipeline.fstcrf"
_MANIFEST = "pipeline.json"


class Manifest(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """What ``pipeline.json`` says."""

    format: Literal["fstcrf-pipeline"] = "fstcrf-pipeline"
    version: Literal[1] = 1
    tasks: dict[str, str] = {}  # by name, the hash of what it was trained by
    decode: Literal["cascade", "joint", "marginals"] = "cascade"
    finished: bool = False


@dataclass(frozen=True)
class Folder:
    """The folder of a pipeline; it is made before something is written."""

    path: Path

    def manifest(self) -> Manifest:
        """Return what the folder says of itself; an empty one says nothing.

        Raises
        ------
        ModelFileError
            It cannot be read as that.
        """
        file = self.path / _MANIFEST
        if not file.exists():
            return Manifest()
        try:
            return msgspec.json.decode(file.read_bytes(), type=Manifest)
        except msgspec.MsgspecError as error:
            raise ModelFileError(f"{file}: not what a pipeline writes: {error}") from None

    def check_writable(self, names: Iterable[str]) -> None:
        """Find out before tasks are trained whether all that they leave could be written.

        Raises
        ------
        OSError
            It could not.
        """
        self.path.mkdir(parents=True, exist_ok=True)
        for file in (*map(self._file, names), self.path / COMPOSITION, self.path / _MANIFEST):
            check_writable(file)

    def finished(self, name: str, mark: str) -> CRF | None:
        """Return the tagger of a task if it was trained by just that.

        The state of its training, left where a run ended just after it, is removed.
        """
        file = self._file(name)
        if self.manifest().tasks.get(name) != mark or not file.exists():
            return None
        tagger = load_tagger(file)
        self._forget(name)
        return tagger

    def checkpoint(self, name: str, mark: str, tell: Callable[[str], None]) -> Path:
        """Return the file for the state of a task's training, made ready to be resumed.

        A state that the task cannot go on from, because it is declared otherwise since, is removed,
        and `tell` is told so.
        """
        self.path.mkdir(parents=True, exist_ok=True)
        file = self.path / f"{name}.checkpoint"
        stamp = self.path / f"{name}.checkpoint.of"
        if not stamp.exists() or stamp.read_text("utf-8") != mark:
            if file.exists():
                tell(f"{name}: its data or options have changed: the state so far is dropped")
                file.unlink()
            stamp.write_text(mark, "utf-8")
        return file

    def replaced(self, name: str) -> str:
        """Say what a task's tagger will replace; nothing where there is none."""
        if name not in self.manifest().tasks or not self._file(name).exists():
            return ""
        return f", to replace the tagger that other data or options made, {self._file(name)}"

    def keep(self, name: str, mark: str, tagger: CRF) -> None:
        """Write a finished tagger, and only then that it is."""
        self.path.mkdir(parents=True, exist_ok=True)
        found = self.manifest()
        if found.tasks.pop(name, None) is not None:
            self._write(found)  # the old tagger is gone before the manifest has the new one
        tagger.save(self._file(name))
        found.tasks[name], found.finished = mark, False
        self._write(found)
        self._forget(name)

    def finish(
        self, composition: Composition, decode: Literal["cascade", "joint", "marginals"]
    ) -> None:
        """Write the whole pipeline."""
        self.path.mkdir(parents=True, exist_ok=True)
        composition.save(self.path / COMPOSITION)
        found = self.manifest()
        found.decode, found.finished = decode, True
        self._write(found)

    def _file(self, name: str) -> Path:
        return self.path / f"{name}.fstcrf"

    def _forget(self, name: str) -> None:
        for ending in ("checkpoint", "checkpoint.of"):
            (self.path / f"{name}.{ending}").unlink(missing_ok=True)

    def _write(self, manifest: Manifest) -> None:
        with atomic_write(self.path / _MANIFEST) as file:
            file.write(msgspec.json.format(msgspec.json.encode(manifest)) + b"\n")
