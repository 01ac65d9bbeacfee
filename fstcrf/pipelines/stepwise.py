"""Taggers one after the other, by the best labels or by the posteriors of those before them."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from fstcrf.corpus import Column, Corpus
from fstcrf.features.template import tape_column
from fstcrf.lattice import Lattice, Path, best, nbest
from fstcrf.lattice.path import labels_of_tapes
from fstcrf.model import passing

if TYPE_CHECKING:
    from fstcrf.joint.composition import Composition

__all__ = ["Steps", "steps"]

Floats = NDArray[np.float64]

_ANY = Path((), 0.0, 1.0, exact=True, bound=0.0)
"""Of a tape that does not count: all its labellings together."""


@dataclass(frozen=True, slots=True, eq=False)
class Steps:
    """What the taggers found, one after the other.

    Parameters
    ----------
    composition : Composition
    offsets : int64 [S + 1]
        Bounds of the sentences; none is empty.
    ids : dict of str to int32 [N]
        The best labels of each tape.
    tables : dict of str to float64 [N, L]
        Posterior of each label.
    logs : dict of str to float64 [S]
        Log probability of the best labels, tape by tape.
    last : list of Lattice
        Of the last tagger.
    """

    composition: Composition
    offsets: NDArray[np.int64]
    ids: dict[str, NDArray[np.int32]]
    tables: dict[str, Floats]
    logs: dict[str, Floats]
    last: list[Lattice]

    @property
    def columns(self) -> tuple[Column, ...]:
        """The best labels, a column for each tape of the composition."""
        sets = self.composition.label_sets
        return tuple(Column(self.ids[tape], sets[tape]) for tape in self.composition.tapes)

    def nothing(self, tapes: Sequence[str]) -> Path:
        """Return the labels of an empty sentence."""
        return Path(labels_of_tapes([() for _ in tapes]), 0.0, 1.0, exact=True, bound=0.0)

    def nbest(self, n: int, threads: int, tapes: Sequence[str]) -> list[list[Path]]:
        """Return the n best labellings of the last tape, after the best ones of the others.

        Labels, scores and probabilities are those of some tapes; there is one labelling where the
        last one is not among them.
        """
        tape = self.composition.order[-1]
        before = sum(
            (rows for name, rows in self.logs.items() if name != tape and name in tapes),
            start=np.zeros(len(self.offsets) - 1),
        )
        strings = {
            t: c.strings() for t, c in zip(self.composition.tapes, self.columns, strict=True)
        }
        found = []
        bounds = itertools.pairwise(self.offsets.tolist())
        counted = tape in tapes
        ranked = nbest(self.last, n, threads=threads) if counted else [[_ANY]] * len(self.last)
        for (a, b), paths, log in zip(bounds, ranked, before.tolist(), strict=True):
            earlier = {t: tuple(labels[a:b]) for t, labels in strings.items()}
            found.append(
                [_path({**earlier, tape: path.labels}, tapes, path, log) for path in paths]
            )
        return found


def _path(labels: dict[str, tuple[str, ...]], tapes: Sequence[str], path: Path, log: float) -> Path:
    """Return a path of some tapes, whose other factors have a log probability."""
    chance = path.probability
    score = log + (float(np.log(chance)) if chance > 0 else -np.inf)
    own = labels_of_tapes([labels[tape] for tape in tapes])
    return Path(own, score, float(np.exp(score)), exact=True, bound=score)


def steps(composition: Composition, corpus: Corpus, *, soft: bool, threads: int = 1) -> Steps:
    """Run the taggers of a composition one after the other.

    Parameters
    ----------
    composition : Composition
        Without maps; its grammar and weights are left out.
    corpus : Corpus
        No sentence is empty.
    soft : bool
        Taggers take their potentials on average over the posteriors of those before them, rather
        than for their best labels.
    threads : int
    """
    found = Steps(composition, corpus.offsets, {}, {}, {}, [])
    taggers = {tagger.tape: tagger for tagger in composition.taggers}
    last: list[Lattice] = []
    for tape in composition.order:
        tagger = taggers[tape]
        given = {}
        if soft:
            given = {t: (composition.label_sets[t], table) for t, table in found.tables.items()}
        last, found.tables[tape] = passing.soft(tagger, corpus, given, threads=threads)
        paths = best(last, threads=threads)
        number = {label: i for i, label in enumerate(tagger.labels)}
        labels = [number[label] for k in range(len(last)) for label in paths.labels(k)]
        found.ids[tape] = np.asarray(labels, dtype=np.int32)
        chances = np.asarray([0.0 if p is None else p.probability for p in paths])
        found.logs[tape] = np.log(np.maximum(chances, 1e-300))
        column = Column(found.ids[tape], tagger.labels)
        corpus = corpus.with_interned(tape_column(tape), column)
    return Steps(composition, found.offsets, found.ids, found.tables, found.logs, last)
