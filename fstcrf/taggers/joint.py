"""`JointCRF`: CRFs that decide together. Its checks, its compiled program and its file format."""

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
from fstcrf.text.features import FeatureFunctions, FunctionIndex, LiteralIndex
from fstcrf.text.features.function import with_functions
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
else:  # one tagger alone does not need these modules
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
        Each writes a tape, and may read the tapes of others.
    weights : tuple of float
        Factor of each tagger's potentials, at least 0.
    conjuncts : tuple of Acceptor
        The grammar, bound to the tapes.
    maps : tuple of TapeMap
        Maps from the tape that a tagger writes to a tape that another tagger reads.
    normalize : {"product", "chain"}
        product: potentials are added, one normaliser over all tapes. chain: the product of
        conditional probabilities, p(first tape) · p(second tape | first) · ...
    relabellings : tuple of Relabelling
        Translations of a tape's labels for a tagger that was trained on other labels.
    search : {"auto", "lazy", "expanded"}
        The search for best paths under a grammar; see `fstcrf.machines.plans.Program`.
    budget : Budget, optional
        Default limit of a search, for each sentence. Files do not store it.
    given : tuple of ObservedTape
        Columns of the text that the grammar reads.

    Raises
    ------
    OptionError
        Two tapes with the same name, taggers that read each other, labels that a tagger cannot
        read, a negative weight, or options that exclude each other.
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
        """Return the fields only: copies and pickles compute the rest anew."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    # --- Parts --------------------------------------------------------------------------------

    @property
    def tapes(self) -> tuple[str, ...]:
        """Names of the tapes that are written: by the taggers in their order, then by maps."""
        return tuple(self.label_sets)

    @made_once
    def label_sets(self) -> dict[str, tuple[str, ...]]:
        """The labels of each tape."""
        sets = {tagger.tape: tagger.labels for tagger in self.taggers}
        return sets | {tape_map.tape: tape_map.labels for tape_map in self.maps}

    @made_once
    def _components(self) -> tuple[Component, ...]:
        """The taggers, each with its weight and the tapes that it reads."""
        other = {(r.reader, r.read): r.reading for r in self.relabellings}
        parts = []
        for tagger, weight in zip(self.taggers, self.weights, strict=True):
            pairs = (
                (
                    t.name,
                    other.get((tagger.tape, t.name)) or component.same_tape(t, self.label_sets),
                )
                for t in tagger.reads
            )
            readings = {name: reading for name, reading in pairs if reading is not None}
            parts.append(component.Component(tagger, weight, readings))
        return tuple(parts)

    @made_once
    def _order(self) -> tuple[str, ...]:
        """The tapes in an order in which each tape is after the tapes that its tagger reads.

        Raises
        ------
        OptionError
            Tapes that read each other.
        """
        reads = {c.tagger.tape: {r.tape for r in c.readings.values()} for c in self._components}
        reads |= {tape_map.tape: {tape_map.source} for tape_map in self.maps}
        return chains.reading_order(reads)

    @property
    def _conditional(self) -> bool:
        """Whether the composition is a product of conditional probabilities, by the chain rule."""
        return self.normalize == "chain" and len(self.taggers) > 1

    @property
    def _literal(self) -> bool:
        """Whether the taggers read attribute lists or feature dicts rather than columns."""
        return isinstance(self.taggers[0].index, LiteralIndex)

    @made_once
    def _cannot_overflow(self) -> bool:
        """Whether sums of weights are finite for all (float32) values of attributes."""
        return all(component.weighted._cannot_overflow for component in self._components)

    @made_once
    def _grammar_read(self) -> tuple[tuple[ObservedTape, ...], tuple[Acceptor, ...]]:
        """The columns of the text that the grammar reads, and the grammar."""
        if not self.given:
            return (), self.conjuncts
        return component.merged(self.given, self.conjuncts)

    @made_once
    def _cascade_taggers(self) -> dict[str, CRF | Self]:
        """The tagger of each tape, under the part of the grammar about this tape; for cascades.

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
        taggers: dict[str, CRF | Self] = {tagger.tape: tagger for tagger in self.taggers}
        for tagger in self.taggers:
            if tagger.tape in ruled:
                taggers[tagger.tape] = replace(
                    self,
                    taggers=(tagger,),
                    weights=(1.0,),
                    conjuncts=ruled[tagger.tape],
                    maps=(),
                    normalize="product",
                    relabellings=(),
                )
        return taggers

    @made_once
    def _program(self) -> Program:
        """The compiled composition."""
        parts = [part.chain for part in self._components]
        parts += [tape_map.chain for tape_map in self.maps]
        added = tuple(tape_map.acceptor for tape_map in self.maps)
        observed, conjuncts = self._grammar_read
        parts += [tape.chain for tape in observed]
        return plans.Program(parts, (), (*conjuncts, *added), self.search, self.budget)

    @made_once
    def _stages(self) -> tuple[Stage, ...]:
        """The taggers in the order in which ``normalize="chain"`` decides them."""
        observed, conjuncts = self._grammar_read
        return stages.stages_of(self._components, self._order, conjuncts, observed)

    @made_once
    def _cost_checked(self) -> bool:
        """True; a warning was issued if the chain rule costs much more than the product."""
        chain.warn_of_cost(self)
        return True

    @made_once
    def _grammar_program(self) -> Program | None:
        """The product, without potentials, of the tapes that the grammar connects, if any."""
        observed, conjuncts = self._grammar_read
        return stages.grammar_program(self.taggers, conjuncts, observed)

    def plan(self) -> Plan:
        """Return the compiled machine's sizes and costs; print it.

        With ``normalize="chain"``, they describe the product of the same taggers. A note has the
        estimated cost of the search.
        """
        plan = plans.plan_of(self._program)
        if self._conditional and not self._only_cascades:
            return replace(plan, notes=(chain.cost_note(self, plan),))
        read = any(component.readings for component in self._components)
        untuned = self.normalize == "product" and read and set(self.weights) == {1.0}
        return replace(plan, notes=(_UNTUNED,)) if untuned else plan

    def with_weights(self, *weights: float) -> Self:
        """Return the composition with other factors of the taggers' scores."""
        return replace(self, weights=tuple(real_number(w, "weight") for w in weights))

    def constrained(
        self, grammar: Grammar, *, search: Search | None = None, budget: Budget | None = None
    ) -> JointCRF[LabelsT]:
        """Return the composition under one more grammar; options as for `CRF.constrained`.

        The grammar may also read columns that the taggers read. It reads them like tapes.

        Raises
        ------
        GrammarError
            The grammar does not fit the labels, or rejects all labellings.
        """
        added, observed = self._bound(grammar)
        composition = replace(
            self,
            conjuncts=(*self.conjuncts, *added),
            given=observed,
            search=search or self.search,
            budget=budget or self.budget,
        )
        # Machines that are too large, and grammars that reject all labellings, are reported here.
        if composition._only_cascades:
            for tagger in composition._cascade_taggers.values():
                plans.check_consistent(tagger._program)
            return composition
        plans.check_consistent(composition._program)
        if not composition._conditional:
            _ = composition._program.decoder
            return composition
        with contextlib.suppress(TooLargeError):  # sentences are then not checked by length
            _ = composition._grammar_program and composition._grammar_program.decoder
        for stage in composition._stages:
            _ = stage.legal.decoder
        return composition

    def _bound(self, grammar: Grammar) -> tuple[list[Acceptor], tuple[ObservedTape, ...]]:
        """Return the acceptors of a grammar, and `given` with the further columns that it reads."""
        added = component.bound(grammar, self.label_sets, self._observed)
        read = {tape for acceptor in added for tape in acceptor.tapes}
        read -= {tape.tape for tape in self.given}
        new = [tape for tape in self._observed() if tape.tape in read] if read else []
        return added, (*self.given, *new)

    def _observed(self) -> list[ObservedTape]:
        """Return the columns that the taggers read, as tapes that a grammar may read."""
        tapes = [tape for tape in self.given if tape.tape not in self.label_sets]
        return component.observed([tagger.index for tagger in self.taggers], self.label_sets, tapes)

    @made_once
    def _only_cascades(self) -> bool:
        """Whether a feature function reads labels of the composition: no joint decision then."""
        return any(
            isinstance(part.tagger.index, FunctionIndex) and part.readings
            for part in self._components
        )

    def with_features(self, features: FeatureFunctions | None, where: str = "model") -> Self:
        """Return the composition whose taggers compute attributes by functions.

        Parameters
        ----------
        features : callable or dict of str to callable, optional
            The function of the only tagger that needs one, or a dict from tape to function.
        where : str
            Name of the model in messages.

        Raises
        ------
        OptionError
            A function is missing, or belongs to no tagger.
        """
        indexes = with_functions({t.tape: t.index for t in self.taggers}, features, where)
        if all(indexes[tagger.tape] is tagger.index for tagger in self.taggers):
            return self
        taggers = tuple(replace(tagger, index=indexes[tagger.tape]) for tagger in self.taggers)
        return replace(self, taggers=taggers)

    def renamed(self, tape: str) -> JointCRF[LabelsT]:
        """Return the tagger with another name of its tape; as for `CRF.renamed`.

        Raises
        ------
        OptionError
            There are several tapes.
        """
        if len(self.tapes) > 1:
            raise OptionError(f"tapes {', '.join(self.tapes)}: rename taggers, then compose them")
        (only,), (old,) = self.taggers, self.tapes
        conjuncts = tuple(
            replace(acceptor, tapes=tuple(tape if t == old else t for t in acceptor.tapes))
            for acceptor in self.conjuncts
        )
        return replace(self, taggers=(only.renamed(tape),), conjuncts=conjuncts)

    def _encoded(self) -> tuple[str, dict[str, Array], dict[str, str]]:
        return KIND, *encoded(self)

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
        labels = chain.tag_one(self, sentence) if plain and self._conditional else None
        if labels is not None:
            return cast("LabelsT", labels)
        return super().tag(sentence, forced=forced, bias=bias, search=search, budget=budget)

    def _scorer(self, sentence: SentenceLike, forced: Forced | None, bias: Bias | None) -> Scored:
        if not self._conditional:
            return super()._scorer(sentence, forced, bias)
        request = Request([sentence], forced=None if forced is None else [forced], bias=bias)
        scorer: Scored = chain.ChainSentence(self, sentence, request.evidence(self.tapes))
        return scorer

    def explain(self, sentence: SentenceLike, token: int) -> JointExplanation:
        """Return each feature's contribution to the score of each label at a token."""
        explanation: JointExplanation = explaining.explain(self, sentence, token)
        return explanation

    # --- Many ---------------------------------------------------------------------------------

    def _decode(self, request: Request) -> Answer:
        if not self._conditional:
            return super()._decode(request)
        _ = self.conjuncts and self._cost_checked
        answer: Answer = chain.decode(self, request, request.evidence(self.tapes))
        return answer

    def _lattices(
        self, sentences: Data, evidence: Evidence | None = None, *, streamed: bool = False
    ) -> TaggedLattices:
        if self._conditional:
            raise OptionError(
                "normalize='chain' has no lattice of all labellings and no marginals in closed "
                "form: use lattice(sentence, n=50) for the best labellings, lattice(sentence, "
                "samples=1000) for samples, or compose with normalize='product'"
            )
        lattices: TaggedLattices = batches.lattices_of(self, sentences, evidence, streamed=streamed)
        return lattices

    def _joint(self) -> JointCRF[LabelsT]:
        return self

    def _as_transducer(self) -> JointCRF[LabelsT]:
        return replace(self, normalize="product") if self._conditional else self

    def _searched(self, search: Search) -> JointCRF[LabelsT]:
        return self if search == self.search else replace(self, search=search)

    def without_grammar(self) -> JointCRF[LabelsT] | None:
        """Return the taggers without the grammar, or `None` if there is no grammar."""
        return replace(self, conjuncts=()) if self.conjuncts else None

    def cascade(
        self,
        sentences: Data,
        *,
        threads: int = 1,
        forced: Sequence[Forced | None] | Columns | None = None,
        bias: Bias | None = None,
    ) -> tuple[Column, ...]:
        """Return labels decoded one tagger after the other, a column for each tape.

        Each tagger reads the labels of earlier taggers, and obeys the part of the grammar about its
        tape. Forced labels and biases apply to the tagger of their tape. The arguments are those of
        `decode`.

        Raises
        ------
        NoPathError
            A sentence has no legal labelling; it may also be a sentence without tokens.
        OptionError
            A part of the grammar is over several tapes: a cascade cannot obey it.
        """
        evidence = Request.of(sentences, self.label_sets, forced, bias).evidence(self.tapes)
        columns: tuple[Column, ...]
        with plans.one_warning():
            columns = batches.cascade(self, sentences, evidence=evidence, threads=threads)
        return columns

    def tune_weights(self, dev: Data, **options: Unpack[TuningOptions]) -> JointCRF[LabelsT]:
        """Return the composition with weights chosen on held-out data.

        Options as for `fstcrf.taggers.tune_weights`.
        """
        with plans.one_warning():
            tuned: JointCRF[LabelsT] = tuning.tune_weights(self, dev, **options)
            return tuned


# --- Whether the parts go together ----------------------------------------------------------------


def _check(composition: JointCRF) -> None:
    """Raise an error if the parts of a composition contradict each other."""
    _check_tapes(composition)
    _check_options(composition)
    _check_sentences(composition)
    _check_grammar(composition)
    _check_relabellings(composition)
    # The order of tapes raises an error if taggers read each other.
    assert len(composition._order) == len(composition.label_sets)  # noqa: S101


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
    """Raise an error if the taggers read different kinds of sentences, or a chain cannot."""
    if len({isinstance(tagger.index, LiteralIndex) for tagger in composition.taggers}) > 1:
        raise OptionError(
            "some of the taggers read columns, others attribute lists: they cannot read one "
            "sentence"
        )
    if composition._conditional and (composition.maps or composition._literal):
        what = (
            "taggers that read attribute lists"
            if composition._literal
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
    """The names and labels of an acceptor, without its arrays."""

    tapes: tuple[str, ...]
    labels: tuple[tuple[str, ...], ...]
    name: str


class _Map(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    tape: str
    labels: tuple[str, ...]
    acceptor: AcceptorHeader


class _ObservedTape(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
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
    given: tuple[_ObservedTape, ...] = ()


def encoded(composition: JointCRF) -> tuple[dict[str, Array], dict[str, str]]:
    """Return a composition as arrays and metadata."""
    arrays: dict[str, Array] = {}
    taggers = []
    for k, tagger in enumerate(composition.taggers):
        parts, metadata = models.encoded(tagger)
        arrays |= {f"tagger{k}.{name}": array for name, array in parts.items()}
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
        given=tuple(_ObservedTape(tape.tape, tape.labels) for tape in composition.given),
    )
    return arrays, {"composition": msgspec.json.encode(header).decode()}


def load(
    path: str | os.PathLike[str],
    *,
    mmap: bool | None = None,
    features: FeatureFunctions | None = None,
) -> CRF | JointCRF:
    """Read a CRF or a composition of CRFs from a file of fstcrf.

    `fstcrf.load` describes `mmap` and `features`.

    Raises
    ------
    ModelFileError
        The file is no model file, is of another version, or is damaged.
    OSError
        The file cannot be opened.
    """
    if file_kind(path) != KIND:
        return models.CRF.load(path, mmap=mmap, features=features)
    arrays, metadata = read_arrays(path, kind=KIND, version=VERSION, mapped=mmap)
    name = os.fspath(path)
    return decoded(arrays, metadata, name).with_features(features, name)


def decoded(arrays: Mapping[str, Array], metadata: Mapping[str, str], name: str) -> JointCRF:
    """Return the composition that arrays and metadata describe."""
    with sound(name, "composition"):
        header = msgspec.json.decode(metadata["composition"], type=_Header)
        return _composition(header, arrays, name)


def _composition(header: _Header, arrays: Mapping[str, Array], name: str) -> JointCRF:
    maps: list[TapeMap] = []
    for k, part in enumerate(header.maps):
        acceptor = acceptor_of(part.acceptor, group(arrays, f"map{k}."))
        if len(acceptor.tapes) != 2 or acceptor.tapes[1] != part.tape:
            raise ModelFileError(f"the map to {part.tape!r} has tapes {acceptor.tapes}")
        maps.append(component.TapeMap(part.tape, part.labels, acceptor))
    return JointCRF(
        taggers=tuple(
            models.decoded(group(arrays, f"tagger{k}."), metadata, name)
            for k, metadata in enumerate(header.taggers)
        ),
        weights=header.weights,
        conjuncts=tuple(
            acceptor_of(part, group(arrays, f"conjunct{k}."))
            for k, part in enumerate(header.conjuncts)
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
        given=tuple(component.ObservedTape(tape.tape, tape.labels) for tape in header.given),
    )


def acceptor_arrays(prefix: str, acceptor: Acceptor) -> dict[str, Array]:
    """Return the arrays of an acceptor by name; all names begin with a prefix."""
    arrays: dict[str, Array] = {
        f"{prefix}target": acceptor.target,
        f"{prefix}final": acceptor.final,
    }
    if acceptor.score is not None:
        arrays[f"{prefix}score"] = acceptor.score
    return arrays


def acceptor_header(acceptor: Acceptor) -> AcceptorHeader:
    """Return the names and labels of an acceptor, for a file."""
    return AcceptorHeader(acceptor.tapes, acceptor.labels, acceptor.name)


def acceptor_of(header: AcceptorHeader, arrays: Mapping[str, Array]) -> Acceptor:
    """Return the acceptor of a header and arrays; raise `ModelFileError` for wrong arrays."""
    target, final, score = arrays["target"], arrays["final"], arrays.get("score")
    scores = (final,) if score is None else (final, score)
    if final.ndim != 1 or any(array.dtype != np.float64 for array in scores):
        raise ModelFileError(f"the scores of {header.name} are not float64 arrays")
    return grammars.Acceptor(header.tapes, header.labels, target, score, final, header.name)
