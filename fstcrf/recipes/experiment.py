"""Experiments: the inputs of a run, its saved parts, and its execution.

Each part of the work uses the `Setting`: finished parts are saved and shown before the rest begins,
so that a run that ended early continues from there.
"""

from __future__ import annotations

import datetime as dt
import fcntl
import hashlib
import os
import re
import time
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Generic, TypeVar

import msgspec
import numpy as np

from fstcrf.errors import DataError, OptionError
from fstcrf.files import atomic_write, check_writable
from fstcrf.lazy import made_once
from fstcrf.recipes.report import FILES, Report, Result, Row, provenance, write
from fstcrf.taggers import CRF

T = TypeVar("T")

THREADS = min(2, os.cpu_count() or 1)  # threads that recipes train with


# --- Finished parts -------------------------------------------------------------------------------


class _File(msgspec.Struct, frozen=True):
    part: str
    about: str
    date: str
    code: str
    value: msgspec.Raw
    seconds: float = 0.0  # of the processor, since the part before
    run: str = ""  # the fingerprint of the run


_CLAIMS = "claims"


class Parts:
    """The saved parts of a run: files ``NAME-KEY.json`` of a folder; without one, nothing is saved.

    The key comes from the fingerprint of the run, the name of the part and its dependencies, so
    that parts of other runs may be in the same folder and are never confused. Several processes may
    use one folder: each claims the part that it makes.
    """

    def __init__(self, folder: Path | None = None, run: str = "", code: str = "") -> None:
        self.folder, self.run, self.code = folder, run, code
        self.count = 0
        self._earlier: dict[Path, _File] = {}
        self._made: set[Path] = set()
        self._begun = _processor_seconds()

    def get(self, name: str, kind: type[T], about: object = None) -> T:
        """Return a saved part, of a type that msgspec supports; KeyError if it is not saved.

        `about`: dependencies of the part besides recipe, options and data, distinguished by `repr`.
        """
        path = self._path(name, about, "json")
        if path is None or not path.exists():
            raise KeyError(name)
        try:
            kept = msgspec.json.decode(path.read_bytes(), type=_File)
            value = msgspec.json.decode(kept.value, type=kind, dec_hook=_array)
        except (msgspec.DecodeError, UnicodeDecodeError):
            raise KeyError(name) from None
        if path not in self._made:
            self.count += path not in self._earlier
            self._earlier[path] = kept
        return value

    def put(self, name: str, value: object, about: object = None) -> None:
        """Keep a part."""
        encoded = msgspec.Raw(msgspec.json.encode(value, enc_hook=_plain))
        path = self._path(name, about, "json", made=True)
        if path is None:
            return
        date = dt.datetime.now(dt.UTC).isoformat(timespec="seconds")
        now = _processor_seconds()
        kept = _File(name, repr(about), date, self.code, encoded, now - self._begun, self.run)
        self._begun = now
        with atomic_write(path) as file:
            file.write(msgspec.json.encode(kept))
        self.count += path not in self._made
        self._made.add(path)

    @contextmanager
    def claimed(self, name: str, about: object = None, *, wait: bool = True) -> Iterator[bool]:
        """Hold a part during its making; false if another process holds it and `wait` is false."""
        if self.folder is None:
            yield True
            return
        place = int(self._key(name, about), 16)
        with suppress(OSError):  # a file system without locks: work is done twice
            try:
                fcntl.lockf(self._claims, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB), 1, place)
            except BlockingIOError:
                yield False
                return
        try:
            yield True
        finally:
            with suppress(OSError):
                fcntl.lockf(self._claims, fcntl.LOCK_UN, 1, place)

    @made_once
    def _claims(self) -> int:
        """The open file of claims: to close it would let all of them go."""
        assert self.folder is not None  # noqa: S101 (nothing is claimed without one)
        self.folder.mkdir(parents=True, exist_ok=True)
        file = os.open(self.folder / _CLAIMS, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        weakref.finalize(self, os.close, file)
        return file

    def forget_empty(self) -> None:
        """Remove the folder if it has no parts."""
        if self.folder is not None and [path.name for path in self.folder.glob("*")] == [_CLAIMS]:
            (self.folder / _CLAIMS).unlink()
            self.folder.rmdir()

    def file(self, name: str, suffix: str, about: object = None) -> Path | None:
        """Return the path of a part with a separate file, such as a model; `None` if not saved."""
        return self._path(name, about, suffix, made=True)

    def earlier(self) -> str:
        """Describe the parts from earlier runs, and their code versions; empty without any."""
        if not self._earlier:
            return ""
        codes = ", ".join(sorted({kept.code for kept in self._earlier.values()}))
        first = min(kept.date for kept in self._earlier.values())
        return f"{len(self._earlier)} parts, from {first}, by fstcrf {codes}"

    def hours(self) -> float:
        """Return hours of the processor, of this run and of all its parts that the folder keeps."""
        seconds = _processor_seconds() - self._begun
        for path in () if self.folder is None else self.folder.glob("*.json"):
            with suppress(msgspec.DecodeError, UnicodeDecodeError):
                kept = msgspec.json.decode(path.read_bytes(), type=_File)
                seconds += kept.seconds if kept.run in ("", self.run) else 0.0
        return seconds / 3600.0

    def _path(self, name: str, about: object, suffix: str, *, made: bool = False) -> Path | None:
        if self.folder is None:
            return None
        if made:
            self.folder.mkdir(parents=True, exist_ok=True)
        slug = re.sub(r"[^a-z0-9.]+", "-", name.lower()).strip("-.")[:60]
        return self.folder / f"{slug}-{self._key(name, about)}.{suffix}"

    def _key(self, name: str, about: object) -> str:
        return _digest([self.run, name, repr(about)])


def _processor_seconds() -> float:
    used = os.times()
    return used.user + used.system + used.children_user + used.children_system


def fastest(work: Callable[[], object]) -> float:
    """Return the seconds of the processor that the fastest of three passes takes."""

    def once() -> float:
        began = time.process_time()
        work()
        return time.process_time() - began

    return min(once() for _ in range(3))


def fingerprint(files: Iterable[Path], options: Mapping[str, object]) -> str:
    """Return the digest of a run's inputs: contents of files, options."""
    contents = [hashlib.sha256(path.read_bytes()).hexdigest() for path in files]
    return _digest([*contents, *(f"{name}={value!r}" for name, value in options.items())])


def _digest(strings: Iterable[str]) -> str:
    digest = hashlib.sha256()
    for string in strings:
        digest.update(string.encode())
        digest.update(b"\0")
    return digest.hexdigest()[:12]


def _array(_: type, value: Any) -> Any:
    return np.asarray(value, dtype=np.int64)  # of `SpanCounts`; there are no others


def _plain(value: Any) -> Any:
    if isinstance(value, np.generic | np.ndarray):
        return value.tolist()
    raise TypeError(f"a part of a run holds {type(value).__name__}, which JSON has no form for")


# --- What a recipe is, and what it is given -------------------------------------------------------


class WorkCourse:
    """The progress of a run; `until` sets the share of the whole at the end of the next work.

    Loops go by `each`, which divides that evenly; they may be nested.
    """

    def __init__(self) -> None:
        self.share = 0.0
        self._end = 1.0

    def until(self, share: float) -> None:
        """Note that a part is done, and at which share of the whole, 0 to 1, the next one ends."""
        self.share = self._end if self._end < 1.0 else self.share
        self._end = share

    def each(self, items: Iterable[T]) -> Iterator[T]:
        """Yield the items of a loop; each takes an equal part of the next work."""
        several, begun, end = list(items), self.share, self._end
        for k, item in enumerate(several):
            self._end = begun + (end - begun) * (k + 1) / len(several)
            yield item
            self.share = self._end
        self.share = self._end = end


@dataclass(frozen=True, slots=True)
class Work(Generic[T]):
    """A part that is to be made, or taken from an earlier run: see `Setting.kept`."""

    name: str
    make: Callable[[], T]
    about: object = None


@dataclass(frozen=True, slots=True)
class Setting:
    """The inputs of a run, its finished parts, and its results so far."""

    data: Path  # the folder of the corpora
    report: Path | None = None  # the folder of the report, for plots; it exists
    full: bool = False  # everything, including slow parts
    seed: int = 0
    say: Callable[[str], None] = lambda _: None  # receives one line about the current work
    parts: Parts = field(default_factory=Parts)
    found: Result = field(default_factory=Result)
    course: WorkCourse = field(default_factory=WorkCourse)

    def files(self, pattern: str) -> list[Path]:
        """Return the sorted files of the data folder that match a pattern; DataError if none."""
        found = sorted(self.data.glob(pattern))
        if not found:
            raise DataError(f"no {pattern} in this folder", path=str(self.data))
        return found

    def plot(self, name: str) -> Path | None:
        """Return the path of a plot, in a folder made for plots; `None` without a report."""
        if self.report is None:
            return None
        folder = self.report / "plots"
        folder.mkdir(exist_ok=True)
        return folder / name

    def drawn(self, name: str, draw: Callable[[Path], None]) -> list[str]:
        """Draw a plot; return its path in a list, or [] without a report or matplotlib."""
        path = self.plot(name)
        if path is None:
            return []
        try:
            draw(path)
        except ImportError as error:  # its message has the reason
            self.say(f"no plot {name}: {error}")
            return []
        return [f"plots/{name}"]

    # Parts of the work: finished parts are saved and shown before the rest begins.

    def rows(self, name: str, make: Callable[[], Iterable[Row]], about: object = None) -> list[Row]:
        """Return the rows of slow work, reported one by one, and saved as by `kept`."""
        shown = len(self.found.rows)
        rows = self.kept(name, lambda: self.told(make()), list[Row], about)
        return rows if len(self.found.rows) > shown else self.told(rows)

    def kept(self, name: str, make: Callable[[], T], kind: type[T], about: object = None) -> T:
        """Return a part of a kind that JSON has a form for: of an earlier run, else made and kept.

        `about` has its dependencies besides the recipe, `full`, `seed` and the data.
        """
        return self.all_kept([Work(name, make, about)], kind)[0]

    def all_kept(self, works: Sequence[Work[T]], kind: type[T]) -> list[T]:
        """Return independent parts; parts that another process makes are last."""
        found: dict[int, T] = {}
        wait = len(works) == 1
        while len(found) < len(works):
            before = len(found)
            for k, work in enumerate(works):
                if k not in found:
                    with self.parts.claimed(work.name, work.about, wait=wait) as mine:
                        if mine:
                            found[k] = self._kept(work, kind)
                            wait = len(works) == 1
            wait = wait or len(found) == before
        return [found[k] for k in range(len(works))]

    def _kept(self, work: Work[T], kind: type[T]) -> T:
        try:
            value = self.parts.get(work.name, kind, work.about)
        except KeyError:
            value = work.make()
            self.parts.put(work.name, value, work.about)
            return value
        self.say(f"{work.name}: from an earlier run")
        return value

    def tagger(self, name: str, make: Callable[[], CRF], about: object = None) -> CRF:
        """Return a tagger: from an earlier run, else trained and kept, as `kept` does."""
        return self.trained(name, lambda: (make(), ""), str, about)[0]

    def trained(
        self, name: str, make: Callable[[], tuple[CRF, T]], kind: type[T], about: object = None
    ) -> tuple[CRF, T]:
        """Return a tagger and its results: `tagger` and `kept` in one."""
        path = self.parts.file(name, "fstcrf", about)
        with self.parts.claimed(name, about):
            if path is not None and path.exists():
                with suppress(KeyError):
                    known = self.parts.get(name, kind, about)
                    self.say(f"{name}: from an earlier run")
                    return CRF.load(path), known
            tagger, facts = make()
            if path is not None:
                tagger.save(path)  # first: facts without their tagger are of no use
            self.parts.put(name, facts, about)
        return tagger, facts

    def section(self, text: str) -> str:
        """Return a section of the report, which is also written if the run ends early."""
        self.found.sections.append(text)
        return text

    def told(self, rows: Iterable[Row]) -> list[Row]:
        """Return rows, each shown when it is ready: for rows that are fast to make again."""
        told = []
        for row in rows:
            told.append(row)
            self.found.rows.append(row)
            self.say(str(row))
        return told


@dataclass(frozen=True, slots=True)
class Recipe:
    """An experiment."""

    name: str  # as ``fstcrf recipe NAME`` has it
    title: str  # one line about its subject
    needs: tuple[str, ...]  # patterns of files that must be in the data folder
    paper: str  # heading of the published numbers: a citation, or a compared program
    run: Callable[[Setting], Result]
    packages: tuple[str, ...] = ()  # whose versions belong into the report
    # Increased when saved parts are outdated: they are identified only by settings and data.
    revision: int = 1


def run_recipe(recipe: Recipe, setting: Setting) -> Report:
    """Run a recipe; write its report if the setting has a folder for it.

    A run that ends early, by Ctrl-C or an error, writes a report of its results so far. Saved parts
    (`Setting.rows`, `kept`, `tagger`) are used by the next run with the same folder.
    """
    files = [path for pattern in recipe.needs for path in setting.files(pattern)]
    folder = setting.report
    new = folder is not None and not folder.exists()
    if folder is not None:  # errors of writing should occur before the work
        if folder.exists() and not folder.is_dir():
            raise OptionError(f"{folder} is a file, expected a folder for the report")
        folder.mkdir(parents=True, exist_ok=True)
        for name in FILES:
            check_writable(folder / name)
    facts = provenance(recipe.packages)
    setting = replace(setting, found=Result())
    if folder is not None:
        options = {"recipe": recipe.name, "full": setting.full, "seed": setting.seed}
        options |= {"revision": recipe.revision} if recipe.revision > 1 else {}
        run = fingerprint(files, options | {"version": facts["fstcrf"].partition(",")[0]})
        parts = Parts(folder / f"work-seed-{setting.seed}", run, facts["fstcrf"])
        setting = replace(setting, parts=parts)
    started = time.perf_counter()
    try:
        result = recipe.run(setting)
    except BaseException as error:
        _leave(recipe, setting, _facts(facts, setting, started), error)
        if new and folder is not None:
            with suppress(OSError):  # there is something in it
                setting.parts.forget_empty()
                folder.rmdir()
        raise
    report = _report(recipe, result, _facts(facts, setting, started))
    if folder is not None:
        write(report, folder)
    return report


def _report(recipe: Recipe, result: Result, facts: Mapping[str, str], ended: str = "") -> Report:
    return Report(recipe.name, recipe.title, recipe.paper, result, facts, ended)


def _facts(facts: Mapping[str, str], setting: Setting, started: float) -> dict[str, str]:
    seconds = time.perf_counter() - started
    more = {"seed": str(setting.seed), "wall clock": f"{seconds:.1f} s"}
    more["processor"] = f"{setting.parts.hours():.2f} h, earlier runs among it"
    more["extent"] = "full" if setting.full else "quick"
    if earlier := setting.parts.earlier():
        more["of earlier runs"] = earlier
    return {**facts, **more}


def _leave(
    recipe: Recipe, setting: Setting, facts: Mapping[str, str], error: BaseException
) -> None:
    interrupted = isinstance(error, KeyboardInterrupt)
    why = "interrupted" if interrupted else f"{type(error).__name__}: {error}"
    folder, found = setting.report, setting.found
    if folder is None:
        if interrupted:
            setting.say("nothing is kept without --output: the same command begins anew")
        return
    if not (setting.parts.count or found.rows or found.sections):
        return
    kept = f"{setting.parts.count} finished parts are kept: the same command goes on from there"
    if found.rows or found.sections:
        write(_report(recipe, found, facts, f"{why} after {facts['wall clock']}"), folder)
        kept = f"report.md, results.json of what was found until now; {kept}"
    setting.say(f"{folder}: {kept}")
