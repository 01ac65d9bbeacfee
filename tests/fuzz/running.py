"""Reading mutated files: each is read, or refused by one error, in bounded memory.

=========  =====================================================
run        read some mutated files of a format
Finding    a file that a reader does not deal with as it should
Tally      how many were read and refused, and the largest peak
=========  =====================================================
"""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from random import Random

from fstcrf.errors import FstcrfError
from tests.fuzz.mutation import mutated
from tests.fuzz.target import Target

__all__ = ["CONSTANT", "FACTOR", "Finding", "Tally", "run"]

FACTOR, CONSTANT = 20, 2_000_000
"""Reading and using a file of n bytes takes at most FACTOR · n + CONSTANT bytes."""


@dataclass(frozen=True, slots=True)
class Finding:
    """A file that a reader does not deal with as it should.

    Parameters
    ----------
    number : int
        With the name of the format and the seed it makes the file again.
    data : bytes
    what : str
    """

    number: int
    data: bytes
    what: str


@dataclass(slots=True)
class Tally:
    """What became of the files.

    Parameters
    ----------
    read, refused : int
    peak : int
        Most memory that a file took, in bytes.
    findings : list of Finding
    """

    read: int = 0
    refused: int = 0
    peak: int = 0
    findings: list[Finding] = field(default_factory=list)


def run(target: Target, numbers: range, *, seed: int = 0) -> Tally:
    """Read the mutated files of some numbers."""
    tally = Tally()
    seeds = target.seeds()
    for data in seeds:  # sound, and imports are done
        made = target.read(data)
        with suppress(FstcrfError):
            target.use(made)
    tracemalloc.start()
    try:
        for number, data in _files(target, seeds, numbers, seed):
            _one(target, number, data, tally)
    finally:
        tracemalloc.stop()
    return tally


def _files(
    target: Target, seeds: list[bytes], numbers: range, seed: int
) -> Iterator[tuple[int, bytes]]:
    for number in numbers:
        random = Random(f"{target.name} {seed} {number}")
        data = mutated(seeds, random)
        if target.change is not None and random.random() < 0.5:
            data = target.change(random.choice(seeds), random)
        elif target.repair is not None and random.random() < 0.5:
            data = target.repair(data)
        yield number, data


def _one(target: Target, number: int, data: bytes, tally: Tally) -> None:
    before = tracemalloc.get_traced_memory()[0]
    tracemalloc.reset_peak()
    try:
        model = target.read(data)
    except target.refuses as error:
        tally.refused += 1
        if "\n" in str(error):
            tally.findings.append(Finding(number, data, f"several lines: {error!r}"))
    except Exception as error:  # noqa: BLE001 (it is what is looked for)
        tally.findings.append(Finding(number, data, f"reading: {error!r}"))
    else:
        tally.read += 1
        try:
            target.use(model)
        except FstcrfError:
            pass  # weights may be such that nothing can be computed
        except Exception as error:  # noqa: BLE001
            tally.findings.append(Finding(number, data, f"using: {error!r}"))
    peak = tracemalloc.get_traced_memory()[1] - before
    tally.peak = max(tally.peak, peak)
    if peak > FACTOR * len(data) + CONSTANT:
        what = f"{peak:,} bytes of memory for a file of {len(data):,}"
        tally.findings.append(Finding(number, data, what))
