"""Possible spans and labels, with a model's probability of each, and whether it is right.

An event is "this span, of this type" or "this label at this token". All events above a probability
are counted, on the best path or not. Calibration thus concerns the model's probabilities; events of
best paths only would be other events.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, cast

import numpy as np
from numpy.typing import ArrayLike

from fstcrf.arguments import items_of, real_array, string_list, string_lists, truth_array
from fstcrf.arrays import Bools, Floats, Ints, Longs
from fstcrf.errors import DataError, NumericError, OptionError, ShapeError
from fstcrf.lattices import Lattice, marginals, probable_spans
from fstcrf.taggers import Tagger
from fstcrf.text.corpus import Corpus, Scheme, spans
from fstcrf.text.corpus.schemes import checked_span
from fstcrf.text.sentences import Data

GoldSpans: TypeAlias = Sequence[tuple[int, int, str]]
"""The spans of a sentence: start, end (exclusive), type."""


@dataclass(frozen=True, eq=False, slots=True)
class Events:
    """Possible spans or labels, with their probabilities, and whether they are right.

    Parameters
    ----------
    probability : float64 [M]
        0 to 1.
    correct : bool [M]
        It is there.
    type : int32 [M]
        Index into `types`.
    types : tuple of K str
        Types of spans, or labels.
    missed : int64 [K]
        Right ones that are not events because of their low probability, for each type.

    Raises
    ------
    ShapeError
        Arrays that do not go together.
    NumericError
        A value that is not a probability.
    """

    probability: Floats
    correct: Bools
    type: Ints
    types: tuple[str, ...]
    missed: Longs

    def __post_init__(self) -> None:
        sizes = [len(a) for a in (self.probability, self.correct, self.type)]
        if len(set(sizes)) > 1 or len(self.missed) != len(self.types):
            raise ShapeError(
                f"{sizes[0]} probabilities, {sizes[1]} outcomes, {sizes[2]} types of "
                f"events, expected equal numbers; {len(self.missed)} counts of missed "
                f"spans, expected {len(self.types)}, one per type"
            )
        wrong = np.flatnonzero(~((self.probability >= 0.0) & (self.probability <= 1.0)))
        if len(wrong):
            raise NumericError(
                f"probability {wrong[0]} is {self.probability[wrong[0]]}, expected 0 to 1"
            )
        if len(self.type) and not (self.type.min() >= 0 and self.type.max() < len(self.types)):
            raise ShapeError(f"a type outside the {len(self.types)} types")

    @classmethod
    def of(
        cls, probability: ArrayLike, correct: ArrayLike, types: Sequence[str] | None = None
    ) -> Events:
        """Return events from probabilities of any origin.

        Parameters
        ----------
        probability : [M]
        correct : bool [M]
        types : sequence of M str, optional
            The type of each; all are of one type, ``""``, when absent.
        """
        p = real_array(probability, "probability")
        right = truth_array(correct, "correct")
        names = [""] * p.size if types is None else list(types)
        if p.ndim != 1 or right.shape != p.shape or len(names) != p.size:
            raise ShapeError(
                f"probability is {list(p.shape)}, correct {list(right.shape)}, types [{len(names)}]"
                ": expected one length"
            )
        known = tuple(dict.fromkeys(names)) or ("",)
        place = {name: k for k, name in enumerate(known)}
        kind = np.asarray([place[name] for name in names], dtype=np.int32)
        return cls(p, right, kind, known, np.zeros(len(known), dtype=np.int64))

    def __len__(self) -> int:
        return len(self.probability)

    def __repr__(self) -> str:
        return (
            f"<Events: {len(self)} of {len(self.types)} types, {int(self.correct.sum())} correct, "
            f"{int(self.missed.sum())} missed>"
        )

    def taken(self, which: Longs) -> Events:
        """Return the events with these numbers, int64 [M], without missed ones."""
        return Events(
            self.probability[which],
            self.correct[which],
            self.type[which],
            self.types,
            np.zeros_like(self.missed),
        )

    def of_type(self, name: str) -> Events:
        """Return the events of one type.

        Raises
        ------
        OptionError
            There is no such type.
        """
        if name not in self.types:
            raise OptionError(f"no type {name!r}; the types are {', '.join(self.types)}")
        k = self.types.index(name)
        mine = self.type == k
        return Events(
            self.probability[mine],
            self.correct[mine],
            np.zeros(int(mine.sum()), dtype=np.int32),
            (name,),
            self.missed[k : k + 1],
        )


def lattices_of(
    tagger: Tagger[Any], sentences: Data, *, tape: str | None = None, threads: int = 1
) -> list[Lattice]:
    """Return the lattice of each sentence under a tagger.

    Parameters
    ----------
    tagger : Tagger
        A CRF, a composition, a pipeline.
    sentences : Corpus or sequence of sentences
    tape : str, optional
        The tape of the events; in a cascade, each tagger has separate lattices.
    threads : int

    Raises
    ------
    OptionError
        No such tape, no name among several, or ``normalize="chain"``, which is not a transducer.
    NoPathError
        A sentence without a legal label sequence.
    """
    answer = tagger.decode(sentences, threads=threads)
    if tape is None and len(answer.tapes) > 1:
        raise OptionError(f"the answer has several tapes: choose one of {', '.join(answer.tapes)}")
    name = answer[answer.tapes[0] if tape is None else tape].name
    found = cast("Any", answer.posterior).lattices[name]
    return cast("list[Lattice]", list(found))


def span_events(
    lattices: Sequence[Lattice],
    gold: Sequence[GoldSpans] | Sequence[Sequence[str]],
    *,
    above: float = 0.01,
    tape: str | None = None,
    scheme: str | Scheme = "conlleval",
    threads: int = 1,
) -> Events:
    """Return all spans above a probability, and whether they are there.

    Parameters
    ----------
    lattices : sequence of B Lattice
    gold : sequence of B sequences
        For each its spans (start, end, type), or its labels.
    above : float
        Minimum probability; right spans below it count as missed.
    tape : str, optional
        The tape, if there are several.
    scheme : str or Scheme
        How labels are read as spans.
    threads : int

    Raises
    ------
    ShapeError
        Another number of sentences, or of labels than tokens.
    DataError
        A gold span outside its sentence.
    NoPathError, OptionError, TooLargeError
        As `fstcrf.lattices.probable_spans`.
    """
    gold = _counted(gold, lattices)
    found = probable_spans(lattices, above, tape=tape, scheme=scheme, threads=threads)
    wanted = [
        _gold_spans(one, len(lattice), scheme, k)
        for k, (one, lattice) in enumerate(zip(gold, lattices, strict=True))
    ]
    keys = [[(s.start, s.end, s.type) for s, _ in spans_] for spans_ in found]
    return events_of(keys, [spans_.probability for spans_ in found], wanted)


def events_of(
    keys: Sequence[Sequence[tuple[int, int, str]]],
    probabilities: Sequence[Floats],
    gold: Sequence[Iterable[tuple[int, int, str]]],
) -> Events:
    """Return the events of found spans, with their probabilities, against the gold spans.

    Parameters
    ----------
    keys : sequence of B sequences of (int, int, str)
        Start, end and type of the spans found.
    probabilities : sequence of B float64 arrays
    gold : sequence of B iterables of (int, int, str)
    """
    wanted = [set(one) for one in gold]
    every = sorted({s[2] for one in [*keys, *wanted] for s in one})
    place = {name: k for k, name in enumerate(every)}
    missed = np.zeros(len(every), dtype=np.int64)
    correct, kind = [], []
    for mine, there in zip(keys, wanted, strict=True):
        correct += [s in there for s in mine]
        kind += [place[s[2]] for s in mine]
        for span in there.difference(mine):
            missed[place[span[2]]] += 1
    return Events(
        np.clip(np.concatenate([np.empty(0), *probabilities]), 0.0, 1.0),
        np.asarray(correct, dtype=bool),
        np.asarray(kind, dtype=np.int32),
        tuple(every),
        missed,
    )


def _counted(gold: Sequence[Any], lattices: Sequence[Lattice]) -> list[Any]:
    """Return the gold labels of each sentence; ShapeError unless each lattice has some."""
    each = list(items_of(gold, "the gold labels are", "those of each sentence"))
    if isinstance(gold, Corpus) or len(each) != len(lattices):
        size = "a corpus" if isinstance(gold, Corpus) else f"{len(each)} gold sentences"
        raise ShapeError(f"{size} for {len(lattices)} lattices: give their labels or spans")
    return each


def _gold_spans(
    gold: Sequence[Any], tokens: int, scheme: str | Scheme, number: int
) -> Sequence[tuple[int, int, str]]:
    given = list(items_of(gold, f"sentence {number}: the gold labels are", "a list, or spans"))
    if any(isinstance(one, str) for one in given):
        labels = string_list(given, "gold label", sentence=number)
        if len(labels) != tokens:
            raise ShapeError(f"sentence {number}: {len(labels)} gold labels for {tokens} tokens")
        return [(s.start, s.end, s.type) for s in spans(labels, scheme)]
    found = [checked_span(k, span, sentence=number) for k, span in enumerate(given)]
    for span in found:
        if not 0 <= span[0] < span[1] <= tokens:
            raise DataError(
                f"gold span {tuple(span)} in a sentence of {tokens} tokens", sentence=number
            )
    return found


def label_events(
    lattices: Sequence[Lattice],
    gold: Sequence[Sequence[str]],
    *,
    above: float = 0.01,
    tape: str | None = None,
    threads: int = 1,
) -> Events:
    """Return all labels above a probability at their tokens, and whether they are right.

    Parameters
    ----------
    lattices, above, tape, threads
        As for `span_events`.
    gold : sequence of B sequences of str
        The labels.

    Raises
    ------
    ShapeError
        Another number of sentences, or of labels than tokens.
    OptionError
        No probability; no such tape.
    NoPathError, TooLargeError
        As `fstcrf.marginals`.
    """
    gold = string_lists(_counted(gold, lattices), "gold label")
    if not 0.0 <= above <= 1.0:
        raise OptionError(f"above is {above}, expected a probability, 0 to 1")
    names = [lattice._spanned(tape) for lattice in lattices]
    keys, chances, wanted = [], [], []
    rows_of = marginals(lattices, threads=threads)
    for number, (lattice, name, rows, labels) in enumerate(
        zip(lattices, names, rows_of, gold, strict=True)
    ):
        if len(labels) != len(lattice):
            raise ShapeError(
                f"sentence {number}: {len(labels)} gold labels for {len(lattice)} tokens"
            )
        mine = rows if len(lattice.tapes) == 1 else rows[lattice.tapes.index(name)]
        token, label = np.nonzero(mine > above)
        known = lattice.on[lattice.number(name)].labels
        pairs = zip(token.tolist(), label.tolist(), strict=True)
        keys.append([(t, t + 1, known[i]) for t, i in pairs])
        chances.append(mine[token, label])
        wanted.append([(t, t + 1, one) for t, one in enumerate(labels)])
    return events_of(keys, chances, wanted)
