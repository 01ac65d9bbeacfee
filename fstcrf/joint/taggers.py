"""Taggers: a conditional random field, and several of them composed."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, replace
from functools import wraps
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, overload

from numpy.typing import ArrayLike

from fstcrf import openfst
from fstcrf.arrays import Floats
from fstcrf.corpus import Column, Corpus
from fstcrf.errors import OptionError
from fstcrf.grammar import Grammar
from fstcrf.joint import batches, chainlattice, file
from fstcrf.joint.chainlattice import ChainLattice, lattice_of
from fstcrf.joint.jointmodel import JointModel, Normalize, budget_of
from fstcrf.joint.known import Bias as JointBias
from fstcrf.joint.known import Forced as Joint
from fstcrf.joint.known import Known
from fstcrf.joint.tagger import ArrayT, LabelsT, Tagger
from fstcrf.kernel import Budget
from fstcrf.lattice import Answer, JointLattice, Lattice, Path, product
from fstcrf.lattice.product import searched
from fstcrf.lazy import LazyModule, StaticFunction
from fstcrf.model import decoding, potentials
from fstcrf.model import file as model_file
from fstcrf.model.decoding import Bias, Forced
from fstcrf.model.model import Model
from fstcrf.model.reading import Data, SentenceLike
from fstcrf.once import made_once
from fstcrf.plans import Search, gathered, warn_unproven

if TYPE_CHECKING:
    import pynini

    from fstcrf.joint import composing, explain, tuning
    from fstcrf.joint.explain import JointExplanation
    from fstcrf.model import explain as model_explain
    from fstcrf.model import training
    from fstcrf.model.explain import Explanation, Weight
    from fstcrf.topology import transducer
else:  # a tagger that is loaded does not wait for what few calls need
    composing = LazyModule("fstcrf.joint.composing")
    explain, tuning = LazyModule("fstcrf.joint.explain"), LazyModule("fstcrf.joint.tuning")
    model_explain = LazyModule("fstcrf.model.explain")
    transducer = LazyModule("fstcrf.topology.transducer")

__all__ = ["CRF", "Composition", "compose", "load"]


LatticeT = TypeVar("LatticeT", bound=Lattice)
P = ParamSpec("P")


class Composable(Tagger[LabelsT, ArrayT]):
    """What composes: ``a @ b``, and what a grammar constrains: ``a & grammar``."""

    def __matmul__(
        self, later: Composable[Any, Any]
    ) -> Composition[tuple[list[str], ...], tuple[Floats, ...]]:
        """Return ``fstcrf.compose(self, later)``."""
        if composing.is_transducer(later):
            # Not left to the machine's own operator, which speaks of strings.
            raise OptionError("a map stands between two taggers: compose(pos, map, later)")
        if not isinstance(later, Composable):
            return NotImplemented
        return compose(self, later)

    def __and__(self, grammar: Grammar) -> Composition[LabelsT, ArrayT]:
        """Return ``self.constrained(grammar)``: only what the grammar accepts."""
        if not isinstance(grammar, Grammar):
            return NotImplemented
        return self.constrained(grammar)

    def constrained(
        self, grammar: Grammar, *, search: Search | None = None, budget: Budget | None = None
    ) -> Composition[LabelsT, ArrayT]:
        """Return the tagger under one more grammar.

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
        return Composition.of(composing.joined([self], None, None)).constrained(
            grammar, search=search, budget=budget
        )


# --- One tagger -----------------------------------------------------------------------------------


def _of_crf(train: Callable[P, Model]) -> Callable[P, CRF]:
    """Return a function that makes a model, with its signature, as one that makes a CRF."""

    @wraps(train)
    def trained(*args: P.args, **options: P.kwargs) -> CRF:
        return CRF.of(train(*args, **options))

    return trained


class CRF(Model, Composable[list[str], Floats]):
    """A conditional random field.

    Made by `CRF.train` or `fstcrf.load`.

    Parameters
    ----------
    topology : Topology
        Labels, label histories and where weights attach.
    index : FeatureIndex or LiteralIndex
        Attributes of tokens and their rows.
    space : ParameterSpace
        Which weights exist.
    theta : float64 [space.size]
        The weights.
    tape : str
        Name of the tape it writes.
    columns : tuple of str
        Columns of the data it was trained on.
    reads : tuple of Tape
        Tapes it reads.
    record : TrainingRecord, optional
        How it was trained.
    """

    @property
    def tapes(self) -> tuple[str, ...]:
        """Name of the tape that it writes."""
        return (self.tape,)

    @property
    def label_sets(self) -> dict[str, tuple[str, ...]]:
        """The labels of its tape."""
        return {self.tape: self.labels}

    # --- Making, saving -----------------------------------------------------------------------

    if TYPE_CHECKING:
        train = staticmethod(_of_crf(training.train_crf))
    else:  # as above
        train = StaticFunction("fstcrf.model.training", "train_crf", _of_crf)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> CRF:
        """Map the file of a model; `fstcrf.load` reads those of any tagger.

        Raises
        ------
        ModelFileError
            Not the file of a model, of another version, or damaged.
        OSError
            The file cannot be opened.
        """
        return cls.of(model_file.read(path))

    @classmethod
    def of(cls, model: Model) -> CRF:
        """Return a tagger of a model."""
        return cls(*(getattr(model, field.name) for field in fields(Model)))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model to a file, whole or not at all.

        Raises
        ------
        OSError
            The file cannot be written.
        """
        model_file.save(self, path)

    # --- Tagging ------------------------------------------------------------------------------

    def decoded(
        self,
        sentences: Data,
        n: int,
        forced: Sequence[Joint | None] | None,
        bias: JointBias | None,
        budget: Budget | None,
        threads: int,
        *,
        strict: bool,
    ) -> Answer:
        """Return what `decode` does; see `Tagger.decoded`."""
        if n > 1:
            whole = self._composed
            return whole.decoded(sentences, n, forced, bias, budget, threads, strict=strict)
        known = Known.of(self.tapes, len(sentences), forced, bias)
        return decoding.decode(
            self,
            sentences,
            threads=threads,
            forced=known.forced.get(self.tape),
            bias=known.bias.get(self.tape),
            strict=strict,
        )

    @made_once
    def _composed(self) -> Composition[list[str], Floats]:
        return Composition((self,), (1.0,))

    def tag(  # type: ignore[override]
        self, sentence: SentenceLike, *, forced: Forced | None = None, bias: Bias | None = None
    ) -> list[str]:
        """Return the best label sequence of one sentence; ``[]`` for an empty one.

        Parameters
        ----------
        sentence : Sentence, mapping, list of rows, or list of attribute lists or feature dicts
        forced : sequence of str or None, optional
            Labels known beforehand: None or ``"_"`` where not, ``"a|b"`` for one of several.
        bias : mapping of str to float, optional
            Added to the potential of a label at every token: positive for more of it.

        Raises
        ------
        DataError
            The sentence lacks a column, or is not what it should be.
        LabelError
            An unknown label in `forced` or `bias`.
        NoPathError
            No label sequence agrees with `forced`.
        """
        if not len(sentence):
            return []
        if forced is None and bias is None:
            return decoding.tag_one(self, sentence)
        return self.tag_all([sentence], forced=None if forced is None else [forced], bias=bias)[0]

    def tag_all(  # type: ignore[override]
        self,
        sentences: Data,
        *,
        threads: int = 1,
        forced: Sequence[Forced] | None = None,
        bias: Bias | None = None,
    ) -> list[list[str]]:
        """Return the best label sequence of each sentence.

        Parameters
        ----------
        sentences : Corpus or sequence of sentences
        threads : int
            The answer does not depend on it.
        forced, bias
            As for `tag`, `forced` one for each sentence.
        """
        return decoding.tag_all(self, sentences, threads=threads, forced=forced, bias=bias)

    def tag_column(
        self,
        corpus: Corpus,
        *,
        threads: int = 1,
        forced: Sequence[Forced] | None = None,
        bias: Bias | None = None,
    ) -> Column:
        """Return the labels of a corpus as a column, faster than `tag_all` for large ones.

        Arguments as for `tag_all`.
        """
        return decoding.tag_column(self, corpus, threads=threads, forced=forced, bias=bias)

    def paths_all(
        self,
        sentences: Data,
        *,
        threads: int = 1,
        forced: Sequence[Forced] | None = None,
        bias: Bias | None = None,
    ) -> list[Path | None]:
        """Return the best path of each sentence; None where every label sequence is forbidden.

        Arguments as for `tag_all`. Probabilities are those among the sequences that `forced`
        allows.
        """
        return decoding.paths_all(self, sentences, threads=threads, forced=forced, bias=bias)

    def marginals_all(
        self,
        sentences: Data,
        *,
        threads: int = 1,
        forced: Sequence[Forced] | None = None,
        bias: Bias | None = None,
    ) -> list[Floats]:
        """Return the probability of each label at each token, float64 [T, L] a sentence."""
        return decoding.marginals_all(self, sentences, threads=threads, forced=forced, bias=bias)

    def lattice(
        self, sentence: SentenceLike, *, forced: Forced | None = None, bias: Bias | None = None
    ) -> Lattice:
        """Return one sentence's weighted transducer; arguments as for `tag`."""
        return decoding.lattice(self, sentence, forced=forced, bias=bias)

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
        machine = transducer.topology_machine(
            self.topology, weights.transition, weights.initial, weights.final
        )
        found: pynini.Fst = openfst.to_fst(machine, arc_type)  # type: ignore[arg-type]
        return found

    def top_features(self, n: int = 20) -> list[Weight]:
        """Return the n largest weights, by absolute value."""
        return model_explain.top_features(self, n)

    def explain(self, sentence: SentenceLike, token: int) -> Explanation:
        """Return which features pushed which label at a token, and by how much."""
        return model_explain.explain(self, sentence, token)

    def bind(self, labels: Mapping[str, Sequence[str]] | None = None) -> potentials.Binding:
        """Return what gives potentials of sentences; see `fstcrf.model.potentials.bind`."""
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

        Arguments as for `fstcrf.model.potentials.potentials`.
        """
        return potentials.potentials(self, sentences, first, end, labels=labels)


# --- Several taggers ------------------------------------------------------------------------------


class Composition(JointModel, Composable[LabelsT, ArrayT]):
    """Taggers that decide together; made by `fstcrf.compose`.

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
        How best paths under a grammar are found; see `fstcrf.plans.Program`.
    budget : Budget, optional
        When a search gives up on a sentence, where nothing else is said; files do not keep it.

    Raises
    ------
    OptionError
        Tapes with one name, taggers that read each other, labels that a tagger cannot read,
        weights that are negative, or options that do not go together.
    LabelError
        A grammar over other tapes or labels.
    """

    taggers: tuple[CRF, ...]

    @classmethod
    def of(cls, model: JointModel) -> Composition[LabelsT, ArrayT]:
        """Return a tagger of models composed."""
        parts = {field.name: getattr(model, field.name) for field in fields(JointModel)}
        taggers = tuple(t if isinstance(t, CRF) else CRF.of(t) for t in model.taggers)
        return cls(**{**parts, "taggers": taggers})

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the composition, all its taggers included, to one file.

        Raises
        ------
        OSError
            The file cannot be written.
        """
        file.save(self, path)

    def constrained(
        self, grammar: Grammar, *, search: Search | None = None, budget: Budget | None = None
    ) -> Composition[LabelsT, ArrayT]:
        """Return the composition under one more grammar; as for `CRF.constrained`."""
        whole = replace(self, search=search or self.search, budget=budget or self.budget)
        return whole.under(grammar)

    # --- One sentence -------------------------------------------------------------------------

    def lattice(self, sentence: SentenceLike) -> Lattice | ChainLattice:
        """Return one sentence's weighted transducer over all tapes."""
        return lattice_of(self, sentence)

    def explain(self, sentence: SentenceLike, token: int) -> JointExplanation:
        """Return which features of which tagger pushed which label at a token, and by how much."""
        return explain.explain(self, sentence, token)

    # --- Many ---------------------------------------------------------------------------------

    def decoded(
        self,
        sentences: Data,
        n: int,
        forced: Sequence[Joint | None] | None,
        bias: JointBias | None,
        budget: Budget | None,
        threads: int,
        *,
        strict: bool,
    ) -> Answer:
        """Return what `decode` does; see `Tagger.decoded`."""
        known = None
        if forced is not None or bias is not None:
            if self.conditional:
                raise OptionError(
                    "normalize='chain' has no forced labels and no bias; use 'product'"
                )
            known = Known.of(self.tapes, len(sentences), forced, bias)
        if self.conditional:
            return chainlattice.rank(
                self, sentences, n, threads=threads, budget=budget, strict=strict
            )
        return batches.decode(
            self, sentences, n, known=known, threads=threads, budget=budget, strict=strict
        )

    def _searched(self, search: Search) -> Composition[LabelsT, ArrayT]:
        return self if search == self.search else replace(self, search=search)

    def without_grammar(self) -> Composition[LabelsT, ArrayT] | None:
        """Return the same taggers without a grammar; None where there is none."""
        return replace(self, conjuncts=()) if self.conjuncts else None

    def tag_all(
        self,
        sentences: Data,
        *,
        threads: int = 1,
        forced: Sequence[Joint | None] | None = None,
        bias: JointBias | None = None,
        search: Search | None = None,
        budget: int | Budget | None = None,
    ) -> list[LabelsT]:
        """Return the best labels of each sentence: a list, of several tapes a tuple of lists.

        Arguments and errors as for `decode`.
        """
        if forced is not None or bias is not None:
            return super().tag_all(
                sentences,
                threads=threads,
                forced=forced,
                bias=bias,
                search=search,
                budget=budget,
            )
        lengths, columns, _ = self.decide(sentences, threads=threads, search=search, budget=budget)
        tapes = [decoding.label_lists(c.values, lengths, c.ids) for c in columns]
        found: list[Any] = tapes[0] if len(tapes) == 1 else list(zip(*tapes, strict=True))
        return found

    def tag_columns(
        self,
        corpus: Corpus,
        *,
        threads: int = 1,
        search: Search | None = None,
        budget: int | Budget | None = None,
    ) -> tuple[Column, ...]:
        """Return the labels of a corpus as one column for each tape; arguments as for `decide`."""
        return self.decide(corpus, threads=threads, search=search, budget=budget)[1]

    def decide(
        self,
        sentences: Data,
        *,
        threads: int = 1,
        search: Search | None = None,
        budget: int | Budget | None = None,
    ) -> tuple[list[int], tuple[Column, ...], int]:
        """Return lengths, a column of labels for each tape, and the number of inexact answers.

        Parameters
        ----------
        sentences : Corpus or sequence of sentences
        threads : int
            The answer does not depend on it.
        search : {"auto", "lazy", "expanded"}, optional
            How best paths under a grammar are found; as the composition was made when absent.
        budget : int or Budget, optional
            When to give up on a sentence: then the best labelling found is given, as inexact,
            with an `InexactWarning`. The states of a lazy search; with ``normalize="chain"``,
            labellings of a tape to look at, `BUDGET` when absent.

        Raises
        ------
        NoPathError
            No labelling of a sentence is legal.
        """
        whole = self if search is None else self._searched(search)
        if whole.conditional:
            found = chainlattice.decide(whole, sentences, threads=threads, budget=budget_of(budget))
        else:
            found = batches.columns(whole, sentences, threads, budget_of(budget))
        warn_unproven(found[2], len(found[0]))
        return found

    def lattices(self, sentences: Data) -> list[Lattice]:
        """Return the weighted transducer of each sentence, over all tapes.

        Raises
        ------
        OptionError
            ``normalize="chain"``, which is no transducer.
        """
        if self.conditional:
            raise OptionError("normalize='chain' is no product of transducers: ask lattice()")
        return batches.lattices(self, sentences)

    def paths_all(
        self,
        sentences: Data,
        *,
        threads: int = 1,
        search: Search | None = None,
        budget: int | Budget | None = None,
    ) -> list[Path | None]:
        """Return the best path of each sentence, with its probability; None without a legal one.

        Parameters as for `decide`. Under ``normalize="chain"`` the score is that of the chain with
        weights and grammar, the probability that of the labels without them.
        """
        whole = self if search is None else self._searched(search)
        if whole.conditional:
            found = chainlattice.paths(whole, sentences, threads=threads, budget=budget_of(budget))
        else:
            found = batches.best_paths(whole, sentences, threads, budget_of(budget))
        warn_unproven(sum(path is not None and not path.exact for path in found), len(found))
        return found

    def marginals_all(self, sentences: Data, *, threads: int = 1) -> list[ArrayT]:
        """Return the probability of each label at each token, float64 [T, L], of each sentence.

        Of several tapes, a tuple of arrays for each sentence.

        Raises
        ------
        NoPathError
            No labelling of a sentence is legal.
        OptionError
            ``normalize="chain"``: only the first tape has marginals there.
        """
        if self.conditional:
            raise OptionError(
                f"normalize='chain' has marginals of its first tape alone: ask lattice(sentence)."
                f"marginals({self.order[0]!r}), or estimate the others from its samples"
            )
        return batches.marginals(self, sentences, threads)

    def cascade(self, sentences: Data, *, threads: int = 1) -> tuple[Column, ...]:
        """Return what the same taggers say one after the other, each reading those before it.

        Grammars are left out: a cascade has no way to satisfy them together.
        """
        return batches.cascade(self, sentences, threads=threads)

    def tune_weights(self, dev: Data, **options: Any) -> Composition[LabelsT, ArrayT]:
        """Return the composition with weights chosen on held-out data.

        Options as for `fstcrf.joint.tuning.tune_weights`.
        """
        with gathered():
            return tuning.tune_weights(self, dev, **options)


# --- Making and loading them ----------------------------------------------------------------------


@overload
def compose(
    part: LatticeT,
    /,
    *,
    grammar: Grammar | None = None,
    weights: Sequence[float] | None = None,
    coupling: Mapping[tuple[int, int], ArrayLike] | None = None,
    search: Search | None = None,
) -> LatticeT: ...
@overload
def compose(
    first: Lattice,
    second: Lattice,
    /,
    *more: Lattice,
    grammar: Grammar | None = None,
    weights: Sequence[float] | None = None,
    coupling: Mapping[tuple[int, int], ArrayLike] | None = None,
    search: Search | None = None,
) -> JointLattice: ...
@overload
def compose(
    *parts: Lattice,
    grammar: Grammar | None = None,
    weights: Sequence[float] | None = None,
    coupling: Mapping[tuple[int, int], ArrayLike] | None = None,
    search: Search | None = None,
) -> Lattice: ...
@overload
def compose(
    only: Composable[LabelsT, ArrayT],
    /,
    *,
    grammar: Grammar | None = None,
    weights: Sequence[float] | None = None,
    normalize: Normalize | None = None,
    search: Search | None = None,
) -> Composition[LabelsT, ArrayT]: ...
@overload
def compose(
    *parts: Any,
    grammar: Grammar | None = None,
    weights: Sequence[float] | None = None,
    normalize: Normalize | None = None,
    search: Search | None = None,
) -> Composition[tuple[list[str], ...], tuple[Floats, ...]]: ...
def compose(
    *parts: Any,
    grammar: Grammar | None = None,
    weights: Sequence[float] | None = None,
    normalize: Normalize | None = None,
    coupling: Mapping[tuple[int, int], ArrayLike] | None = None,
    search: Search | None = None,
) -> Any:
    """Compose taggers that were trained separately, or lattices of one sentence.

    Parameters
    ----------
    *parts : CRF or Composition, or Lattice
        Taggers, in any order; a pynini transducer between two of them relabels what the first
        writes for the second (see `fstcrf.joint.composing`). Or lattices of equal length.
    grammar : Grammar, optional
        What the labels must obey.
    weights : sequence of float, optional
        Factor of the potentials of each part (maps have none), at least 0; never of the grammar's
        or a map's. Ones when absent.
    normalize : {"product", "chain"}, optional
        Taggers only. product: potentials are added, one normaliser over all tapes. chain: the
        product of conditional probabilities; see the page on what the joint score means.
    coupling : mapping of (int, int) to [L1, L2] or [T, L1, L2], optional
        Lattices only. Potentials of the labels that two of them give one token.
    search : {"auto", "lazy", "expanded"}, optional
        How best paths under a grammar are found: over the product, or lazily, by states that are
        made as they are met. Both are exact. auto, the default: by the size of the product.

    Returns
    -------
    Composition or Lattice
        A tagger again, or a lattice again.

    Raises
    ------
    OptionError
        Parts that do not go together.
    GrammarError
        A grammar that does not go with the labels.
    DataError, LabelError
        A map that is not length-preserving, or goes between other labels.
    """
    if not parts:
        raise OptionError("nothing to compose: give at least one tagger or lattice")
    if all(isinstance(part, Lattice) for part in parts):
        if normalize is not None:
            raise OptionError("normalize= is for taggers; lattices only have potentials")
        lattice = product(parts, coupling=coupling, weights=weights)
        lattice = lattice if search is None else searched(lattice, search)
        return lattice if grammar is None else lattice & grammar
    if coupling is not None:
        raise OptionError("coupling= is for lattices; a tagger reads another by reads=")
    if any(isinstance(part, Lattice) for part in parts):
        raise OptionError("taggers compose with taggers, lattices with lattices")
    if grammar is not None and not isinstance(grammar, Grammar):
        raise OptionError(f"grammar is {grammar!r}, expected a fstcrf.Grammar")
    composition: Composition[Any, Any] = Composition.of(composing.joined(parts, weights, normalize))
    composition = composition if search is None else replace(composition, search=search)
    if grammar is not None:
        composition = composition.constrained(grammar)
    if composition.normalize == "product":
        _ = composition.program.decoder  # what is too large is said here, not when tagging
    return composition


def load(path: str | os.PathLike[str]) -> CRF | Composition[Any, Any]:
    """Map a model file of fstcrf's own: a tagger or a composition of taggers.

    Raises
    ------
    ModelFileError
        Not a model file, of another version, or damaged.
    OSError
        The file cannot be opened.
    """
    model = file.read(path)
    return CRF.of(model) if isinstance(model, Model) else Composition.of(model)
