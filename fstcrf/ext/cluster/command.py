"""``fstcrf tag`` of many files into a folder: here, in processes, or by workers of Dask."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import click

import fstcrf
from fstcrf.cli.files import FileTagger
from fstcrf.cli.models import model_files
from fstcrf.cli.options import flag_of, input_files, spare_inputs
from fstcrf.cli.progress import Meter, listening, progress, visible
from fstcrf.cli.questions import files_read
from fstcrf.cli.reporting import Failure, say
from fstcrf.cli.tagging import Outcomes
from fstcrf.errors import DataError, ModelFileError, OptionError
from fstcrf.ext.arrow.command import TableColumns, check_options, is_parquet, table_columns
from fstcrf.ext.cluster.client import through_dask
from fstcrf.ext.cluster.connection import connected
from fstcrf.ext.cluster.files import Record, TextFile, digest, head_of, parts_of
from fstcrf.ext.cluster.processes import through_processes
from fstcrf.ext.cluster.work import (
    Counts,
    FileOutcome,
    FileShare,
    FileTask,
    FileWork,
    Heard,
    heard,
    perform,
)


class Through(Protocol):
    """Does tasks, and reports their progress to a listener."""

    def __call__(
        self, tasks: Iterable[FileTask], /, *, hears: Heard | None = None
    ) -> Iterator[FileOutcome]:
        """Yield the outcomes of tasks as they end."""


_HOW = frozenset({"threads"})
"""Options that outputs do not depend on."""


@dataclass(frozen=True, slots=True)
class FolderRun:
    """Files into a folder: which, where to, and who does it."""

    inputs: tuple[str, ...]
    folder: str
    workers: int | None
    dask: str | None
    overwrite: bool


def tag_folder(model_path: str, options: dict[str, Any], run: FolderRun) -> None:
    """Tag files into a folder, except files that are already finished there.

    Raises
    ------
    click.UsageError
        Options that do not go together, or not with these files.
    OptionError, DataError
        As for `parts_of` and `Record.opened`.
    Failure
        Some files could not be tagged; each has been named.
    """
    _check(run)
    parts = parts_of(run.inputs, run.folder)
    for part in parts:
        spare_inputs(part.target, [*model_files(model_path), *files_read(options)])
    tagger = FileTagger.of(model_path, options)
    tables = [part.source for part in parts if _is_table(part.source)]
    if tables:
        check_options(options)
    if len(tables) < len(parts):
        tagger.check_text()
    columns = _columns(tagger, tables)
    job = _job(model_path, options, columns, whole=run.dask is not None)
    settings = _settings(job)
    with (
        _through(run) as through,
        Record.opened(run.folder, parts, settings, overwrite=run.overwrite) as record,
    ):
        left = [part for part in parts if not record.has(part)]
        job = replace(job, record=(_absolute(str(record.path)), head_of(record.path)))
        here = run.dask is None and run.workers is None
        tasks = _tasks(_Ready(partial(_tagged, tagger, columns)) if here else job, left, run)
        try:
            totals = _done(through, tasks, record, left)
        finally:
            record.sweep(parts)
    _finish(run, totals, len(parts), len(left))


def _check(run: FolderRun) -> None:
    if run.dask is not None and run.workers is not None:
        raise click.UsageError("--set dask and --workers cannot be used together: give only one")
    if run.folder == "-":
        raise click.UsageError("several files are tagged into a folder: -o FOLDER/")
    if not run.inputs or "-" in run.inputs:
        raise click.UsageError("standard input cannot be tagged into a folder: name the files")


def _is_table(path: str) -> bool:
    try:
        return is_parquet(path)
    except OSError:  # the task of this file reports the reason
        return path.endswith(".parquet")


def _columns(tagger: FileTagger, tables: Sequence[str]) -> TableColumns | None:
    """Return the columns of the first sound Parquet file."""
    for path in tables:
        try:
            return table_columns(tagger.tagger(), path, tagger.options)
        except (DataError, OSError):  # the task of this file reports the reason
            continue
    return None


def _tasks(job: Any, parts: Sequence[TextFile], run: FolderRun) -> list[FileTask]:
    """Return the tasks of a run; with several workers, the largest first."""
    if run.dask is not None:
        parts = [replace(p, source=_absolute(p.source), target=_absolute(p.target)) for p in parts]
    if run.dask is not None or run.workers is not None:
        parts = sorted(parts, key=lambda part: -part.size)
    return [FileTask(job, part) for part in parts]


@contextmanager
def _through(run: FolderRun) -> Iterator[Through]:
    """Yield the function that does tasks and yields their outcomes."""
    if run.dask is not None:
        with connected(run.dask) as client:
            yield partial(through_dask, client)
    elif run.workers is not None:
        yield partial(through_processes, count=run.workers)
    else:
        yield _here


def _here(tasks: Iterable[FileTask], *, hears: Heard | None = None) -> Iterator[FileOutcome]:
    """Do tasks in this process, one after the other."""
    return (perform(task, hears) for task in tasks)


class _Far:
    """The progress of a run: finished files, and finished parts of current files."""

    def __init__(self, parts: Sequence[TextFile], meter: Meter) -> None:
        self._sizes, self._meter = {part.name: part.size for part in parts}, meter
        self._size, self._read, self._sentences = sum(self._sizes.values()), 0, 0
        self._within: dict[str, FileShare] = {}
        self._ended: set[str] = set()
        meter.measured(self._share)

    def hears(self, far: FileShare) -> None:
        """Record the progress of a file; a late report about a finished file is ignored."""
        if far.name not in self._ended:
            self._within[far.name] = far
            self._count()

    def ended(self, outcome: FileOutcome) -> None:
        """Record the outcome of a file."""
        self._ended.add(outcome.part.name)
        self._within.pop(outcome.part.name, None)
        self._read += outcome.part.size
        self._sentences += outcome.counts.get("sentences", 0)
        self._count()

    def _count(self) -> None:
        within = sum(far.sentences for far in list(self._within.values()))
        self._meter.done = self._sentences + within

    def _share(self) -> float | None:
        parts = list(self._within.values())  # another thread may hear
        read = sum(self._sizes.get(far.name, 0) * (far.share or 0.0) for far in parts)
        return (self._read + read) / self._size if self._size else None


def _done(
    through: Through, tasks: Sequence[FileTask], record: Record, parts: list[TextFile]
) -> Counter[str]:
    """Record successes, report failures, and return totals."""
    totals: Counter[str] = Counter()
    with progress(f"tagging {len(parts):,} files") as meter:
        far, shown = _Far(parts, meter), visible()
        if shown:
            tasks = [replace(task, told=True) for task in tasks]
        for outcome in through(tasks, hears=far.hears if shown else None):
            far.ended(outcome)
            if outcome.entry is not None:
                record.add(outcome.entry)
                totals.update(outcome.counts)
                continue
            totals["failed"] += 1
            where = f"{outcome.where}: " if outcome.ends and outcome.where else ""
            if outcome.ends:
                raise Failure(f"{where}{outcome.error}; to continue, run the same command again")
            say(f"{outcome.error}")
    return totals


def _finish(run: FolderRun, totals: Counter[str], total: int, left: int) -> None:
    failed, unlike = totals.pop("failed", 0), totals.pop("unlike", 0)
    if unlike:
        files = "a file has" if unlike == 1 else f"{unlike:,} files have"
        say(f"warning: {files} other columns than the first; each output has those of its input")
    names = {name: n for name, n in totals.items() if name != "sentences"}
    Outcomes(**names).report()
    if failed:
        files = "a file" if left == 1 else f"{failed} of {left} files"
        raise Failure(
            f"{files} could not be tagged (see the errors above); to try again, run the "
            "same command"
        )
    before = f", {total - left:,} were finished before" if left < total else ""
    tagged = f"{left:,} file{'s' * (left != 1)}, {totals['sentences']:,} sentences{before}"
    say(f"{run.folder}: {tagged}")


# --- What is done to a file, here or elsewhere ----------------------------------------------------


@dataclass(frozen=True, slots=True)
class _TagJob:
    """A model and options, for processes elsewhere, which look whether they read the same files."""

    model_path: str
    options: tuple[tuple[str, Any], ...]
    columns: TableColumns | None
    digests: tuple[tuple[str, str], ...]
    record: tuple[str, bytes] | None = None  # the path of the run's record, and its first bytes

    def prepared(self) -> FileWork:
        """Load the model."""
        for path, wanted in self.digests:
            if digest(path) != wanted:
                raise ModelFileError(
                    f"{path}: differs from the file on the machine that started the run: copy "
                    "that file here"
                )
        if self.record is not None and head_of(self.record[0]) != self.record[1]:
            folder = Path(self.record[0]).parent
            raise DataError(
                "this is not the folder of the machine that started the run: the output "
                "folder must be on a file system that all machines share",
                path=str(folder),
            )
        with _worded():
            tagger = FileTagger.of(self.model_path, dict(self.options))
        return partial(_tagged, tagger, self.columns)


@dataclass(frozen=True, slots=True)
class _Ready:
    """A job with work that is ready in this process."""

    work: FileWork

    def prepared(self) -> FileWork:
        """Return the work."""
        return self.work


def _tagged(tagger: FileTagger, columns: TableColumns | None, path: str, output: str) -> Counts:
    with _worded(), listening(heard()):
        unlike = False
        if columns is not None and is_parquet(path):
            found = table_columns(tagger.tagger(), path, tagger.options)
            _check_same(found.sentences, columns.sentences, path)
            unlike = found.names != columns.names
        return {**asdict(tagger.tag(path, output)), "unlike": int(unlike)}


def _check_same(found: tuple[str, ...], columns: tuple[str, ...], path: str) -> None:
    """Refuse a file with sentences in other columns than the first file."""
    if found != columns:
        raise DataError(
            f"the sentences are in column {', '.join(found)}, but in "
            f"{', '.join(columns)} in earlier files: choose one with --columns NAME",
            path=path,
        )


@contextmanager
def _worded() -> Iterator[None]:
    """Raise usage errors as errors that other processes know."""
    try:
        yield
    except click.ClickException as error:
        raise OptionError(error.format_message()) from None


def _job(
    model_path: str, options: dict[str, Any], columns: TableColumns | None, *, whole: bool
) -> _TagJob:
    """Return the job; with `whole` names of files, for other working folders."""

    def named(path: str) -> str:
        return _absolute(path) if whole else path

    def file(given: str) -> str:
        """Return ``[TAPE=]FILE`` with the whole name of a file that is there."""
        tape, equals, name = given.rpartition("=")
        if not Path(given).is_file() and Path(name).is_file():
            return f"{tape}{equals}{named(name)}"
        return named(given) if Path(given).is_file() else given

    own = dict(options)
    for name in ("grammar", "document_consistency"):
        own[name] = tuple(map(file, own[name]))
    if own["calibration"] is not None:
        own["calibration"] = named(own["calibration"])
    model = named(model_path)
    inputs = (*own["grammar"], *own["document_consistency"], own["calibration"])
    files = [*model_files(model), *input_files(inputs)]
    digests = tuple((path, digest(path)) for path in dict.fromkeys(files))
    return _TagJob(model, tuple(sorted(own.items())), columns, digests)


def _absolute(path: str) -> str:
    return str(Path(path).absolute())


def _settings(job: _TagJob) -> dict[str, Any]:
    """Return the settings that outputs depend on, under the users' names."""
    context = click.get_current_context()
    usual = {parameter.name: parameter for parameter in context.command.params}
    given: dict[str, Any] = {}
    known = dict(job.digests)
    model = [known[path] for path in model_files(job.model_path)]
    for name, value in job.options:
        parameter = usual[name]
        if name in _HOW or value == parameter.get_default(context):
            continue
        if value in (None, (), False):
            continue
        flag = flag_of(parameter)
        given[flag] = (
            [_content(one, known) for one in value]
            if isinstance(value, tuple)
            else (_content(value, known))
        )
    return {
        "fstcrf": fstcrf.__version__,
        "model": model[0] if len(model) == 1 else model,
        **({} if job.columns is None else {"column of sentences": list(job.columns.sentences)}),
        **given,
    }


def _content(value: Any, known: dict[str, str]) -> Any:
    """Return a value; of the name of a file its content."""
    if not isinstance(value, str):
        return value
    tape, equals, name = value.rpartition("=")
    if value in known:
        return known[value]
    return f"{tape}{equals}{known[name]}" if name in known else value
