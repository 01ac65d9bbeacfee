"""What is said of labels beforehand: those that are known, and which are to be more or less."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from fstcrf import kernel
from fstcrf.arguments import items_of, real_array
from fstcrf.arrays import Bools, Floats, Longs
from fstcrf.errors import DataError, LabelError, OptionError, ShapeError
from fstcrf.machines.topology import Topology
from fstcrf.ragged import Ragged
from fstcrf.text.corpus import Column, Corpus
from fstcrf.text.sentences import UNKNOWN, Data, Run, check_text

if TYPE_CHECKING:
    from fstcrf.kernel import Budget
    from fstcrf.machines.plans import Program

TapeForced: TypeAlias = Sequence[str | None]
"""Labels of a sentence that are known: None or ``"_"`` where not, ``"a|b"`` for one of several."""
TapeBias: TypeAlias = Mapping[str, float]
"""Added to the potential of a label at every token."""
Forced: TypeAlias = TapeForced | Mapping[str, TapeForced]
"""Evidence labels of a sentence; of several tapes, by tape."""
Bias: TypeAlias = TapeBias | Mapping[str, TapeBias]
"""What is added to the potentials of labels; of several tapes, by tape."""
Columns: TypeAlias = str | Mapping[str, str]
"""The column of a corpus that has the known labels; of several tapes, by tape."""


def in_columns(
    columns: Columns, sentences: Data, label_sets: Mapping[str, Sequence[str]]
) -> tuple[dict[str, str], list[Forced | None]]:
    """Return the column for each tape, and what columns of a corpus say is known."""
    if not isinstance(sentences, Corpus):
        raise OptionError(f"forced={columns!r} names columns, but the sentences are no Corpus")
    given = {"": columns} if isinstance(columns, str) else dict(columns)
    if isinstance(columns, str) and len(label_sets) == 1:
        given = {next(iter(label_sets)): columns}
    odd = [tape for tape in given if tape not in label_sets]
    if odd:
        raise OptionError(
            f"forced={columns!r}: expected a dict of column names with keys from "
            f"{', '.join(label_sets)}"
        )
    for tape, name in given.items():
        column, labels = sentences.column(name), set(label_sets[tape])
        for number, value in enumerate(column.values):
            known = value == UNKNOWN or value in labels or labels.issuperset(value.split("|"))
            if not known and len(tokens := np.flatnonzero(column.ids == number)):
                raise DataError(
                    f"{value!r} in column {name!r} is not a label of the model, expected one of "
                    f"{' '.join(label_sets[tape])}, or {UNKNOWN} if the label is unknown",
                    **sentences.where(int(tokens[0])),
                )
    each = {tape: sentences.column_lists(name) for tape, name in given.items()}
    return given, [{t: rows[b] for t, rows in each.items()} for b in range(len(sentences))]


@dataclass(frozen=True, eq=False, slots=True)
class Evidence:
    """What is known of the labels of sentences, for some tapes."""

    forced: Mapping[str, Sequence[TapeForced | None]]  # of every sentence
    bias: Mapping[str, TapeBias]  # added to the potentials of labels at every token

    @classmethod
    def of(
        cls,
        tapes: Sequence[str],
        size: int,
        forced: Sequence[Forced | None] | None,
        bias: Bias | None,
    ) -> Evidence:
        """Read what users say, of the only tape or by tape."""
        added: dict[str, TapeBias] = {}
        if bias is not None:
            added = _by_tape(tapes, bias, "bias")
        if forced is None:
            return cls({}, added)
        if not hasattr(forced, "__len__"):  # it is gone through more than once
            raise ShapeError(f"forced labels are {forced!r}, expected a list for each sentence")
        if len(forced) != size:
            raise ShapeError(f"forced labels of {len(forced)} sentences for {size}")
        each: list[dict[str, TapeForced]] = [
            {} if labels is None else _by_tape(tapes, labels, "forced") for labels in forced
        ]
        named = dict.fromkeys(tape for labels in each for tape in labels)
        return cls({tape: [labels.get(tape) for labels in each] for tape in named}, added)

    # --- As columns of a corpus, whose sentences may be selected and repeated ---------------------

    def to_columns(self, tagged: Mapping[str, Topology], corpus: Corpus, full: Longs) -> Corpus:
        """Return a corpus of the sentences with tokens, `full`, with known labels as columns."""
        lengths = Ragged(corpus.offsets).lengths.tolist()
        for tape, forced in self.forced.items():
            flat: list[str] = []
            for number, length in zip(full.tolist(), lengths, strict=True):
                labels = forced[number]
                if labels is not None:
                    several = number if len(forced) > 1 else None
                    _ = mask(tagged[tape], labels, length, several)
                    flat += [UNKNOWN if label is None else label for label in labels]
                else:
                    flat += [UNKNOWN] * length
            corpus = corpus.with_interned(_column(tape), Column.from_strings(flat))
        return corpus

    def of_tape(self, tape: str) -> Evidence:
        """Return what is known of one tape."""
        return Evidence(
            {name: rows for name, rows in self.forced.items() if name == tape},
            {name: bias for name, bias in self.bias.items() if name == tape},
        )

    def of_tapes(self, tapes: Sequence[str]) -> Evidence | None:
        """Return what is known of some tapes; None: nothing."""
        forced = {name: rows for name, rows in self.forced.items() if name in tapes}
        bias = {name: one for name, one in self.bias.items() if name in tapes}
        return Evidence(forced, bias) if forced or bias else None

    def from_columns(self, corpus: Corpus) -> Evidence:
        """Return what `written` has put into a corpus, with the same biases."""
        forced: dict[str, Sequence[TapeForced | None]] = {}
        for tape in self.forced:
            strings = corpus.columns[_column(tape)].strings()
            pairs = itertools.pairwise(corpus.offsets.tolist())
            forced[tape] = [strings[a:b] for a, b in pairs]
        return Evidence(forced, self.bias)

    def state_biases(self, tape: str, topology: Topology) -> Floats | None:
        """Return what is added to each state of a tape, float64 [S]; None: nothing."""
        bias = self.bias.get(tape)
        return biases(topology, bias) if bias else None

    def evidence_scores(
        self, tape: str, topology: Topology, corpus: Corpus, bias: Floats | None
    ) -> Floats | None:
        """Return what is added to the potentials of a tape's states, float64 [N, S], or None.

        The corpus is as `written` returns it, or sentences selected from that; the bias, float64
        [S], is as `state_biases` returns it.
        """
        if tape not in self.forced and bias is None:
            return None
        found = np.zeros((corpus.n_tokens, topology.n_states))
        if tape in self.forced:
            column = corpus.columns[_column(tape)]
            allowed = mask(topology, column.values, len(column.values))
            found[~allowed[column.ids]] = -np.inf
        return found if bias is None else found + bias

    # --- As potentials of a product -------------------------------------------------------------

    def added_to(
        self, program: Program, run: Run, values: tuple[Floats, ...]
    ) -> tuple[Floats, ...]:
        """Return the values of a program's inputs with what is known put in."""
        found = list(values)
        for tape in {**self.bias, **self.forced}:
            place = next(
                k
                for k, what in enumerate(program.inputs)
                if what.kind == "node" and what.tape == tape and not what.context
            )
            topology = program.chain[tape].topology
            node = found[place] + biases(topology, self.bias.get(tape, {}))
            if tape in self.forced:
                node[~self._mask(program, tape, run)] = -np.inf
            found[place] = node
        return tuple(found)

    def _mask(self, program: Program, tape: str, run: Run) -> Bools:
        topology, lengths = program.chain[tape].topology, Ragged(run.offsets).lengths.tolist()
        return np.concatenate(masks(topology, self.forced[tape], lengths, run.first))


def _column(tape: str) -> str:
    """Return the name of the column with known labels; no file has one of that name."""
    return f"%known[{tape}]"


def _by_tape(tapes: Sequence[str], given: Any, what: str) -> dict[str, Any]:
    """Return what is given by tape; of the only tape it may be given as it is."""
    named = isinstance(given, Mapping) and not any(
        isinstance(value, int | float | complex | np.number) for value in given.values()
    )
    if not named:
        if len(tapes) > 1:
            raise OptionError(
                f"{what} must be given per tape: pass a dict with keys from {', '.join(tapes)}"
            )
        return {tapes[0]: given}
    odd = [tape for tape in given if tape not in tapes]
    if odd:
        raise OptionError(
            f"{what} is given for a tape {odd[0]!r}: the tapes are {', '.join(tapes)}"
        )
    return dict(given)


@dataclass(frozen=True, eq=False, slots=True)
class Request:
    """What `fstcrf.taggers.Tagger.decoded` is asked, its arguments checked."""

    sentences: Data
    n: int = 1
    forced: Sequence[Forced | None] | None = None
    bias: Bias | None = None
    budget: Budget | None = None
    threads: int = 1
    tapes: Sequence[str] | None = None  # those shown; all when absent
    strict: bool = True  # NoPathError for a sentence without a path
    probabilities: bool = False  # they will be looked at
    scores: bool = True  # without, scores and bounds may be of no scale

    def __post_init__(self) -> None:
        check_text(self.sentences)

    @classmethod
    def of(
        cls,
        sentences: Data,
        label_sets: Mapping[str, Sequence[str]],
        forced: Sequence[Forced | None] | Columns | None,
        bias: Bias | None,
        threads: int = 1,
    ) -> Request:
        """Return a request for the best labels; `forced` may name columns of a corpus."""
        if isinstance(forced, str | Mapping):
            forced = in_columns(forced, sentences, label_sets)[1]
        return cls(sentences, forced=forced, bias=bias, threads=threads)

    def known(self, tapes: Sequence[str]) -> Evidence:
        """Return what is known of the labels, of the tapes of a tagger."""
        return Evidence.of(tapes, len(self.sentences), self.forced, self.bias)

    def evidence(self, tapes: Sequence[str]) -> Evidence | None:
        """Return what is known of the labels of some tapes; None: nothing."""
        return None if self.no_evidence else self.known(tapes)

    @property
    def no_evidence(self) -> bool:
        """Whether nothing is known of the labels."""
        return self.forced is None and self.bias is None


# --- Observed labels and biases of one tape as potentials --------------------------------------


def biases(topology: Topology, bias: TapeBias) -> Floats:
    """Return what is added to the potential of each state, float64 [S]."""
    if not isinstance(bias, Mapping):
        raise OptionError(f"bias is {bias!r}, expected a mapping of labels to numbers")
    values = np.zeros(topology.n_labels)
    given = real_array(list(bias.values()), "bias", error=OptionError)
    values[topology.label_ids(list(bias))] = given
    if not np.isfinite(values).all():
        raise OptionError("biases must be finite; use forced labels to forbid")
    return values[topology.state_label]


def masks(
    topology: Topology, forced: Sequence[TapeForced | None], lengths: Sequence[int], first: int
) -> list[Bools]:
    """Return `mask` of the sentences of these lengths, of which the first has this number."""
    several = len(forced) > 1
    return [
        mask(topology, forced[number], length, number if several else None)
        for number, length in enumerate(lengths, first)
    ]


def mask(
    topology: Topology, forced: TapeForced | None, length: int, sentence: int | None = None
) -> Bools:
    """Return the states that known labels of a sentence allow, bool [T, S]; all without any.

    Messages name the number of the sentence.
    """
    if forced is None:
        return np.ones((length, topology.n_states), dtype=bool)
    place = "" if sentence is None else f"sentence {sentence}, "
    expected = "a list with a label or None for each token"
    given: Any = items_of(forced, f"{place}the forced labels are", expected)
    if not hasattr(given, "__len__"):  # it can be read only once
        raise LabelError(f"{place}the forced labels are {given!r}, expected {expected}")
    if len(given) != length:
        raise ShapeError(f"{place}{len(given)} forced labels for {length} tokens")
    allowed = np.zeros((length, topology.n_labels), dtype=bool)
    index = topology.label_index
    for t, label in enumerate(given):
        if label is not None and not isinstance(label, str):
            raise LabelError(f"{place}token {t}: forced label {label!r} is no string")
        if label is None or label == UNKNOWN:
            allowed[t] = True
            continue
        parts = [label] if label in index else label.split("|")
        if any(part not in index for part in parts):
            what = f"{place}token {t}: forced label {label!r}"
            raise LabelError(f"{what} is not a label of the model")
        allowed[t, [index[part] for part in parts]] = True
    return allowed[:, topology.state_label]


def budget_of(budget: int | Budget | None) -> Budget | None:
    """Return a budget, of which the states may be given alone."""
    if not isinstance(budget, int):
        return budget
    if budget < 1:
        raise OptionError(f"budget is {budget}, expected at least 1")
    return kernel.Budget(states=budget)
