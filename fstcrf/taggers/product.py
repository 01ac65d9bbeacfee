"""`Product`: taggers of any kinds, decoded together over the product of their lattices."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Self, TypeAlias, TypeGuard, cast

import msgspec
import numpy as np

from fstcrf.arguments import first_twice, real_number
from fstcrf.arrays import Array, Floats, Ints
from fstcrf.errors import GrammarError, ModelFileError, OptionError
from fstcrf.lattices import Lattice, product
from fstcrf.lattices.answer import Answer, TapeAnswer
from fstcrf.lattices.batching import nbest_paths
from fstcrf.lattices.distributions import Distributions
from fstcrf.lattices.engine import Tape
from fstcrf.lattices.paths import Labels, Path, Positions, labels_of_tapes, shown_tapes
from fstcrf.lattices.results import Confidence
from fstcrf.lazy import LazyModule
from fstcrf.machines.grammar import Acceptor, Grammar
from fstcrf.machines.transducer import Transducer
from fstcrf.storage import PRODUCT, SEGMENTS, VERSION, WORDS, file_kind, group, read_arrays, sound
from fstcrf.taggers import crf as models
from fstcrf.taggers import joint
from fstcrf.taggers.crf import CRF
from fstcrf.taggers.evidence import Bias, Columns, Evidence, Forced, Request
from fstcrf.taggers.joint import JointCRF
from fstcrf.taggers.spanencoding import SpanEncoding
from fstcrf.taggers.tagger import Composable, Composition, LabelsT
from fstcrf.text.features import FeatureFunctions, FunctionIndex
from fstcrf.text.features.function import with_functions
from fstcrf.text.sentences import Data

if TYPE_CHECKING:
    from fstcrf.kernel import Budget
    from fstcrf.machines.plans import Search
    from fstcrf.text.corpus import Column

segmental = LazyModule("fstcrf.taggers.segmental")  # it imports this module
words = LazyModule("fstcrf.ext.words.tagger")
transduced = LazyModule("fstcrf.lattices.transduced")

KIND = PRODUCT

Follower: TypeAlias = "Transducer | Composable"
"""A transducer that reads a tape of a product, or a tagger that scores a transducer's output."""


class Product(Composition[LabelsT]):
    """Taggers of any kinds that are decoded together; made by `fstcrf.compose`.

    A path of the product has a path of each tagger's lattice, and its score is their sum. Segments
    are written as labels of tokens, in the tagging scheme of their tagger. A grammar of a tape of
    segments reads the label of each segment.

    Followers are composed with the product, in their order: a transducer reads one tape and writes
    another; a tagger scores the output of an earlier transducer.

    Parameters
    ----------
    taggers : tuple of Composable
        CRFs, compositions and taggers of segments, each with tapes of different names.
    weights : tuple of float
        Factor of each tagger's scores, at least 0.
    conjuncts : tuple of Acceptor
        The grammar, bound to the tapes.
    followers : tuple of (Transducer or Composable)
        Transducers, and taggers of their output.

    Raises
    ------
    OptionError
        Two tapes have one name; the number of weights is wrong, or a weight is negative; a
        composition has ``normalize="chain"``; a tagger reads a tape of another tagger; a transducer
        reads an unknown tape.
    """

    def __init__(
        self,
        taggers: Sequence[Composable],
        weights: Sequence[float] | None = None,
        conjuncts: Sequence[Acceptor] = (),
        followers: Sequence[Follower] = (),
    ) -> None:
        factors = [1.0] * len(taggers) if weights is None else list(weights)
        self.taggers, self.conjuncts = tuple(taggers), tuple(conjuncts)
        self.followers = tuple(followers)
        self.normalize = "product"
        self.weights = tuple(real_number(factor, "a weight") for factor in factors)
        if len(factors) != len(taggers) or any(not 0 <= f < np.inf for f in self.weights):
            raise OptionError(
                f"weights are {factors}, expected {len(taggers)} numbers from 0, one a tagger"
            )
        if (twice := first_twice(self.tapes)) is not None:
            raise OptionError(f"two taggers have the tape {twice!r}: give each a different tape")
        readable = list(self._tagger_tapes)
        for machine in self._transducers:
            if machine.reads is not None and machine.reads not in readable:
                raise OptionError(
                    f"no tape {machine.reads!r} to read: the tapes are {', '.join(readable)}"
                )
            readable += [machine.tape] if machine.tape is not None else []
        for tagger in (*taggers, *(part for part in followers if isinstance(part, Composable))):
            _check_reads(tagger, set(self.tapes) - set(tagger.tapes))
            if getattr(tagger, "normalize", "product") == "chain":
                raise OptionError(
                    f"{tagger!r} uses the chain rule, which cannot be combined with taggers of "
                    "segments or transducers: compose its taggers with normalize='product'"
                )

    @property
    def _transducers(self) -> tuple[Transducer, ...]:
        """The transducers among the followers."""
        return tuple(part for part in self.followers if isinstance(part, Transducer))

    @property
    def _tagger_tapes(self) -> tuple[str, ...]:
        """Names of the tapes that its taggers write."""
        return tuple(tape for tagger in self.taggers for tape in tagger.tapes)

    @property
    def tapes(self) -> tuple[str, ...]:
        """Names of all tapes: first of the taggers, then of the outputs of transducers."""
        written = (machine.tape for machine in self._transducers if machine.tape is not None)
        return (*self._tagger_tapes, *written)

    @property
    def label_sets(self) -> dict[str, tuple[str, ...]]:
        """The labels of each tape."""
        sets = {t: names for tagger in self.taggers for t, names in tagger.label_sets.items()}
        return sets | {m.tape: m.output_symbols for m in self._transducers if m.tape is not None}

    @property
    def _lattice_tapes(self) -> tuple[Tape, ...]:
        """The tapes of its lattices."""
        written = [
            Tape(machine.tape, machine.output_symbols, segments=False, output=True)
            for machine in self._transducers
            if machine.tape is not None
        ]
        return (*(tape for tagger in self.taggers for tape in tagger._lattice_tapes), *written)

    @property
    def _ambiguous(self) -> bool:
        """Whether several paths with the same labels count as one answer.

        Never if a transducer follows: each of its runs is an answer.
        """
        return not self.followers and any(tagger._ambiguous for tagger in self.taggers)

    def _span_encoding(self, tape: str) -> SpanEncoding | None:
        """Return the encoding of a tape's segments as labels of tokens; `None` without segments."""
        return next((t._span_encoding(tape) for t in self.taggers if tape in t.tapes), None)

    def with_weights(self, *weights: float) -> Self:
        """Return the same taggers with other factors of their scores."""
        return type(self)(self.taggers, weights, self.conjuncts, self.followers)

    def _writes(self, tagger: object) -> TypeGuard[Composable]:
        """Return whether one of the transducers writes the only tape of a tagger."""
        return isinstance(tagger, Composable) and any(
            (machine.tape,) == tagger.tapes for machine in self._transducers
        )

    def _then(self, follower: Follower) -> Self:
        """Return the composition with one more follower.

        Raises
        ------
        EpsilonCycleError, LabelError, OptionError, ShapeError
            As for `fstcrf.Lattice.__matmul__`.
        """
        followers = (*self.followers, follower)
        product = type(self)(self.taggers, self.weights, self.conjuncts, followers)
        if isinstance(follower, Transducer):
            read = self._lattice_tapes[
                -1 if follower.reads is None else self.tapes.index(follower.reads)
            ]
            _ = transduced.compiled(follower, read.labels)  # raises the errors of the transducer
        elif not follower._lattice_tapes[0].segments:
            transduced.check_lengths(
                next(m for m in self._transducers if (m.tape,) == follower.tapes)
            )
        return product

    def with_features(self, features: FeatureFunctions | None, where: str = "model") -> Self:
        """Return the product whose taggers compute attributes by functions.

        Arguments and errors as for `JointCRF.with_features`.
        """
        parts = (*self.taggers, *self.followers)
        indexes = {
            tagger.tape: tagger.index
            for part in parts
            if isinstance(part, CRF | JointCRF)
            for tagger in (part.taggers if isinstance(part, JointCRF) else (part,))
        }
        functions = {
            tape: index.function
            for tape, index in with_functions(indexes, features, where).items()
            if isinstance(index, FunctionIndex) and index.function is not None
        }
        changed: list[Any] = [
            part.with_features({t: f for t, f in functions.items() if t in part.tapes})
            if isinstance(part, CRF | JointCRF)
            else part
            for part in parts
        ]
        n = len(self.taggers)
        return type(self)(changed[:n], self.weights, self.conjuncts, changed[n:])

    # --- Grammars -----------------------------------------------------------------------------

    def constrained(
        self, grammar: Grammar, *, search: Search | None = None, budget: Budget | None = None
    ) -> Self:
        """Return the taggers under one more grammar.

        Parameters
        ----------
        grammar : Grammar
            A grammar of one tape of segments reads the label of each segment. A grammar of several
            tapes reads the label of each token.

        Raises
        ------
        GrammarError
            The grammar does not fit the labels.
        OptionError
            `search` or `budget` is given: lattices of segments are not searched.
        """
        for name, value in {"search": search, "budget": budget}.items():
            if value is not None:
                raise _needs_no_search(f"{name}=")
        sets = {tape.name: tape.labels for tape in self._lattice_tapes}
        try:
            added = grammar.bind(sets)
        except GrammarError as error:
            segmented = [tape.name for tape in self._lattice_tapes if tape.segments]
            if not segmented or len(sets) > 1:
                raise
            raise GrammarError(
                f"{error}; a grammar of the tape {segmented[0]!r} reads the label of each segment"
            ) from None
        return type(self)(self.taggers, self.weights, (*self.conjuncts, *added), self.followers)

    def cascade(
        self,
        sentences: Data,
        *,
        threads: int = 1,
        forced: Sequence[Forced | None] | Columns | None = None,
        bias: Bias | None = None,
    ) -> tuple[Column, ...]:
        """Return the labels of each tagger, decoded separately under the grammar of its tapes.

        Raises
        ------
        OptionError
            A rule of the grammar has tapes of several taggers, or a transducer follows: these need
            joint decoding.
        """
        if self.followers:
            raise OptionError("a transducer decides with the taggers: there is no cascade of them")
        parts = [set(tagger.tapes) for tagger in self.taggers]
        for rule in self.conjuncts:
            if not any(tapes.issuperset(rule.tapes) for tapes in parts):
                raise OptionError(f"the grammar {rule.name!r} is over several taggers: no cascade")
        request = Request.of(sentences, self.label_sets, forced, bias, threads)
        evidence = request.tape_evidence(self.tapes)
        columns: list[Column] = []
        for tagger, tapes in zip(self.taggers, parts, strict=True):
            rules = [rule for rule in self.conjuncts if tapes.issuperset(rule.tapes)]
            part = Product[Any]((tagger,), None, rules)
            answer = part._decoded(request, evidence.of_tapes(tagger.tapes))
            columns += [answer[tape].column() for tape in tagger.tapes]
        return tuple(columns)

    def without_grammar(self) -> Self | None:
        """Return the same taggers without a grammar; `None` without a grammar."""
        if not self.conjuncts:
            return None
        return type(self)(self.taggers, self.weights, followers=self.followers)

    # --- Lattices -----------------------------------------------------------------------------

    def _lattices(self, sentences: Data, evidence: Evidence | None) -> list[Lattice]:
        """Return the lattice of each sentence, given forced labels and biases."""
        parts = [
            tagger._lattices(sentences, evidence and evidence.of_tapes(tagger.tapes))
            for tagger in self.taggers
        ]
        rows = [product(lattices, weights=self.weights) for lattices in zip(*parts, strict=True)]
        for follower in self.followers:
            if isinstance(follower, Transducer):
                rows = [row @ follower for row in rows]
            else:
                scorers = follower._lattices(sentences, None)
                rows = [row @ scorer for row, scorer in zip(rows, scorers, strict=True)]
        for acceptor in self.conjuncts:
            grammar = Grammar.from_acceptor(acceptor)
            rows = [row & grammar for row in rows]
        return rows

    def _searched(self, search: Search) -> Self:
        raise _needs_no_search(f"search={search!r}")

    # --- Tagging ------------------------------------------------------------------------------

    def _decode(self, request: Request) -> Answer:
        """Return the answer to a request; see `Tagger._decode`."""
        return self._decoded(request, request.evidence(self._tagger_tapes))

    def _decoded(self, request: Request, evidence: Evidence | None) -> Answer:
        if request.budget is not None:
            raise _needs_no_search("budget=")
        n, lattices = request.n, self._lattices(request.sentences, evidence)
        shown = self.tapes if request.tapes is None else shown_tapes(self.tapes, request.tapes)
        if len(shown) == len(self.tapes) and not (self._ambiguous and request.scores):
            rows = nbest_paths(lattices, n, threads=request.threads)
            paths = [self._with_token_labels(row) for row in rows]
        elif not any(map(self._span_encoding, shown)):
            paths = [lattice.nbest(n, tapes=shown) for lattice in lattices]
        else:
            if not set(shown) <= set(self._tagger_tapes):
                raise OptionError(
                    "tapes= includes a tape of segments or the output tape of a transducer, "
                    "expected tapes with one label per token"
                )
            paths = [self._distinct(lattice, n, shown) for lattice in lattices]
        if request.strict:
            _check(paths, lattices)
        sets = {tape: self.label_sets[tape] for tape in shown}
        written = [tape.name for tape in self._lattice_tapes if tape.output and tape.name in shown]
        lengths = [lattice.length for lattice in lattices]
        answer = Answer.of_paths(paths, sets, lengths, n, written)
        return answer.with_posterior(lambda: self._distributions(lattices, request.threads))

    def _with_token_labels(self, paths: Sequence[Path]) -> list[Path]:
        """Return paths with segments encoded as labels of tokens."""
        return [
            replace(
                path,
                labels=labels_of_tapes([self._written(path, k) for k in range(len(self.tapes))]),
                places=_output_positions(path),
                tapes=self.tapes,
            )
            for path in paths
        ]

    def _written(self, path: Path, number: int) -> tuple[str, ...]:
        """Return the labels of a path on the tape with this number."""
        labels = path.labels[number] if len(self.tapes) > 1 else path.labels
        encoding = self._span_encoding(self.tapes[number])
        place = path.places[number] if path.places else None
        if encoding is None or place is None:
            return tuple(labels)
        return tuple(encoding.written(place.starts, place.ends, labels))

    def _distinct(self, lattice: Lattice, n: int, shown: Sequence[str]) -> list[Path]:
        """Return the n best labellings of some tapes, each with the score of its best path."""
        row: Any = lattice.row.arcs()
        numbers = [self.tapes.index(tape) for tape in shown]
        encodings = [self._span_encoding(tape) for tape in shown]
        loose = [() if encoding is None else encoding.loose for encoding in encodings]
        paths: dict[Labels, Path] = {}
        for table, score in row.token_labellings(numbers, loose):
            labels = labels_of_tapes(
                [
                    self._token_labels(number, encoding, table, k)
                    for k, (number, encoding) in enumerate(zip(numbers, encodings, strict=True))
                ]
            )
            chance: Any = partial(row.chance, score)
            path = Path(labels, score, chance, exact=True, bound=score, tapes=tuple(shown))
            paths.setdefault(labels, path)
            if len(paths) == n:
                break
        return list(paths.values())

    def _token_labels(
        self, number: int, encoding: SpanEncoding | None, table: Ints, k: int
    ) -> tuple[str, ...]:
        """Return the token labels of the k-th tape in a table of `ArcRow.token_labellings`."""
        label, begins, size = table[:, k], table[:, (table.shape[1] - 1) // 2 + k], table[:, -1]
        names = self._lattice_tapes[number].labels
        if encoding is None:
            return tuple(names[k] for k in np.repeat(label, size).tolist())
        first = np.flatnonzero((begins > 0) | (np.diff(label, prepend=-1) != 0))
        start = (np.cumsum(size) - size)[first]
        end = np.append(start[1:], size.sum())[: len(start)]
        types = [names[k] for k in label[first].tolist()]
        return tuple(encoding.written(start.tolist(), end.tolist(), types))

    def _posterior(self, request: Request, evidence: Evidence | None) -> Distributions:
        """Return the distributions over labellings, given forced labels and biases."""
        return self._distributions(self._lattices(request.sentences, evidence), request.threads)

    def _distributions(self, lattices: Sequence[Lattice], threads: int) -> Distributions:
        encodings = {tape: self._span_encoding(tape) for tape in self.tapes}
        rows: Any = dict.fromkeys(self.tapes, lattices)
        return _EncodedDistributions(rows, None, threads, encodings=encodings)

    # --- Files --------------------------------------------------------------------------------

    def _encoded(self) -> tuple[str, dict[str, Array], dict[str, str]]:
        """Return the kind, the arrays and the metadata of the model file."""
        arrays: dict[str, Array] = {}

        def parts(prefix: str, members: Sequence[Follower]) -> tuple[_Part, ...]:
            headers = []
            for k, part in enumerate(members):
                if isinstance(part, Transducer):
                    kind, inner, metadata = _encoded_machine(part)
                else:
                    kind, inner, metadata = part._encoded()
                arrays.update({f"{prefix}{k}.{name}": array for name, array in inner.items()})
                headers.append(_Part(kind, metadata))
            return tuple(headers)

        taggers = parts("part", self.taggers)
        for k, acceptor in enumerate(self.conjuncts):
            arrays |= joint.acceptor_arrays(f"conjunct{k}.", acceptor)
        conjuncts = tuple(joint.acceptor_header(acceptor) for acceptor in self.conjuncts)
        header = _Header(taggers, self.weights, conjuncts, parts("behind", self.followers))
        return KIND, arrays, {"product": msgspec.json.encode(header).decode()}


def _needs_no_search(option: str) -> OptionError:
    return OptionError(
        f"{option} is for taggers of tokens: lattices of segments are stored as arcs and need no "
        "search"
    )


def _output_positions(path: Path) -> tuple[Positions | None, ...]:
    """Return the positions of a path on the output tapes of transducers; () without such tapes."""
    kept = tuple(place if place is not None and place.output else None for place in path.places)
    return kept if any(kept) else ()


def _check_reads(tagger: Composable, tapes: set[str]) -> None:
    """Raise an OptionError if a tagger reads one of these tapes, which other taggers write.

    The lattices of a tagger depend on the text only.
    """
    parts = tagger.taggers if isinstance(tagger, JointCRF) else (tagger,)
    reads = {tape.name for part in parts if isinstance(part, CRF) for tape in part.reads}
    for tape in sorted(reads & tapes):
        raise OptionError(
            f"{tagger!r} reads the tape {tape!r}, which another tagger writes here: compose these "
            "two first, by normalize='product'; a tagger of segments is read as a column"
        )


def _check(paths: Sequence[Sequence[Path]], lattices: Sequence[Lattice]) -> None:
    for number, (sentence_paths, lattice) in enumerate(zip(paths, lattices, strict=True)):
        if not sentence_paths:
            raise lattice.row.no_path().of_sentence(number)


@dataclass(frozen=True, eq=False)
class _EncodedDistributions(Distributions):
    """Distributions over token labels that encode the segments of some tapes."""

    encodings: Mapping[str, SpanEncoding | None] = field(default_factory=dict)

    def marginals(self, tape: str) -> list[Floats | None]:
        """Return the probability of each label at each token, float64 [T, L] a sentence."""
        encoding = self.encodings.get(tape)
        if encoding is None:
            return super().marginals(tape)
        rows: list[Floats | None] = [None] * len(self.lattices[tape])
        for b, lattice in zip(*self.live(tape), strict=True):
            rows[b] = encoding.marginals(lattice, tape)
        return rows

    def span_probabilities(self, answer: TapeAnswer, k: int) -> list[Floats]:
        """Return the probability of each span of the k-th best paths; 0 without a lattice."""
        tape = answer.name
        if self.encodings.get(tape) is None:
            return super().span_probabilities(answer, k)
        rows: Any = zip(self.lattices[tape], answer.spans(k=k), strict=True)
        return [
            row.span_probabilities(spans, tape=answer.name)
            if row and spans
            else np.zeros(len(spans))
            for row, spans in rows
        ]

    def confidence(self, sentence: int, path: Path) -> Confidence:  # noqa: ARG002
        """Return the confidence of the best path of a sentence; see `Lattice.confidence`."""
        lattice: Any = next(iter(self.lattices.values()))[sentence]
        return cast("Confidence", lattice.confidence())


# --- The file of a product ------------------------------------------------------------------------


class _Part(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    kind: str
    metadata: dict[str, str]


TRANSDUCER = "transducer"


class _Machine(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    input_symbols: tuple[str, ...]
    output_symbols: tuple[str, ...]
    semiring: str
    tape: str | None
    reads: str | None
    named: tuple[str, ...] = ()


class _Header(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    parts: tuple[_Part, ...]
    weights: tuple[float, ...]
    conjuncts: tuple[joint.AcceptorHeader, ...]
    followers: tuple[_Part, ...] = msgspec.field(default=(), name="behind")


def _encoded_machine(machine: Transducer) -> tuple[str, dict[str, Array], dict[str, str]]:
    values = {entry.name: getattr(machine, entry.name) for entry in fields(machine)}
    arrays = {name: value for name, value in values.items() if isinstance(value, np.ndarray)}
    rest = {name: value for name, value in values.items() if name not in arrays}
    rest["named"] = tuple(machine.named)
    if machine.named:
        arrays["named"] = np.stack(list(machine.named.values()))
    return TRANSDUCER, arrays, {"transducer": msgspec.json.encode(_Machine(**rest)).decode()}


def read(path: str | os.PathLike[str], *, mapped: bool | None = None) -> Follower:
    """Read or map the file of a product, or of a possible part of a product."""
    kind = file_kind(path)
    arrays, metadata = read_arrays(path, kind=kind, version=VERSION, mapped=mapped)
    return _decoded_part(_Part(kind, metadata), arrays, os.fspath(path))


def _decoded(arrays: Mapping[str, Array], metadata: Mapping[str, str], name: str) -> Product:
    with sound(name, "product"):
        header = msgspec.json.decode(metadata["product"], type=_Header)
        parts, followers = (
            [
                _decoded_part(part, group(arrays, f"{prefix}{k}."), name)
                for k, part in enumerate(headers)
            ]
            for prefix, headers in (("part", header.parts), ("behind", header.followers))
        )
        conjuncts = [
            joint.acceptor_of(one, group(arrays, f"conjunct{k}."))
            for k, one in enumerate(header.conjuncts)
        ]
        taggers: Any = parts  # the constructor refuses other objects
        tagger: Product = Product(taggers, header.weights, conjuncts, followers)
        sets = {tape.name: tape.labels for tape in tagger._lattice_tapes}
        for acceptor in conjuncts:
            Grammar.from_acceptor(acceptor).bind(sets)
    return tagger


def _decoded_part(part: _Part, arrays: Mapping[str, Array], name: str) -> Follower:
    if part.kind == TRANSDUCER:
        machine = msgspec.json.decode(part.metadata["transducer"], type=_Machine)
        rest: Any = {**arrays, **msgspec.structs.asdict(machine)}
        named = dict(zip(machine.named, arrays.get("named", ()), strict=True))
        return Transducer(**{**rest, "named": named})
    if part.kind == models.KIND:
        return models.decoded(arrays, part.metadata, name)
    if part.kind == joint.KIND:
        return joint.decoded(arrays, part.metadata, name)
    if part.kind == KIND:
        return _decoded(arrays, part.metadata, name)
    later = {SEGMENTS: segmental, WORDS: words}
    if part.kind in later:
        return cast("Composable", later[part.kind].decoded(arrays, part.metadata, name))
    raise ModelFileError(f"a part of kind {part.kind!r}")
