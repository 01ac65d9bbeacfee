"""Taggers: a conditional random field, and several of them composed."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, replace
from functools import wraps
from inspect import signature
from typing import TYPE_CHECKING, ParamSpec, Unpack, cast

from fstcrf import display
from fstcrf.arrays import Array
from fstcrf.errors import OptionError
from fstcrf.lattices.answer import Answer
from fstcrf.lazy import LazyModule, StaticFunction, made_once
from fstcrf.machines.topology import topology_machine
from fstcrf.taggers import jointmodel
from fstcrf.taggers.jointmodel import JointModel
from fstcrf.taggers.known import Bias as JointBias
from fstcrf.taggers.known import Columns, Known, Request
from fstcrf.taggers.known import Forced as JointForced
from fstcrf.taggers.model import decoding
from fstcrf.taggers.model import model as models
from fstcrf.taggers.model.model import Model
from fstcrf.taggers.model.reading import Data, SentenceLike, sized
from fstcrf.taggers.tagger import Composition, LabelsT, Scored, TokenTagger
from fstcrf.text.corpus import Column
from fstcrf.text.features import LiteralIndex

if TYPE_CHECKING:
    import pynini

    from fstcrf import lattices
    from fstcrf.kernel import Budget
    from fstcrf.lattices import distributions
    from fstcrf.machines import grammar as grammars
    from fstcrf.machines import openfst, plans
    from fstcrf.machines.grammar import Grammar
    from fstcrf.machines.plans import Search
    from fstcrf.taggers import JointExplanation, batches, chain, composition
    from fstcrf.taggers import product as products
    from fstcrf.taggers.model import Explanation, Weight, potentials, training
    from fstcrf.taggers.model import options as model_options
    from fstcrf.taggers.model.tagged import TaggedLattices
    from fstcrf.taggers.tagger import TuningOptions
else:  # a tagger that is loaded does not wait for what few calls need
    batches, chain, composition = (
        LazyModule(f"fstcrf.taggers.{name}") for name in ("batches", "chain", "composition")
    )
    grammars, plans = LazyModule("fstcrf.machines.grammar"), LazyModule("fstcrf.machines.plans")
    lattices = LazyModule("fstcrf.lattices")
    distributions = LazyModule("fstcrf.lattices.distributions")
    model_options = LazyModule("fstcrf.taggers.model.options")
    openfst = LazyModule("fstcrf.machines.openfst")
    potentials = LazyModule("fstcrf.taggers.model.potentials")
    products = LazyModule("fstcrf.taggers.product")
pushes = LazyModule("fstcrf.ext.explain.pushes")
joint = LazyModule("fstcrf.ext.explain.joint")
tuning = LazyModule("fstcrf.ext.tune.weights")

P = ParamSpec("P")


# --- One tagger -----------------------------------------------------------------------------------


def _of_crf(train: Callable[P, Model]) -> Callable[P, CRF]:
    """Return a function that makes a model, with its signature, as one that makes a CRF."""
    expected = signature(train)

    @wraps(train)
    def trained(*args: P.args, **options: P.kwargs) -> CRF:
        odd = sorted(options.keys() - expected.parameters.keys())
        if odd and not any(p.kind is p.VAR_KEYWORD for p in expected.parameters.values()):
            instead = model_options.not_there(
                odd[0], expected.parameters, ("those of its signature",)
            )
            raise TypeError(f"train() got an unexpected keyword argument {odd[0]!r}; {instead}")
        return CRF.of(train(*args, **options))

    return trained


class CRF(Model, TokenTagger[list[str]]):
    """A conditional random field: a `Model` that tags, with the same parameters.

    Made by `CRF.train` or `fstcrf.load`.
    """

    @property
    def tapes(self) -> tuple[str, ...]:
        """Name of the tape that it writes."""
        return (self.tape,)

    @property
    def label_sets(self) -> dict[str, tuple[str, ...]]:
        """The labels of its tape."""
        return {self.tape: self.labels}

    def facts(self) -> dict[str, display.Cell]:
        """Return how large it is, what it reads, and how it was trained."""
        record = self.record
        read = [] if isinstance(self.index, LiteralIndex) else self.index.columns
        found: dict[str, display.Cell] = {
            "reads": display.listed([*read, *(tape.name for tape in self.reads)]) or "attributes",
            "attributes": self.index.n_node_rows + self.index.n_arc_rows,
            "weights": self.space.size,
        }
        if record is None:
            return found
        best = "" if record.dev_score is None else f", held-out score {record.dev_score:.4f}"
        return {
            **found,
            "order": record.order,
            "trained on": f"{record.sentences:,} sentences, {record.tokens:,} tokens",
            "by": f"{record.options.get('method')}, {record.iterations} iterations{best}",
            "grammar": record.grammar,
        }

    # --- Making, saving -----------------------------------------------------------------------

    if TYPE_CHECKING:
        train = staticmethod(_of_crf(training.train_crf))
    else:  # as above
        train = StaticFunction("fstcrf.taggers.model.training", "train_crf", _of_crf)

    @classmethod
    def load(cls, path: str | os.PathLike[str], *, mmap: bool | None = None) -> CRF:
        """Read the file of a model; `fstcrf.load` reads those of any tagger and explains `mmap`.

        Raises
        ------
        ModelFileError
            Not the file of a model, of another version, or damaged.
        OSError
            The file cannot be opened.
        """
        return cls.of(models.read(path, mapped=mmap))

    @classmethod
    def of(cls, model: Model) -> CRF:
        """Return a tagger of a model."""
        return cls(*(getattr(model, field.name) for field in fields(Model)))

    def renamed(self, tape: str) -> CRF:
        """Return the same tagger with another name of its tape, so that it composes with others.

        Raises
        ------
        OptionError
            A name of a tape that it reads.
        """
        if any(tape == read.name for read in self.reads):
            raise OptionError(f"the tagger reads a tape {tape!r}: give its own another name")
        return replace(self, tape=tape)

    def encoded(self) -> tuple[str, dict[str, Array], dict[str, str]]:
        """Return the kind of its file, arrays and metadata."""
        return models.KIND, *models.encoded(self)

    def constrained(
        self, grammar: Grammar, *, search: Search | None = None, budget: Budget | None = None
    ) -> JointCRF[list[str]]:
        """Return the tagger under a grammar.

        Parameters
        ----------
        grammar : Grammar
        search : {"auto", "lazy", "expanded"}, optional
            How best paths are found from now on; as for `fstcrf.compose`.
        budget : Budget, optional
            When a lazy search gives up from now on, where nothing else is said. It is not saved.

        Raises
        ------
        GrammarError
            A grammar that does not go with the labels, or accepts nothing.
        """
        return self.composed.constrained(grammar, search=search, budget=budget)

    if TYPE_CHECKING:

        def __and__(self, grammar: Grammar) -> JointCRF[list[str]]: ...

    # --- Tagging ------------------------------------------------------------------------------

    def transducers(
        self, sentences: Data, known: Known | None, *, streamed: bool = False
    ) -> TaggedLattices:
        """Return the lattice of each sentence, with what is known put in."""
        return decoding.lattices_of(self, sentences, known, streamed=streamed)

    @made_once
    def composed(self) -> JointCRF[list[str]]:
        """The composition of this tagger alone."""
        return JointCRF((self,), (1.0,))

    def tag(
        self,
        sentence: SentenceLike,
        *,
        forced: JointForced | None = None,
        bias: JointBias | None = None,
        search: Search | None = None,
        budget: int | Budget | None = None,
    ) -> list[str]:
        """Return the best labels of one sentence; as for `Tagger.tag`."""
        plain = forced is None and bias is None and search is None and budget is None
        if plain and sized(sentence, "a sentence"):
            return decoding.tag_one(self, sentence)
        return super().tag(sentence, forced=forced, bias=bias, search=search, budget=budget)

    # --- Looking inside -----------------------------------------------------------------------

    def to_fst(self, arc_type: str = "log64") -> pynini.Fst:
        """Return the tagger's topology as a position-independent transducer.

        Input symbols are classes of arcs (which slots an arc sums), output symbols labels; weights
        are the costs of transitions. A sentence's emissions, composed with it, are its lattice.

        Parameters
        ----------
        arc_type : {"standard", "log", "log64"}

        Raises
        ------
        MissingDependencyError
            pynini is not installed.
        """
        weights = self.tables
        machine = topology_machine(
            self.topology, weights.transition, weights.initial, weights.final
        )
        found: pynini.Fst = openfst.to_fst(machine, arc_type)  # type: ignore[arg-type]  # it says what is wrong
        return found

    def top_features(self, n: int = 20) -> list[Weight]:
        """Return the n largest weights, by absolute value."""
        found: list[Weight] = pushes.top_features(self, n)
        return found

    def explain(self, sentence: SentenceLike, token: int) -> Explanation:
        """Return which features pushed which label at a token, and by how much."""
        found: Explanation = pushes.explain(self, sentence, token)
        return found

    def bind(self, labels: Mapping[str, Sequence[str]] | None = None) -> potentials.Binding:
        """Return what gives potentials of sentences; see `fstcrf.taggers.model.potentials.bind`."""
        return potentials.bind(self, labels)

    def potentials(
        self,
        sentences: Data,
        first: int = 0,
        end: int | None = None,
        *,
        labels: Mapping[str, Sequence[str]] | None = None,
    ) -> potentials.Potentials:
        """Return the potentials of a run of sentences, the labels of earlier tapes left open.

        Arguments as for `fstcrf.taggers.model.potentials.potentials`.
        """
        return potentials.potentials(self, sentences, first, end, labels=labels)


# --- Several taggers ------------------------------------------------------------------------------


class JointCRF(JointModel, TokenTagger[LabelsT], Composition[LabelsT]):
    """CRFs that decide together; made by `fstcrf.compose`.

    Parameters, and errors where they do not go together, are those of
    `fstcrf.taggers.jointmodel.JointModel`; its taggers are CRFs.
    """

    taggers: tuple[CRF, ...]

    @classmethod
    def of(cls, model: JointModel) -> JointCRF[LabelsT]:
        """Return a tagger of models composed."""
        parts = {field.name: getattr(model, field.name) for field in fields(JointModel)}
        taggers = tuple(t if isinstance(t, CRF) else CRF.of(t) for t in model.taggers)
        return cls(**{**parts, "taggers": taggers})

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
        return jointmodel.KIND, *jointmodel.encoded(self)

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
        forced: JointForced | None = None,
        bias: JointBias | None = None,
        search: Search | None = None,
        budget: int | Budget | None = None,
    ) -> LabelsT:
        """Return the best labels of one sentence, a list for each tape; as for `Tagger.tag`."""
        plain = forced is None and bias is None and search is None and budget is None
        found = chain.tag_one(self, sentence) if plain and self.conditional else None
        if found is not None:
            return cast("LabelsT", found)
        return super().tag(sentence, forced=forced, bias=bias, search=search, budget=budget)

    def scored(
        self, sentence: SentenceLike, forced: JointForced | None, bias: JointBias | None
    ) -> Scored:
        """Return what scores and samples labels; a chain does without a lattice."""
        if not self.conditional:
            return super().scored(sentence, forced, bias)
        asked = Request([sentence], forced=None if forced is None else [forced], bias=bias)
        return chain.ChainSentence(self, sentence, asked.evidence(self.tapes))

    def explain(self, sentence: SentenceLike, token: int) -> JointExplanation:
        """Return which features of which tagger pushed which label at a token, and by how much."""
        found: JointExplanation = joint.explain(self, sentence, token)
        return found

    # --- Many ---------------------------------------------------------------------------------

    def decoded(self, asked: Request) -> Answer:
        """Return what `decode` does; see `Tagger.decoded`."""
        if self.conditional:
            return chain.decode(self, asked, asked.evidence(self.tapes))
        return super().decoded(asked)

    def transducers(
        self, sentences: Data, known: Known | None = None, *, streamed: bool = False
    ) -> TaggedLattices:
        """Return the lattice of each sentence, with what is known put in.

        Raises
        ------
        OptionError
            ``normalize="chain"``, which is no transducer.
        """
        if self.conditional:
            raise OptionError(
                "normalize='chain' has no lattice of all labellings: use lattice(sentence, "
                "n=50) for the best labellings, lattice(sentence, samples=1000) for "
                "samples, or compose with normalize='product'"
            )
        return batches.lattices_of(self, sentences, known, streamed=streamed)

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
        forced: Sequence[JointForced | None] | Columns | None = None,
        bias: JointBias | None = None,
    ) -> tuple[Column, ...]:
        """Return what the same taggers say one after the other, each reading those before it.

        Each obeys what the grammar says of its tape. Known labels and biases are heeded, tagger by
        tagger; arguments as for `decode`.

        Raises
        ------
        NoPathError
            No labelling of a sentence is legal, be it one without tokens.
        OptionError
            A part of the grammar is over several tapes, which no cascade can obey.
        """
        known = Request.of(sentences, self.label_sets, forced, bias).evidence(self.tapes)
        with plans.gathered():
            return batches.cascade(self, sentences, known=known, threads=threads)

    def tune_weights(self, dev: Data, **options: Unpack[TuningOptions]) -> JointCRF[LabelsT]:
        """Return the composition with weights chosen on held-out data.

        Options as for `fstcrf.taggers.tune_weights`.
        """
        with plans.gathered():
            found: JointCRF[LabelsT] = tuning.tune_weights(self, dev, **options)
            return found


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
    model = jointmodel.read(path, mapped=mmap)
    return CRF.of(model) if isinstance(model, Model) else JointCRF.of(model)
