"""Models composed, as data: the parts, whether they go together, their program, their file."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Literal, Self, Unpack, cast

import msgspec
import numpy as np

from fstcrf.arguments import first_twice, real_number
from fstcrf.arrays import Array
from fstcrf.errors import LabelError, ModelFileError, OptionError, TooLargeError
from fstcrf.lattices.answer import Answer
from fstcrf.lazy import LazyModule, made_once
from fstcrf.storage import VERSION, file_kind, group, read_arrays, sound
from fstcrf.taggers import crf as models
from fstcrf.taggers.crf import CRF
from fstcrf.taggers.evidence import Bias, Columns, Evidence, Forced, Request
from fstcrf.taggers.tagger import Composition, LabelsT, Normalize
from fstcrf.taggers.tokens import TokenTagger
from fstcrf.text.corpus import Column
from fstcrf.text.features import LiteralIndex
from fstcrf.text.sentences import Data, SentenceLike

if TYPE_CHECKING:
    from fstcrf.kernel import Budget
    from fstcrf.lattices.engine import Scored
    from fstcrf.machines import grammar as grammars
    from fstcrf.machines import plans
    from fstcrf.machines.grammar import Acceptor, Grammar
    from fstcrf.machines.plans import Plan, Program, Search
    from fstcrf.machines.plans import chain as chains
    from fstcrf.taggers import JointExplanation, component, stages
    from fstcrf.taggers.component import Component, ObservedTape, Relabelling, TapeMap
    from fstcrf.taggers.stages import Stage
    from fstcrf.taggers.tagged import TaggedLattices
    from fstcrf.taggers.tagger import TuningOptions
else:  # what tags with one tagger does without
    component, stages = LazyModule("fstcrf.taggers.component"), LazyModule("fstcrf.taggers.stages")
    plans, chains = LazyModule("fstcrf.machines.plans"), LazyModule("fstcrf.machines.plans.chain")
    grammars = LazyModule("fstcrf.machines.grammar")
batches, chain = LazyModule("fstcrf.taggers.batches"), LazyModule("fstcrf.taggers.chain")
explaining = LazyModule("fstcrf.ext.explain.joint")
tuning = LazyModule("fstcrf.ext.tune.weights")

_UNTUNED = (
    "weights of 1: unless tuned, a product of taggers that read each other tends to be worse than "
    "their cascade; use normalize='chain', or tune_weights"
)


@dataclass(frozen=True, eq=False, repr=False)
class JointCRF(TokenTagger[LabelsT], Composition[LabelsT]):
    """CRFs that decide together; made by `fstcrf.compose`.

    Parameters
    ----------
    taggers : tuple of CRF
        Each writes a tape; it reads those of others where they are there.
    weights : tuple of float
        Factor of each tagger's potentials, at least 0.
    conjuncts : tuple of Acceptor
        The grammar, bound to the tapes.
    maps : tuple of TapeMap
        Tapes between what a tagger writes and what a later one reads.
    normalize : {"product", "chain"}
        product: potentials are added, one normaliser over all tapes. chain: the product of
        conditional probabilities, p(first tape) · p(second tape | first) · ...
    relabellings : tuple of Relabelling
        Taggers that read a tape by other labels than its own.
    search : {"auto", "lazy", "expanded"}
        How best paths under a grammar are found; see `fstcrf.machines.plans.Program`.
    budget : Budget, optional
        When a search gives up on a sentence, where nothing else is said; files do not keep it.
    given : tuple of ObservedTape
        Columns that the grammar reads, which nobody decides.

    Raises
    ------
    OptionError
        Tapes with one name, taggers that read each other, labels that a tagger cannot read,
        weights that are negative, or options that do not go together.
    LabelError
        A grammar over other tapes or labels.
    """

    taggers: tuple[CRF, ...]
    weights: tuple[float, ...]
    conjuncts: tuple[Acceptor, ...] = ()
    maps: tuple[TapeMap, ...] = ()
    normalize: Normalize = "product"
    relabellings: tuple[Relabelling, ...] = ()
    search: Search = "auto"
    budget: Budget | None = None
    given: tuple[ObservedTape, ...] = ()

    def __post_init__(self) -> None:
        _check(self)

    def __getstate__(self) -> dict[str, object]:
        """Return what it is made of: what was computed from that stays here."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    # --- What it is made of -------------------------------------------------------------------

    @property
    def tapes(self) -> tuple[str, ...]:
        """Names of the tapes that it writes: in the order of the taggers, then those of maps."""
        return tuple(self.label_sets)

    @made_once
    def label_sets(self) -> dict[str, tuple[str, ...]]:
        """The labels of each tape."""
        sets = {tagger.tape: tagger.labels for tagger in self.taggers}
        return sets | {tape_map.tape: tape_map.labels for tape_map in self.maps}

    @made_once
    def components(self) -> tuple[Component, ...]:
        """The taggers as parts of the composition."""
        other = {(r.reader, r.read): r.reading for r in self.relabellings}
        same = {tape: component.Reading(tape, labels) for tape, labels in self.label_sets.items()}
        found = []
        for tagger, weight in zip(self.taggers, self.weights, strict=True):
            mine = {
                t.name: other.get((tagger.tape, t.name), same.get(t.name)) for t in tagger.reads
            }
            readings = {read: reading for read, reading in mine.items() if reading is not None}
            found.append(component.Component(tagger, weight, readings))
        return tuple(found)

    @made_once
    def order(self) -> tuple[str, ...]:
        """The tapes, each after those that are read for it; else as they are.

        Raises
        ------
        OptionError
            Tapes that read each other.
        """
        reads = {c.tagger.tape: {r.tape for r in c.readings.values()} for c in self.components}
        reads |= {tape_map.tape: {tape_map.source} for tape_map in self.maps}
        return chains.reading_order(reads)

    @property
    def conditional(self) -> bool:
        """Whether it is a product of conditional probabilities rather than of transducers."""
        return self.normalize == "chain" and len(self.taggers) > 1

    @property
    def literal(self) -> bool:
        """Whether the taggers read attribute lists or feature dicts rather than columns."""
        return isinstance(self.taggers[0].index, LiteralIndex)

    @made_once
    def cannot_overflow(self) -> bool:
        """Whether no sum of weights can overflow, whatever the (float32) values of attributes."""
        return all(component.weighted.cannot_overflow for component in self.components)

    @made_once
    def grammar_read(self) -> tuple[tuple[ObservedTape, ...], tuple[Acceptor, ...]]:
        """The given tapes that the grammar reads, and the grammar, their labels merged."""
        if not self.given:
            return (), self.conjuncts
        return component.merged(self.given, self.conjuncts)

    @made_once
    def cascade_taggers(self) -> dict[str, CRF | Self]:
        """The tagger of each tape, under what the grammar says of this tape.

        Taggers that decide one after the other are these.

        Raises
        ------
        OptionError
            A part of the grammar is over several tapes.
        """
        ruled = component.grouped(
            self.conjuncts,
            [tagger.tape for tagger in self.taggers],
            [tape_map.tape for tape_map in self.maps],
        )
        alone: dict[str, CRF | Self] = {tagger.tape: tagger for tagger in self.taggers}
        for tagger in self.taggers:
            if tagger.tape in ruled:
                alone[tagger.tape] = replace(
                    self,
                    taggers=(tagger,),
                    weights=(1.0,),
                    conjuncts=ruled[tagger.tape],
                    maps=(),
                    normalize="product",
                    relabellings=(),
                )
        return alone

    @made_once
    def program(self) -> Program:
        """The composition compiled.

        Raises
        ------
        OptionError
            Another search.
        """
        parts = [part.chain for part in self.components]
        parts += [tape_map.chain for tape_map in self.maps]
        added = tuple(tape_map.acceptor for tape_map in self.maps)
        given, conjuncts = self.grammar_read
        parts += [tape.chain for tape in given]
        return plans.Program(parts, (), (*conjuncts, *added), self.search, self.budget)

    @made_once
    def stages(self) -> tuple[Stage, ...]:
        """The taggers in the order in which ``normalize="chain"`` decides them."""
        given, conjuncts = self.grammar_read
        return stages.stages_of(self.components, self.order, conjuncts, given)

    @made_once
    def skeleton(self) -> Program | None:
        """The tapes that the grammar connects, without potentials; None where there are none."""
        given, conjuncts = self.grammar_read
        return stages.skeleton(self.taggers, conjuncts, given)

    def plan(self) -> Plan:
        """Return what the composition compiles to and what it costs; print it.

        Under the chain rule, of the product of the same taggers.
        """
        plan = plans.plan_of(self.program)
        read = any(component.readings for component in self.components)
        untuned = self.normalize == "product" and read and set(self.weights) == {1.0}
        return replace(plan, notes=(_UNTUNED,)) if untuned else plan

    def with_weights(self, *weights: float) -> Self:
        """Return the composition with other factors of the taggers' potentials."""
        return replace(self, weights=tuple(real_number(w, "weight") for w in weights))

    def under(self, grammar: Grammar) -> Self:
        """Return the composition under one more grammar.

        Its parts may read columns that the taggers read, too: as tapes that are given.

        Raises
        ------
        GrammarError
            A grammar that does not go with the labels, or accepts nothing.
        """
        added, given = self._bound(grammar)
        found = replace(self, conjuncts=(*self.conjuncts, *added), given=given)
        plans.check_consistent(found.program)
        if not found.conditional:
            _ = found.program.decoder
            return found
        with contextlib.suppress(TooLargeError):  # then nothing is known about lengths
            _ = found.skeleton and found.skeleton.decoder
        for stage in found.stages:
            _ = stage.legal.decoder
        return found

    def _bound(self, grammar: Grammar) -> tuple[list[Acceptor], tuple[ObservedTape, ...]]:
        """Return the acceptors of a grammar, and the given tapes with those that it reads."""
        added = component.bound(grammar, self.label_sets, self._observed)
        read = {tape for acceptor in added for tape in acceptor.tapes}
        read -= {tape.tape for tape in self.given}
        new = [tape for tape in self._observed() if tape.tape in read] if read else []
        return added, (*self.given, *new)

    def _observed(self) -> list[ObservedTape]:
        """Return the columns that the taggers read, as tapes that may be given."""
        known = [tape for tape in self.given if tape.tape not in self.label_sets]
        return component.observed([tagger.index for tagger in self.taggers], self.label_sets, known)

    def renamed(self, tape: str) -> JointCRF[LabelsT]:
        """Return a tagger under a grammar with another name of its tape; as for `CRF.renamed`.

        Raises
        ------
        OptionError
            It has several tapes.
        """
        if len(self.tapes) > 1:
            raise OptionError(f"tapes {', '.join(self.tapes)}: rename taggers, then compose them")
        (only,), (old,) = self.taggers, self.tapes
        conjuncts = tuple(
            replace(one, tapes=tuple(tape if name == old else name for name in one.tapes))
            for one in self.conjuncts
        )
        return replace(self, taggers=(only.renamed(tape),), conjuncts=conjuncts)

    def encoded(self) -> tuple[str, dict[str, Array], dict[str, str]]:
        """Return the kind of its file, arrays and metadata."""
        return KIND, *encoded(self)

    def constrained(
        self, grammar: Grammar, *, search: Search | None = None, budget: Budget | None = None
    ) -> JointCRF[LabelsT]:
        """Return the composition under one more grammar; as for `CRF.constrained`."""
        whole = replace(self, search=search or self.search, budget=budget or self.budget)
        return whole.under(grammar)

    if TYPE_CHECKING:

        def __and__(self, grammar: Grammar) -> JointCRF[LabelsT]: ...

    # --- One sentence -------------------------------------------------------------------------

    def tag(
        self,
        sentence: SentenceLike,
        *,
        forced: Forced | None = None,
        bias: Bias | None = None,
        search: Search | None = None,
        budget: int | Budget | None = None,
    ) -> LabelsT:
        """Return the best labels of one sentence, a list for each tape; as for `Tagger.tag`."""
        plain = forced is None and bias is None and search is None and budget is None
        found = chain.tag_one(self, sentence) if plain and self.conditional else None
        if found is not None:
            return cast("LabelsT", found)
        return super().tag(sentence, forced=forced, bias=bias, search=search, budget=budget)

    def scored(self, sentence: SentenceLike, forced: Forced | None, bias: Bias | None) -> Scored:
        """Return what scores and samples labels; a chain does without a lattice."""
        if not self.conditional:
            return super().scored(sentence, forced, bias)
        asked = Request([sentence], forced=None if forced is None else [forced], bias=bias)
        scored: Scored = chain.ChainSentence(self, sentence, asked.evidence(self.tapes))
        return scored

    def explain(self, sentence: SentenceLike, token: int) -> JointExplanation:
        """Return which features of which tagger pushed which label at a token, and by how much."""
        found: JointExplanation = explaining.explain(self, sentence, token)
        return found

    # --- Many ---------------------------------------------------------------------------------

    def decoded(self, asked: Request) -> Answer:
        """Return what `decode` does; see `Tagger.decoded`."""
        if not self.conditional:
            return super().decoded(asked)
        answer: Answer = chain.decode(self, asked, asked.evidence(self.tapes))
        return answer

    def transducers(
        self, sentences: Data, known: Evidence | None = None, *, streamed: bool = False
    ) -> TaggedLattices:
        """Return the lattice of each sentence, with what is known put in.

        Raises
        ------
        OptionError
            ``normalize="chain"``, which is no transducer.
        """
        if self.conditional:
            raise OptionError(
                "normalize='chain' has no lattice of all labellings and no marginals in closed "
                "form: use lattice(sentence, n=50) for the best labellings, lattice(sentence, "
                "samples=1000) for samples, or compose with normalize='product'"
            )
        lattices: TaggedLattices = batches.lattices_of(self, sentences, known, streamed=streamed)
        return lattices

    def decision(self) -> JointCRF[LabelsT]:
        """Return itself: it decides all tapes together."""
        return self

    def as_transducer(self) -> JointCRF[LabelsT]:
        """Return the composition with ``normalize="product"``: the same labellings are legal."""
        return replace(self, normalize="product") if self.conditional else self

    def _searched(self, search: Search) -> JointCRF[LabelsT]:
        return self if search == self.search else replace(self, search=search)

    def without_grammar(self) -> JointCRF[LabelsT] | None:
        """Return the same taggers without a grammar; None where there is none."""
        return replace(self, conjuncts=()) if self.conjuncts else None

    def cascade(
        self,
        sentences: Data,
        *,
        threads: int = 1,
        forced: Sequence[Forced | None] | Columns | None = None,
        bias: Bias | None = None,
    ) -> tuple[Column, ...]:
        """Decode greedily: each tagger reads the predictions of the earlier ones.

        Each tagger obeys the part of the grammar about its tape. Evidence labels and biases apply
        to the tagger of their tape. The arguments are those of `decode`.

        Raises
        ------
        NoPathError
            No labelling of a sentence is legal, be it one without tokens.
        OptionError
            A part of the grammar is over several tapes, which no cascade can obey.
        """
        known = Request.of(sentences, self.label_sets, forced, bias).evidence(self.tapes)
        columns: tuple[Column, ...]
        with plans.one_warning():
            columns = batches.cascade(self, sentences, known=known, threads=threads)
        return columns

    def tune_weights(self, dev: Data, **options: Unpack[TuningOptions]) -> JointCRF[LabelsT]:
        """Return the composition with weights chosen on held-out data.

        Options as for `fstcrf.taggers.tune_weights`.
        """
        with plans.one_warning():
            found: JointCRF[LabelsT] = tuning.tune_weights(self, dev, **options)
            return found


# --- Whether the parts go together ----------------------------------------------------------------


def _check(composition: JointCRF) -> None:
    """Check that the parts of a composition go together."""
    _check_tapes(composition)
    _check_options(composition)
    _check_sentences(composition)
    _check_grammar(composition)
    _check_relabellings(composition)
    # Sorting them raises where they read each other.
    assert len(composition.order) == len(composition.label_sets)  # noqa: S101


def _check_tapes(composition: JointCRF) -> None:
    if not composition.taggers:
        raise OptionError("compose() needs at least one tagger")
    names = [*(t.tape for t in composition.taggers), *(m.tape for m in composition.maps)]
    if (twice := first_twice(names)) is not None:
        raise OptionError(
            f"two taggers write the same tape {twice!r} (tapes: {', '.join(names)}): train one of "
            "them with another tape=, or rename it, tagger.renamed('pos')"
        )


def _check_options(composition: JointCRF) -> None:
    weights, taggers = composition.weights, composition.taggers
    if len(weights) != len(taggers):
        raise OptionError(f"{len(weights)} weights for {len(taggers)} taggers")
    if any(not 0 <= weight < np.inf for weight in weights):
        raise OptionError(f"weights are {list(weights)}, expected numbers from 0")
    if composition.normalize not in ("product", "chain"):
        raise OptionError(f"normalize is {composition.normalize!r}, expected 'product' or 'chain'")


def _check_sentences(composition: JointCRF) -> None:
    """Check that the taggers read one kind of sentences, and that it can be decoded."""
    if len({isinstance(tagger.index, LiteralIndex) for tagger in composition.taggers}) > 1:
        raise OptionError(
            "some of the taggers read columns, others attribute lists: they cannot read one "
            "sentence"
        )
    if composition.conditional and (composition.maps or composition.literal):
        what = (
            "taggers that read attribute lists"
            if composition.literal
            else "maps that leave a choice, where a label may become several"
        )
        raise OptionError(f"normalize='chain' has no {what}; use 'product'")


def _check_grammar(composition: JointCRF) -> None:
    sets = composition.label_sets | {tape.tape: tape.labels for tape in composition.given}
    for acceptor in (*composition.conjuncts, *(m.acceptor for m in composition.maps)):
        for tape, labels in zip(acceptor.tapes, acceptor.labels, strict=True):
            if tape not in sets:
                there = ", ".join(map(repr, sets))
                raise LabelError(f"{acceptor.name} reads the tape {tape!r}; the tapes are {there}")
            if sets[tape] != labels:
                other = ", ".join(sorted(set(labels) ^ set(sets[tape]))[:5])
                raise LabelError(
                    f"{acceptor.name} was bound to other labels than the tape {tape!r} has: "
                    f"{other or 'in another order'}"
                )


def _check_relabellings(composition: JointCRF) -> None:
    sets = composition.label_sets
    reads = {(tagger.tape, t.name) for tagger in composition.taggers for t in tagger.reads}
    for r in composition.relabellings:
        if (r.reader, r.read) not in reads or len(r.place) != len(sets.get(r.tape, ())):
            raise OptionError(
                f"a relabelling of {r.tape!r} for {r.reader!r}, read as {r.read!r}, does not go "
                "with the taggers"
            )


# --- The file of a composition --------------------------------------------------------------------

KIND = "fstcrf-composition"


class AcceptorHeader(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An acceptor but for its arrays."""

    tapes: tuple[str, ...]
    labels: tuple[tuple[str, ...], ...]
    name: str


class _Map(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    tape: str
    labels: tuple[str, ...]
    acceptor: AcceptorHeader


class _Given(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    tape: str
    labels: tuple[str, ...]


class _Relabelling(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    reader: str
    read: str
    tape: str
    labels: tuple[str, ...]


class _Header(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    taggers: tuple[dict[str, str], ...]  # the metadata of each
    weights: tuple[float, ...]
    normalize: Literal["product", "chain"]
    conjuncts: tuple[AcceptorHeader, ...]
    maps: tuple[_Map, ...]
    relabellings: tuple[_Relabelling, ...] = ()
    search: Literal["auto", "lazy", "expanded"] = "auto"
    given: tuple[_Given, ...] = ()


def encoded(composition: JointCRF) -> tuple[dict[str, Array], dict[str, str]]:
    """Return a composition as arrays and metadata."""
    arrays: dict[str, Array] = {}
    taggers = []
    for k, tagger in enumerate(composition.taggers):
        own, metadata = models.encoded(tagger)
        arrays |= {f"tagger{k}.{name}": array for name, array in own.items()}
        taggers.append(metadata)
    for k, acceptor in enumerate(composition.conjuncts):
        arrays |= acceptor_arrays(f"conjunct{k}.", acceptor)
    for k, tape_map in enumerate(composition.maps):
        arrays |= acceptor_arrays(f"map{k}.", tape_map.acceptor)
    for k, relabelling in enumerate(composition.relabellings):
        arrays[f"relabelling{k}.place"] = relabelling.place
    header = _Header(
        taggers=tuple(taggers),
        weights=composition.weights,
        normalize=composition.normalize,
        conjuncts=tuple(acceptor_header(a) for a in composition.conjuncts),
        maps=tuple(_Map(m.tape, m.labels, acceptor_header(m.acceptor)) for m in composition.maps),
        relabellings=tuple(
            _Relabelling(r.reader, r.read, r.tape, r.labels) for r in composition.relabellings
        ),
        search=composition.search,
        given=tuple(_Given(tape.tape, tape.labels) for tape in composition.given),
    )
    return arrays, {"composition": msgspec.json.encode(header).decode()}


def load(path: str | os.PathLike[str], *, mmap: bool | None = None) -> CRF | JointCRF:
    """Read a model file of fstcrf's own: a tagger or a composition of taggers.

    `mmap` maps it, as `fstcrf.load` says.

    Raises
    ------
    ModelFileError
        Not a model file, of another version, or damaged.
    OSError
        The file cannot be opened.
    """
    if file_kind(path) != KIND:
        return models.read(path, mapped=mmap)
    arrays, metadata = read_arrays(path, kind=KIND, version=VERSION, mapped=mmap)
    return decoded(arrays, metadata, os.fspath(path))


def decoded(arrays: Mapping[str, Array], metadata: Mapping[str, str], name: str) -> JointCRF:
    """Return the composition that arrays and metadata describe."""
    with sound(name, "composition"):
        header = msgspec.json.decode(metadata["composition"], type=_Header)
        return _composition(header, arrays, name)


def _composition(header: _Header, arrays: Mapping[str, Array], name: str) -> JointCRF:
    maps: list[TapeMap] = []
    for k, known in enumerate(header.maps):
        acceptor = acceptor_of(known.acceptor, group(arrays, f"map{k}."))
        if len(acceptor.tapes) != 2 or acceptor.tapes[1] != known.tape:
            raise ModelFileError(f"the map to {known.tape!r} has tapes {acceptor.tapes}")
        maps.append(component.TapeMap(known.tape, known.labels, acceptor))
    return JointCRF(
        taggers=tuple(
            models.decoded(group(arrays, f"tagger{k}."), metadata, name)
            for k, metadata in enumerate(header.taggers)
        ),
        weights=header.weights,
        conjuncts=tuple(
            acceptor_of(known, group(arrays, f"conjunct{k}."))
            for k, known in enumerate(header.conjuncts)
        ),
        maps=tuple(maps),
        normalize=header.normalize,
        relabellings=tuple(
            component.Relabelling(
                r.reader, r.read, r.tape, r.labels, arrays[f"relabelling{k}.place"]
            )
            for k, r in enumerate(header.relabellings)
        ),
        search=header.search,
        given=tuple(component.ObservedTape(known.tape, known.labels) for known in header.given),
    )


def acceptor_arrays(prefix: str, acceptor: Acceptor) -> dict[str, Array]:
    """Return the arrays of an acceptor, their names behind a prefix."""
    arrays: dict[str, Array] = {
        f"{prefix}target": acceptor.target,
        f"{prefix}final": acceptor.final,
    }
    if acceptor.score is not None:
        arrays[f"{prefix}score"] = acceptor.score
    return arrays


def acceptor_header(acceptor: Acceptor) -> AcceptorHeader:
    """Return what a file says of an acceptor but for its arrays."""
    return AcceptorHeader(acceptor.tapes, acceptor.labels, acceptor.name)


def acceptor_of(header: AcceptorHeader, arrays: Mapping[str, Array]) -> Acceptor:
    """Return the acceptor of a header and arrays, checked."""
    target, final, score = arrays["target"], arrays["final"], arrays.get("score")
    scores = (final,) if score is None else (final, score)
    if final.ndim != 1 or any(array.dtype != np.float64 for array in scores):
        raise ModelFileError(f"the scores of {header.name} are not float64 arrays")
    return grammars.Acceptor(header.tapes, header.labels, target, score, final, header.name)
