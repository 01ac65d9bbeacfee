"""`Product`: taggers of any kinds that decide together, by the product of their lattices."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
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
from fstcrf.taggers.spelling import Spelling
from fstcrf.taggers.tagger import Composable, Composition, LabelsT
from fstcrf.text.sentences import Data

if TYPE_CHECKING:
    from fstcrf.kernel import Budget
    from fstcrf.machines.plans import Search
    from fstcrf.text.corpus import Column

segmental = LazyModule("fstcrf.taggers.segmental")  # these stand on this
words = LazyModule("fstcrf.ext.words.tagger")
transduced = LazyModule("fstcrf.lattices.transduced")

KIND = PRODUCT

Behind: TypeAlias = "Transducer | Composable"
"""What is composed with a product: a transducer, or a tagger of what one has written."""


class Product(Composition[LabelsT]):
    """Taggers of any kinds that decide together; made by `fstcrf.compose`.

    A path is one of each tagger's lattice; scores add. Tapes of segments are written as labels of
    tokens, in the scheme of their tagger; a grammar reads the label of each segment on them.

    What stands behind is composed with the product in its order: a transducer, which reads one of
    its tapes and writes another one, or a tagger that scores what a transducer has written.

    Parameters
    ----------
    taggers : tuple of Composable
        CRFs, compositions, taggers of segments; each writes tapes of its own.
    weights : tuple of float
        Factor of each tagger's scores, at least 0.
    conjuncts : tuple of Acceptor
        The grammar, bound to the tapes.
    behind : tuple of (Transducer or Composable)
        Transducers, and taggers of what these write.

    Raises
    ------
    OptionError
        Two tapes with one name, another number of weights or negative ones, a composition with
        ``normalize="chain"``, a tagger that reads what another one decides; a transducer that reads
        a tape that is not there.
    """

    def __init__(
        self,
        taggers: Sequence[Composable],
        weights: Sequence[float] | None = None,
        conjuncts: Sequence[Acceptor] = (),
        behind: Sequence[Behind] = (),
    ) -> None:
        factors = [1.0] * len(taggers) if weights is None else list(weights)
        self.taggers, self.conjuncts = tuple(taggers), tuple(conjuncts)
        self.behind = tuple(behind)
        self.normalize = "product"
        self.weights = tuple(real_number(factor, "a weight") for factor in factors)
        if len(factors) != len(taggers) or any(not 0 <= f < np.inf for f in self.weights):
            raise OptionError(
                f"weights are {factors}, expected {len(taggers)} numbers from 0, one a tagger"
            )
        if (twice := first_twice(self.tapes)) is not None:
            raise OptionError(f"two taggers have the tape {twice!r}: give each a different tape")
        before = list(self.of_tokens)
        for machine in self.machines:
            if machine.reads is not None and machine.reads not in before:
                raise OptionError(
                    f"no tape {machine.reads!r} to read: the tapes are {', '.join(before)}"
                )
            before += [machine.tape] if machine.tape is not None else []
        for tagger in (*taggers, *(one for one in behind if isinstance(one, Composable))):
            _check_reads(tagger, set(self.tapes) - set(tagger.tapes))
            if getattr(tagger, "normalize", "product") == "chain":
                raise OptionError(
                    f"{tagger!r} uses the chain rule, which cannot be combined with taggers of "
                    "segments or transducers: compose its taggers with normalize='product'"
                )

    @property
    def machines(self) -> tuple[Transducer, ...]:
        """The transducers, in their order."""
        return tuple(one for one in self.behind if isinstance(one, Transducer))

    @property
    def of_tokens(self) -> tuple[str, ...]:
        """Names of the tapes that its taggers write."""
        return tuple(tape for tagger in self.taggers for tape in tagger.tapes)

    @property
    def tapes(self) -> tuple[str, ...]:
        """Names of the tapes that it writes."""
        written = (machine.tape for machine in self.machines if machine.tape is not None)
        return (*self.of_tokens, *written)

    @property
    def label_sets(self) -> dict[str, tuple[str, ...]]:
        """The labels of each tape."""
        sets = {t: labels for one in self.taggers for t, labels in one.label_sets.items()}
        return sets | {m.tape: m.output_symbols for m in self.machines if m.tape is not None}

    @property
    def on(self) -> tuple[Tape, ...]:
        """The tapes of its lattices."""
        written = [
            Tape(machine.tape, machine.output_symbols, segments=False, output=True)
            for machine in self.machines
            if machine.tape is not None
        ]
        return (*(tape for tagger in self.taggers for tape in tagger.on), *written)

    @property
    def ambiguous(self) -> bool:
        """Whether paths of the same labels are one answer; those behind transducers are apart."""
        return not self.behind and any(tagger.ambiguous for tagger in self.taggers)

    def spelling(self, tape: str) -> Spelling | None:
        """Return how segments of a tape are written as labels of tokens; None: it has none."""
        return next((t.spelling(tape) for t in self.taggers if tape in t.tapes), None)

    def with_weights(self, *weights: float) -> Self:
        """Return the same taggers with other factors of their scores."""
        return type(self)(self.taggers, weights, self.conjuncts, self.behind)

    def writes(self, tagger: object) -> TypeGuard[Composable]:
        """Tell whether a transducer here writes the only tape of a tagger."""
        return isinstance(tagger, Composable) and any(
            (machine.tape,) == tagger.tapes for machine in self.machines
        )

    def followed(self, one: Behind) -> Self:
        """Return the composition with one more transducer, or tagger of what one writes.

        Raises
        ------
        EpsilonCycleError, LabelError, OptionError, ShapeError
            As for `fstcrf.Lattice.__matmul__`.
        """
        whole = type(self)(self.taggers, self.weights, self.conjuncts, (*self.behind, one))
        if isinstance(one, Transducer):
            read = self.on[-1 if one.reads is None else self.tapes.index(one.reads)]
            _ = transduced.compiled(one, read.labels)  # what is wrong with it is said here
        elif not one.on[0].segments:
            transduced.check_lengths(next(m for m in self.machines if (m.tape,) == one.tapes))
        return whole

    # --- Grammars -----------------------------------------------------------------------------

    def constrained(
        self, grammar: Grammar, *, search: Search | None = None, budget: Budget | None = None
    ) -> Self:
        """Return the taggers under one more grammar.

        Parameters
        ----------
        grammar : Grammar
            It reads the label of each segment on tapes of segments, but, where it is over several
            tapes, that of each token.

        Raises
        ------
        GrammarError
            A grammar that does not go with the labels.
        OptionError
            A search or a budget: lattices of segments are written out, nothing is searched.
        """
        for name, value in {"search": search, "budget": budget}.items():
            if value is not None:
                raise OptionError(
                    f"{name}= is for taggers of tokens: lattices of segments are stored as arcs "
                    "and need no search"
                )
        sets = {tape.name: tape.labels for tape in self.on}
        try:
            added = grammar.bind(sets)
        except GrammarError as error:
            spelled = [tape.name for tape in self.on if tape.segments]
            if not spelled or len(sets) > 1:
                raise
            raise GrammarError(
                f"{error}; a grammar of the tape {spelled[0]!r} reads the label of each segment"
            ) from None
        return type(self)(self.taggers, self.weights, (*self.conjuncts, *added), self.behind)

    def cascade(
        self,
        sentences: Data,
        *,
        threads: int = 1,
        forced: Sequence[Forced | None] | Columns | None = None,
        bias: Bias | None = None,
    ) -> tuple[Column, ...]:
        """Return what the taggers say one by one, each under the grammar of its tapes.

        Raises
        ------
        OptionError
            A part of the grammar is over tapes of several taggers, which no cascade can obey; a
            transducer, which decides with them.
        """
        if self.behind:
            raise OptionError("a transducer decides with the taggers: there is no cascade of them")
        parts = [set(tagger.tapes) for tagger in self.taggers]
        for rule in self.conjuncts:
            if not any(tapes.issuperset(rule.tapes) for tapes in parts):
                raise OptionError(f"the grammar {rule.name!r} is over several taggers: no cascade")
        asked = Request.of(sentences, self.label_sets, forced, bias, threads)
        known = asked.known(self.tapes)
        columns: list[Column] = []
        for tagger, tapes in zip(self.taggers, parts, strict=True):
            one = Product[Any]((tagger,), None, [c for c in self.conjuncts if tapes >= {*c.tapes}])
            answer = one._decoded(asked, known.of_tapes(tagger.tapes))
            columns += [answer[tape].column() for tape in tagger.tapes]
        return tuple(columns)

    def without_grammar(self) -> Self | None:
        """Return the same taggers without a grammar; None where there is none."""
        if not self.conjuncts:
            return None
        return type(self)(self.taggers, self.weights, behind=self.behind)

    # --- Lattices -----------------------------------------------------------------------------

    def transducers(self, sentences: Data, known: Evidence | None) -> list[Lattice]:
        """Return the lattice of each sentence, with what is known put in."""
        each = [
            tagger.transducers(sentences, None if known is None else known.of_tapes(tagger.tapes))
            for tagger in self.taggers
        ]
        rows = [product(row, weights=self.weights) for row in zip(*each, strict=True)]
        for one in self.behind:
            if isinstance(one, Transducer):
                rows = [row @ one for row in rows]
            else:
                others = one.transducers(sentences, None)
                rows = [row @ other for row, other in zip(rows, others, strict=True)]
        for acceptor in self.conjuncts:
            grammar = Grammar.from_acceptor(acceptor)
            rows = [row & grammar for row in rows]
        return rows

    def _searched(self, search: Search) -> Self:
        raise OptionError(
            f"search={search!r} is for taggers of tokens: lattices of segments are "
            "stored as arcs and need no search"
        )

    # --- Tagging ------------------------------------------------------------------------------

    def decoded(self, asked: Request) -> Answer:
        """Return what `decode` does; see `Tagger.decoded`."""
        return self._decoded(asked, asked.evidence(self.of_tokens))

    def _decoded(self, asked: Request, known: Evidence | None) -> Answer:
        if asked.budget is not None:
            raise OptionError(
                "budget= is for taggers of tokens: lattices of segments are stored as arcs "
                "and need no search"
            )
        lattices = self.transducers(asked.sentences, known)
        shown = self.tapes if asked.tapes is None else shown_tapes(self.tapes, asked.tapes)
        if len(shown) == len(self.tapes) and not (self.ambiguous and asked.scores):
            paths = [self._spelled(one, self.tapes) for one in self._ranked(lattices, asked)]
        elif not any(map(self.spelling, shown)):
            paths = [lattice.nbest(asked.n, tapes=shown) for lattice in lattices]
        else:
            if not set(shown) <= set(self.of_tokens):
                raise OptionError(
                    "tapes= includes a tape of segments or the output tape of a transducer, "
                    "expected tapes with one label per token"
                )
            paths = [self._distinct(lattice, asked.n, shown) for lattice in lattices]
        if asked.strict:
            _check(paths, lattices)
        sets = {tape: self.label_sets[tape] for tape in shown}
        written = [tape.name for tape in self.on if tape.output and tape.name in shown]
        lengths = [lattice.length for lattice in lattices]
        answer = Answer.of_paths(paths, sets, lengths, asked.n, written)
        return answer.with_posterior(lambda: self._distributions(lattices, asked.threads))

    def _ranked(self, lattices: Sequence[Lattice], asked: Request) -> Sequence[Sequence[Path]]:
        return nbest_paths(lattices, asked.n, threads=asked.threads)

    def _spelled(self, paths: Sequence[Path], shown: Sequence[str]) -> list[Path]:
        """Return paths with the labels of tokens on all tapes shown."""
        numbers = [self.tapes.index(tape) for tape in shown]
        written = ([self._written(path, k) for k in numbers] for path in paths)
        return [
            replace(
                path,
                labels=labels_of_tapes(labels),
                places=_clocks(path, numbers),
                tapes=tuple(shown),
            )
            for path, labels in zip(paths, written, strict=True)
        ]

    def _written(self, path: Path, number: int) -> tuple[str, ...]:
        labels = path.labels[number] if len(self.tapes) > 1 else path.labels
        spelling = self.spelling(self.tapes[number])
        place = path.places[number] if path.places else None
        if spelling is None or place is None:
            return tuple(labels)
        return tuple(spelling.written(place.starts, place.ends, labels))

    def _distinct(self, lattice: Lattice, n: int, shown: Sequence[str]) -> list[Path]:
        """Return the n best labellings of the tokens of some tapes, each by its best path."""
        row: Any = lattice.row.arcs()
        numbers = [self.tapes.index(tape) for tape in shown]
        spellings = [self.spelling(tape) for tape in shown]
        loose = [() if spelling is None else spelling.loose for spelling in spellings]
        found: dict[Labels, Path] = {}
        for table, score in row.token_labellings(numbers, loose):
            labels = labels_of_tapes(
                [
                    self._token_labels(number, spelling, table, k)
                    for k, (number, spelling) in enumerate(zip(numbers, spellings, strict=True))
                ]
            )
            chance: Any = partial(row.chance, score)
            path = Path(labels, score, chance, exact=True, bound=score, tapes=tuple(shown))
            found.setdefault(labels, path)
            if len(found) == n:
                break
        return list(found.values())

    def _token_labels(
        self, number: int, spelling: Spelling | None, table: Ints, k: int
    ) -> tuple[str, ...]:
        """Return the labels of tokens of the k-th tape of a table of `ArcRow.token_labellings`."""
        own, begins, size = table[:, k], table[:, (table.shape[1] - 1) // 2 + k], table[:, -1]
        names = self.on[number].labels
        if spelling is None:
            return tuple(names[label] for label in np.repeat(own, size).tolist())
        first = np.flatnonzero((begins > 0) | (np.diff(own, prepend=-1) != 0))
        start = (np.cumsum(size) - size)[first]
        end = np.append(start[1:], size.sum())[: len(start)]
        types = [names[label] for label in own[first].tolist()]
        return tuple(spelling.written(start.tolist(), end.tolist(), types))

    def posterior(self, asked: Request, known: Evidence | None) -> Distributions:
        """Return the distributions over the labellings of sentences, with what is known put in."""
        return self._distributions(self.transducers(asked.sentences, known), asked.threads)

    def _distributions(self, lattices: Sequence[Lattice], threads: int) -> Distributions:
        spelled = {tape: self.spelling(tape) for tape in self.tapes}
        rows: Any = dict.fromkeys(self.tapes, lattices)
        return _EncodedDistributions(
            rows, None, threads, spellings={t: one for t, one in spelled.items() if one}
        )

    # --- Files --------------------------------------------------------------------------------

    def encoded(self) -> tuple[str, dict[str, Array], dict[str, str]]:
        """Return the kind of its file, arrays and metadata."""
        arrays: dict[str, Array] = {}

        def parts(prefix: str, several: Sequence[Behind]) -> tuple[_Part, ...]:
            headers = []
            for k, part in enumerate(several):
                if isinstance(part, Transducer):
                    kind, own, metadata = _encoded_machine(part)
                else:
                    kind, own, metadata = part.encoded()
                arrays.update({f"{prefix}{k}.{name}": array for name, array in own.items()})
                headers.append(_Part(kind, metadata))
            return tuple(headers)

        taggers = parts("part", self.taggers)
        for k, acceptor in enumerate(self.conjuncts):
            arrays |= joint.acceptor_arrays(f"conjunct{k}.", acceptor)
        conjuncts = tuple(joint.acceptor_header(acceptor) for acceptor in self.conjuncts)
        header = _Header(taggers, self.weights, conjuncts, parts("behind", self.behind))
        return KIND, arrays, {"product": msgspec.json.encode(header).decode()}


def _clocks(path: Path, numbers: Sequence[int]) -> tuple[Positions | None, ...]:
    """Return where the labels of some tapes are written, of those with a clock of their own."""
    places = [path.places[k] if path.places else None for k in numbers]
    kept = tuple(place if place is not None and place.output else None for place in places)
    return kept if any(kept) else ()


def _check_reads(tagger: Composable, tapes: set[str]) -> None:
    """Refuse a part that reads what another one decides: its lattices are of the text alone."""
    parts = tagger.taggers if isinstance(tagger, JointCRF) else (tagger,)
    reads = {tape.name for part in parts if isinstance(part, CRF) for tape in part.reads}
    for tape in sorted(reads & tapes):
        raise OptionError(
            f"{tagger!r} reads the tape {tape!r}, which another tagger writes here: compose these "
            "two first, by normalize='product'; a tagger of segments is read as a column"
        )


def _check(paths: Sequence[Sequence[Path]], lattices: Sequence[Lattice]) -> None:
    for number, (one, lattice) in enumerate(zip(paths, lattices, strict=True)):
        if not one:
            raise lattice.row.no_path().of_sentence(number)


@dataclass(frozen=True, eq=False)
class _EncodedDistributions(Distributions):
    """The same of lattices some of whose tapes have segments, written as labels of tokens."""

    spellings: Mapping[str, Spelling] | None = None

    def marginals(self, tape: str) -> list[Floats | None]:
        """Return the probability of each label at each token, float64 [T, L] a sentence."""
        spelling = (self.spellings or {}).get(tape)
        if spelling is None:
            return super().marginals(tape)
        rows: list[Floats | None] = [None] * len(self.lattices[tape])
        for b, lattice in zip(*self.live(tape), strict=True):
            rows[b] = spelling.marginals(lattice, tape)
        return rows

    def span_probabilities(self, answer: TapeAnswer, k: int) -> list[Floats]:
        """Return the probability of each span of the k-th best paths; 0 without a lattice."""
        if answer.name not in (self.spellings or {}):
            return super().span_probabilities(answer, k)
        rows: Any = zip(self.lattices[answer.name], answer.spans(k=k), strict=True)
        return [
            row.span_probabilities(own, tape=answer.name) if row and own else np.zeros(len(own))
            for row, own in rows
        ]

    def confidence(self, sentence: int, path: Path) -> Confidence:  # noqa: ARG002
        """Return how sure the best path of a sentence is; see `Lattice.confidence`."""
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
    behind: tuple[_Part, ...] = ()


def _encoded_machine(machine: Transducer) -> tuple[str, dict[str, Array], dict[str, str]]:
    own = {field.name: getattr(machine, field.name) for field in fields(machine)}
    arrays = {name: value for name, value in own.items() if isinstance(value, np.ndarray)}
    rest = {name: value for name, value in own.items() if name not in arrays}
    rest["named"] = tuple(machine.named)
    if machine.named:
        arrays["named"] = np.stack(list(machine.named.values()))
    return TRANSDUCER, arrays, {"transducer": msgspec.json.encode(_Machine(**rest)).decode()}


def read(path: str | os.PathLike[str], *, mapped: bool | None = None) -> Behind:
    """Read or map the file of a product, or of what one may have as a part."""
    kind = file_kind(path)
    arrays, metadata = read_arrays(path, kind=kind, version=VERSION, mapped=mapped)
    return _decoded_part(_Part(kind, metadata), arrays, os.fspath(path))


def _decoded(arrays: Mapping[str, Array], metadata: Mapping[str, str], name: str) -> Product:
    with sound(name, "product"):
        header = msgspec.json.decode(metadata["product"], type=_Header)
        parts, behind = (
            [
                _decoded_part(part, group(arrays, f"{prefix}{k}."), name)
                for k, part in enumerate(several)
            ]
            for prefix, several in (("part", header.parts), ("behind", header.behind))
        )
        conjuncts = [
            joint.acceptor_of(one, group(arrays, f"conjunct{k}."))
            for k, one in enumerate(header.conjuncts)
        ]
        taggers: Any = parts  # what is no tagger is refused
        tagger: Product = Product(taggers, header.weights, conjuncts, behind)
        sets = {tape.name: tape.labels for tape in tagger.on}
        for acceptor in conjuncts:
            Grammar.from_acceptor(acceptor).bind(sets)
    return tagger


def _decoded_part(part: _Part, arrays: Mapping[str, Array], name: str) -> Behind:
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
    above = {SEGMENTS: segmental, WORDS: words}
    if part.kind in above:
        return cast("Composable", above[part.kind].decoded(arrays, part.metadata, name))
    raise ModelFileError(f"a part of kind {part.kind!r}")
