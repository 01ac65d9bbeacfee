"""Options of training that choose the place of work: workers, a cluster, files."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from fstcrf.cli.options import DASK, WORKERS, Parsed, setting, with_options
from fstcrf.cli.sources import InputFile
from fstcrf.lazy import LazyModule
from fstcrf.text.corpus.collection import CorpusFiles

if TYPE_CHECKING:
    from fstcrf.ext.cluster import dask
    from fstcrf.ext.parts import futures
    from fstcrf.training.executors.executor import Executor
else:  # training here does not wait for them
    dask, futures = LazyModule("fstcrf.ext.cluster.dask"), LazyModule("fstcrf.ext.parts.futures")

Command = TypeVar("Command", bound=Callable[..., Any])

_UNITS = {"": 1, "k": 1000, "m": 1000**2, "g": 1000**3, "t": 1000**4}
_BINARY = {"ki": 1 << 10, "mi": 1 << 20, "gi": 1 << 30, "ti": 1 << 40}


def _bytes(value: str) -> int:
    found = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)\s*([kmgt]i?)?b?", value.strip().lower())
    if found is None:
        raise ValueError(f"{value!r} is no size, such as 1GiB, 800MB or a number of bytes")
    return int(float(found[1]) * (_UNITS | _BINARY)[found[2] or ""])


SIZE = Parsed("SIZE", _bytes)

_OPTIONS = (
    WORKERS,
    DASK,
    setting(
        "memory_limit",
        SIZE,
        None,
        "Memory for the text, such as 1GiB. The rest of the text is kept in files of the folder "
        "TMPDIR. Index and weights are not counted.",
    ),
)


def executor_options(command: Command) -> Command:
    """Add the options that choose the place of work."""
    return with_options(_OPTIONS, command)


def spread(given: Mapping[str, Any]) -> bool:
    """Return whether a run reads its text part by part."""
    return any(given[name] is not None for name in ("dask", "workers", "memory_limit"))


def files_of(paths: Sequence[str], source: InputFile) -> CorpusFiles:
    """Return the files of a run as its workers read them.

    UsageError: standard input, which only one process can read. OSError: a file that is not there.
    """
    if "-" in paths:
        raise click.UsageError("workers read files: standard input is not one that they all have")
    for path in paths:
        with Path(path).open("rb"):
            pass
    return CorpusFiles(
        [str(Path(path).resolve()) for path in paths],
        source.columns,
        kind="conllu" if source.conllu else "parquet" if source.parquet else "columns",
        separator=source.separator,
        feature_columns=source.features,
    )


@contextmanager
def executor_of(address: str | None, workers: int | None) -> Iterator[Executor | None]:
    """Open the requested executor; `None` if all work is in this process."""
    if address is not None:
        with dask.DaskExecutor(address, workers=workers or 1) as cluster:
            yield cluster
    elif workers is not None:
        with futures.ProcessExecutor(workers) as processes:
            yield processes
    else:
        yield None
