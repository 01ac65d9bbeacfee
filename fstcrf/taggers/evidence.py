"""Evidence: observed labels of sentences, and biases added to the scores of labels.

If a sentence has no legal label sequence under its evidence, the cause is named, and it can be
answered under fewer restrictions.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import numpy as np

from fstcrf.arguments import items_of, real_array
from fstcrf.arrays import Bools, Floats, Longs, Ragged
from fstcrf.errors import DataError, LabelError, NoPathError, OptionError, ShapeError, TooLargeError
from fstcrf.lattices.answer import Answer, Change
from fstcrf.machines.topology import Topology
from fstcrf.text.corpus import Column, Corpus
from fstcrf.text.sentences import UNKNOWN, Data, Run, SentenceLike, check_text

if TYPE_CHECKING:
    from fstcrf.kernel import Budget
    from fstcrf.machines.plans import Program
    from fstcrf.taggers.tagger import Tagger


@dataclass(frozen=True, slots=True)
class _Case:
    """A sentence without a legal label sequence, its tagger and its forced labels."""

    tagger: Tagger
    sentence: Data
    forced: Mapping[str, Any] | None
    budget: Budget | None
    columns: Mapping[str, str] = field(default_factory=dict)

    def error(
        self, *, grammar: bool = True, tapes: Sequence[str] | None = None
    ) -> NoPathError | None:
        """Decode the sentence and return the error; `None` if there is a path or too many states.

        The grammar, and the forced labels of all other tapes, can be left out.
        """
        tagger = self.tagger if grammar else self.tagger.without_grammar() or self.tagger
        labels = self.forced
        if labels is not None and tapes is not None:
            labels = {tape: row for tape, row in labels.items() if tape in tapes} or None
        forced = [labels] if labels is not None else None
        try:
            transducer = tagger._as_transducer()
            transducer._decode(Request(self.sentence, forced=forced, budget=self.budget))
        except NoPathError as error:
            return error
        except TooLargeError:  # a chain is not expanded
            return None
        return None

    def cause(self) -> tuple[NoPathError | None, str]:
        """Return the error of the smallest cause: labels, grammar or both; and its description."""
        if self.forced is None:
            return self.error(), ""
        has_grammar = self.tagger.without_grammar() is not None
        rules = "the grammar" if has_grammar else "the scheme of the tagger"
        by_labels, by_grammar = self.error(grammar=False), self.error(tapes=())
        if by_labels and by_grammar and has_grammar:
            words = f"{self._labels(grammar=False)} and {rules} are to blame, each by itself"
            return self.error(), words
        if by_grammar:
            return by_grammar, f"{rules} alone is to blame, whatever is forced"
        if by_labels:
            words = f"{self._labels(grammar=False)} alone, which the scheme of the tagger forbids"
            return by_labels, words
        words = f"{self._labels(grammar=True)} and {rules} are to blame, but only together"
        return self.error(), words

    def _labels(self, *, grammar: bool) -> str:
        """Describe the forced labels, if possible only the tapes that leave no path."""
        tapes = list(self.forced or ())
        causes = [t for t in tapes if self.error(grammar=grammar, tapes=[t])]
        named = causes if len(tapes) > 1 and causes else tapes
        noun, names = ("column", self.columns) if self.columns else ("tape", {})
        plural = "s" if len(named) > 1 else ""
        shown = " and ".join(repr(names.get(tape, tape)) for tape in named)
        return f"the labels forced by {noun}{plural} {shown}"


def explained(
    error: NoPathError, tagger: Tagger, request: Request, columns: Mapping[str, str]
) -> NoPathError:
    """Return an error that names the token without a legal label, and the cause."""
    if error.sentence is None:
        return error
    forced: Any = None if request.forced is None else request.forced[error.sentence]
    if forced is not None and not isinstance(forced, Mapping):
        forced = {tagger.tapes[0]: forced}
    sentence = selected(request.sentences, np.asarray([error.sentence]))
    cause, blame = _Case(tagger, sentence, forced, request.budget, columns).cause()
    why = error if cause is None else cause
    return NoPathError(
        why.reason,
        position=why.position,
        sentence=error.sentence,
        constraints=why.constraints,
        blame="" if cause is None or cause.position is None else blame,
    )


def relaxed(answer: Answer, tagger: Tagger, request: Request) -> Answer:
    """Return an answer whose sentences without a path are decoded under fewer restrictions."""
    for freer, forced, change in _relaxations(tagger, request.forced):
        dead = np.flatnonzero(answer.dead)
        sentences = selected(request.sentences, dead)
        labels = None if forced is None else [forced[i] for i in dead.tolist()]
        again = replace(request, sentences=sentences, forced=labels, probabilities=False)
        answer = answer.with_part(dead, freer._decode(again), change)
    return answer


def _relaxations(
    tagger: Tagger, forced: Sequence[Forced | None] | None
) -> Iterator[tuple[Tagger, Sequence[Forced | None] | None, Change]]:
    """Yield a tagger and forced labels with fewer and fewer restrictions."""
    unconstrained = tagger.without_grammar()
    if unconstrained is not None:
        yield unconstrained, forced, "grammar"
    if forced is not None:
        yield tagger, None, "forced"
    if unconstrained is not None and forced is not None:
        yield unconstrained, None, "both"


def selected(sentences: Data, numbers: Longs) -> Data:
    """Return the sentences with these numbers."""
    if isinstance(sentences, Corpus):
        return sentences.select(numbers)
    return [cast("SentenceLike", sentences[i]) for i in numbers.tolist()]


TapeForced: TypeAlias = Sequence[str | None]
"""Observed labels of a sentence; None or ``"_"``: unknown; ``"a|b"``: one of several labels."""
TapeBias: TypeAlias = Mapping[str, float]
"""Numbers added to the score of a label at every token."""
Forced: TypeAlias = TapeForced | Mapping[str, TapeForced]
"""Observed labels of a sentence; for several tapes, a mapping by tape."""
Bias: TypeAlias = TapeBias | Mapping[str, TapeBias]
"""Biases of labels; for several tapes, a mapping by tape."""
Columns: TypeAlias = str | Mapping[str, str]
"""The column of a corpus with observed labels; for several tapes, a mapping by tape."""


def in_columns(
    columns: Columns, sentences: Data, label_sets: Mapping[str, Sequence[str]]
) -> tuple[dict[str, str], list[Forced | None]]:
    """Return the column of each tape, and the observed labels of each sentence."""
    if not isinstance(sentences, Corpus):
        raise OptionError(f"forced={columns!r} names columns, but the sentences are no Corpus")
    column_names = {"": columns} if isinstance(columns, str) else dict(columns)
    if isinstance(columns, str) and len(label_sets) == 1:
        column_names = {next(iter(label_sets)): columns}
    odd = [tape for tape in column_names if tape not in label_sets]
    if odd:
        raise OptionError(
            f"forced={columns!r}: expected a dict of column names with keys from "
            f"{', '.join(label_sets)}"
        )
    for tape, name in column_names.items():
        column, labels = sentences.column(name), set(label_sets[tape])
        for number, value in enumerate(column.values):
            legal = value == UNKNOWN or value in labels or labels.issuperset(value.split("|"))
            if not legal and len(tokens := np.flatnonzero(column.ids == number)):
                raise DataError(
                    f"{value!r} in column {name!r} is not a label of the model, expected one of "
                    f"{' '.join(label_sets[tape])}, or {UNKNOWN} if the label is unknown",
                    **sentences.where(int(tokens[0])),
                )
    each = {tape: sentences.column_lists(name) for tape, name in column_names.items()}
    return column_names, [{t: rows[b] for t, rows in each.items()} for b in range(len(sentences))]


@dataclass(frozen=True, eq=False, slots=True)
class Evidence:
    """Observed labels and biases of sentences, by tape."""

    forced: Mapping[str, Sequence[TapeForced | None]]  # a list for each sentence
    bias: Mapping[str, TapeBias]  # added to the potentials of labels at every token

    @classmethod
    def of(
        cls,
        tapes: Sequence[str],
        size: int,
        forced: Sequence[Forced | None] | None,
        bias: Bias | None,
    ) -> Evidence:
        """Return the evidence of `forced` and `bias`, given by tape or for the only tape."""
        added: dict[str, TapeBias] = {}
        if bias is not None:
            added = _by_tape(tapes, bias, "bias")
        if forced is None:
            return cls({}, added)
        if not hasattr(forced, "__len__"):  # an iterator could be read only once
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
        """Return a corpus of the sentences with tokens, `full`, with observed labels as columns."""
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
        """Return the evidence about one tape."""
        return Evidence(
            {name: rows for name, rows in self.forced.items() if name == tape},
            {name: bias for name, bias in self.bias.items() if name == tape},
        )

    def of_tapes(self, tapes: Sequence[str]) -> Evidence | None:
        """Return the evidence about some tapes; `None` without any."""
        forced = {name: rows for name, rows in self.forced.items() if name in tapes}
        bias = {name: biases for name, biases in self.bias.items() if name in tapes}
        return Evidence(forced, bias) if forced or bias else None

    def from_columns(self, corpus: Corpus) -> Evidence:
        """Return the evidence of a corpus made by `to_columns`, with the same biases."""
        forced: dict[str, Sequence[TapeForced | None]] = {}
        for tape in self.forced:
            strings = corpus.columns[_column(tape)].strings()
            pairs = itertools.pairwise(corpus.offsets.tolist())
            forced[tape] = [strings[a:b] for a, b in pairs]
        return Evidence(forced, self.bias)

    def state_biases(self, tape: str, topology: Topology) -> Floats | None:
        """Return the bias of each state of a tape, float64 [S]; `None` without biases."""
        bias = self.bias.get(tape)
        return biases(topology, bias) if bias else None

    def evidence_scores(
        self, tape: str, topology: Topology, corpus: Corpus, bias: Floats | None
    ) -> Floats | None:
        """Return the evidence as scores added to a tape's states, float64 [N, S], or `None`.

        States that the observed labels exclude have −inf. The corpus is made by `to_columns`, or
        is a selection of its sentences; `bias` is made by `state_biases`.
        """
        if tape not in self.forced and bias is None:
            return None
        scores = np.zeros((corpus.n_tokens, topology.n_states))
        if tape in self.forced:
            column = corpus.columns[_column(tape)]
            allowed = mask(topology, column.values, len(column.values))
            scores[~allowed[column.ids]] = -np.inf
        return scores if bias is None else scores + bias

    # --- As potentials of a product -------------------------------------------------------------

    def added_to(
        self, program: Program, run: Run, values: tuple[Floats, ...]
    ) -> tuple[Floats, ...]:
        """Return the values of a program's inputs, restricted and biased by the evidence."""
        changed = list(values)
        for tape in {**self.bias, **self.forced}:
            place = next(
                k
                for k, part in enumerate(program.inputs)
                if part.kind == "node" and part.tape == tape and not part.context
            )
            topology = program.chain[tape].topology
            node = changed[place] + biases(topology, self.bias.get(tape, {}))
            if tape in self.forced:
                node[~self._mask(program, tape, run)] = -np.inf
            changed[place] = node
        return tuple(changed)

    def _mask(self, program: Program, tape: str, run: Run) -> Bools:
        topology, lengths = program.chain[tape].topology, Ragged(run.offsets).lengths.tolist()
        return np.concatenate(masks(topology, self.forced[tape], lengths, run.first))


def _column(tape: str) -> str:
    """Return the name of the column with observed labels, which no file uses."""
    return f"%known[{tape}]"


def _by_tape(tapes: Sequence[str], argument: Any, what: str) -> dict[str, Any]:
    """Return an argument by tape; for a tagger with one tape, it may lack the tape."""
    named = isinstance(argument, Mapping) and not any(
        isinstance(value, int | float | complex | np.number) for value in argument.values()
    )
    if not named:
        if len(tapes) > 1:
            raise OptionError(
                f"{what} must be given per tape: pass a dict with keys from {', '.join(tapes)}"
            )
        return {tapes[0]: argument}
    odd = [tape for tape in argument if tape not in tapes]
    if odd:
        raise OptionError(
            f"{what} is given for a tape {odd[0]!r}: the tapes are {', '.join(tapes)}"
        )
    return dict(argument)


@dataclass(frozen=True, eq=False, slots=True)
class Request:
    """The checked arguments of `fstcrf.taggers.Tagger.decode`."""

    sentences: Data
    n: int = 1
    forced: Sequence[Forced | None] | None = None
    bias: Bias | None = None
    budget: Budget | None = None
    threads: int = 1
    tapes: Sequence[str] | None = None  # tapes of the answer; None: all
    strict: bool = True  # raise NoPathError for a sentence without a path
    probabilities: bool = False  # whether the answer needs probabilities
    scores: bool = True  # whether the answer needs scores and bounds

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

    def tape_evidence(self, tapes: Sequence[str]) -> Evidence:
        """Return the evidence about the tapes of a tagger."""
        return Evidence.of(tapes, len(self.sentences), self.forced, self.bias)

    def evidence(self, tapes: Sequence[str]) -> Evidence | None:
        """Return the evidence about the tapes of a tagger; `None` without any."""
        return None if self.no_evidence else self.tape_evidence(tapes)

    @property
    def no_evidence(self) -> bool:
        """Whether there are neither observed labels nor biases."""
        return self.forced is None and self.bias is None


# --- Observed labels and biases of one tape as potentials --------------------------------------


def biases(topology: Topology, bias: TapeBias) -> Floats:
    """Return the bias of each state, float64 [S]."""
    if not isinstance(bias, Mapping):
        raise OptionError(f"bias is {bias!r}, expected a mapping of labels to numbers")
    values = np.zeros(topology.n_labels)
    numbers = real_array(list(bias.values()), "bias", error=OptionError)
    values[topology.label_ids(list(bias))] = numbers
    if not np.isfinite(values).all():
        raise OptionError("biases must be finite; use forced labels to forbid")
    return values[topology.state_label]


def masks(
    topology: Topology, forced: Sequence[TapeForced | None], lengths: Sequence[int], first: int
) -> list[Bools]:
    """Return the `mask` of each sentence; `first` is the number of the first sentence."""
    several = len(forced) > 1
    return [
        mask(topology, forced[number], length, number if several else None)
        for number, length in enumerate(lengths, first)
    ]


def mask(
    topology: Topology, forced: TapeForced | None, length: int, sentence: int | None = None
) -> Bools:
    """Return the states that the observed labels of a sentence allow, bool [T, S].

    Error messages name `sentence`, the number of the sentence.
    """
    if forced is None:
        return np.ones((length, topology.n_states), dtype=bool)
    place = "" if sentence is None else f"sentence {sentence}, "
    expected = "a list with a label or None for each token"
    labels: Any = items_of(forced, f"{place}the forced labels are", expected)
    if not hasattr(labels, "__len__"):  # an iterator
        raise LabelError(f"{place}the forced labels are {labels!r}, expected {expected}")
    if len(labels) != length:
        raise ShapeError(f"{place}{len(labels)} forced labels for {length} tokens")
    allowed = np.zeros((length, topology.n_labels), dtype=bool)
    index = topology.label_index
    for t, label in enumerate(labels):
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
