"""What can be composed: whether taggers, maps, grammars and options go together.

=====  =================
check  a new composition
=====  =================
"""

from __future__ import annotations

import contextlib
import itertools
import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from fstcrf.arguments import real_number
from fstcrf.corpus import Column, Corpus
from fstcrf.errors import LabelError, OptionError, TooLargeError
from fstcrf.features import LiteralIndex
from fstcrf.grammar import Acceptor, Grammar
from fstcrf.joint.component import Component, Reading, Relabelling, TapeMap
from fstcrf.kernel import Budget
from fstcrf.lattice import Lattice, Path
from fstcrf.model import CRF
from fstcrf.model.algebra import Composable
from fstcrf.model.reading import Data, SentenceLike
from fstcrf.once import made_once
from fstcrf.plans import Plan, Program, Search, check_consistent, gathered, plan_of, warn_unproven
from fstcrf.plans.chain import reading_order

if TYPE_CHECKING:
    from fstcrf.joint.chainlattice import ChainLattice
    from fstcrf.joint.explain import JointExplanation
    from fstcrf.joint.stages import Stage

__all__ = [
    "BUDGET",
    "Composition",
    "Normalize",
    "budget_of",
    "check",
]


def check(composition: Composition) -> None:
    """Check that the parts of a composition go together.

    Raises
    ------
    OptionError, LabelError
        As `Composition` says.
    """
    _check_tapes(composition)
    _check_options(composition)
    _check_sentences(composition)
    _check_grammar(composition)
    _check_relabellings(composition)
    # Sorting them raises where they read each other.
    assert len(composition.order) == len(composition.label_sets)  # noqa: S101


def _check_tapes(composition: Composition) -> None:
    if not composition.taggers:
        raise OptionError("nothing to compose: give at least one tagger")
    names = [*(t.tape for t in composition.taggers), *(m.tape for m in composition.maps)]
    twice = next((name for k, name in enumerate(names) if name in names[:k]), None)
    if twice is not None:
        raise OptionError(
            f"two taggers write one tape: {', '.join(names)}; {twice!r} is there twice, train "
            "or load one of its taggers with another tape="
        )


def _check_options(composition: Composition) -> None:
    weights, taggers = composition.weights, composition.taggers
    if len(weights) != len(taggers):
        raise OptionError(f"{len(weights)} weights for {len(taggers)} taggers")
    if any(not 0 <= weight < np.inf for weight in weights):
        raise OptionError(f"weights are {list(weights)}, expected numbers from 0")
    if composition.normalize not in ("product", "chain"):
        raise OptionError(f"normalize is {composition.normalize!r}, expected 'product' or 'chain'")


def _check_sentences(composition: Composition) -> None:
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


def _check_grammar(composition: Composition) -> None:
    sets = composition.label_sets
    for acceptor in (*composition.conjuncts, *(m.acceptor for m in composition.maps)):
        for tape, labels in zip(acceptor.tapes, acceptor.labels, strict=True):
            if tape not in sets:
                there = ", ".join(map(repr, sets))
                raise LabelError(f"{acceptor.name} reads the tape {tape!r}; there is {there}")
            if sets[tape] != labels:
                other = ", ".join(sorted(set(labels) ^ set(sets[tape]))[:5])
                raise LabelError(
                    f"{acceptor.name} was bound to other labels than the tape {tape!r} has: "
                    f"{other or 'in another order'}"
                )


def _check_relabellings(composition: Composition) -> None:
    sets = composition.label_sets
    reads = {(tagger.tape, t.name) for tagger in composition.taggers for t in tagger.reads}
    for r in composition.relabellings:
        if (r.reader, r.read) not in reads or len(r.place) != len(sets.get(r.tape, ())):
            raise OptionError(
                f"a relabelling of {r.tape!r} for {r.reader!r}, read as {r.read!r}, does not go "
                "with the taggers"
            )


# --- Taggers composed -----------------------------------------------------------------------------

Floats = NDArray[np.float64]
Ints = NDArray[np.int32]
Normalize = Literal["product", "chain"]

BUDGET = 64
"""Labellings of a tape that are looked at before the best one found is given as not proven.

Measured on held-out sentences by ``tests.benchmarks.chain_budget``;
docs/guides/joint-score.md says what came of it."""


@dataclass(frozen=True, eq=False)
class Composition(Composable):
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

    def __post_init__(self) -> None:
        check(self)

    def __repr__(self) -> str:
        sizes = ", ".join(f"{tape} ({len(labels)})" for tape, labels in self.label_sets.items())
        return f"<Composition: {sizes}; {self.normalize}>"

    # --- What it is made of -------------------------------------------------------------------

    @property
    def tapes(self) -> tuple[str, ...]:
        """Names of the tapes that it writes: in the order of the taggers, then those of maps."""
        return tuple(self.label_sets)

    @property
    def tape(self) -> str:
        """Name of the only tape.

        Raises
        ------
        OptionError
            There are several.
        """
        if len(self.tapes) > 1:
            raise OptionError(f"there are several tapes: {', '.join(self.tapes)}")
        return self.tapes[0]

    @property
    def labels(self) -> Any:
        """The labels; of several tapes, a tuple of them."""
        return self.per_tape(self.label_sets.__getitem__)

    @cached_property
    def label_sets(self) -> dict[str, tuple[str, ...]]:
        """The labels of each tape."""
        sets = {tagger.tape: tagger.labels for tagger in self.taggers}
        return sets | {tape_map.tape: tape_map.labels for tape_map in self.maps}

    @made_once
    def components(self) -> tuple[Component, ...]:
        """The taggers as parts of the composition."""
        other = {(r.reader, r.read): r.reading for r in self.relabellings}
        same = {tape: Reading(tape, labels) for tape, labels in self.label_sets.items()}
        found = []
        for tagger, weight in zip(self.taggers, self.weights, strict=True):
            mine = {
                t.name: other.get((tagger.tape, t.name), same.get(t.name)) for t in tagger.reads
            }
            readings = {read: reading for read, reading in mine.items() if reading is not None}
            found.append(Component(tagger, weight, readings))
        return tuple(found)

    @cached_property
    def order(self) -> tuple[str, ...]:
        """The tapes, each after those that are read for it; else as they are.

        Raises
        ------
        OptionError
            Tapes that read each other.
        """
        reads = {c.tagger.tape: {r.tape for r in c.readings.values()} for c in self.components}
        reads |= {tape_map.tape: {tape_map.source} for tape_map in self.maps}
        return reading_order(reads)

    @property
    def conditional(self) -> bool:
        """Whether it is a product of conditional probabilities rather than of transducers."""
        return self.normalize == "chain" and len(self.taggers) > 1

    @property
    def literal(self) -> bool:
        """Whether the taggers read attribute lists or feature dicts rather than columns."""
        return isinstance(self.taggers[0].index, LiteralIndex)

    @made_once
    def program(self) -> Program:
        """The composition compiled.

        Raises
        ------
        OptionError
            Another search.
        """
        chains = [component.chain for component in self.components]
        chains += [tape_map.chain for tape_map in self.maps]
        added = tuple(tape_map.acceptor for tape_map in self.maps)
        return Program(chains, (), (*self.conjuncts, *added), self.search)

    @made_once
    def stages(self) -> tuple[Stage, ...]:
        """The taggers in the order in which ``normalize="chain"`` decides them."""
        from fstcrf.joint.stages import stages_of  # noqa: PLC0415 (the chain rule alone needs it)

        return stages_of(self)

    @made_once
    def skeleton(self) -> Program | None:
        """The tapes that the grammar connects, without potentials; None where there are none."""
        from fstcrf.joint.stages import skeleton  # noqa: PLC0415 (the chain rule alone needs it)

        return skeleton(self.taggers, self.conjuncts)

    def plan(self) -> Plan:
        """Return what the composition compiles to and what it costs; print it."""
        return plan_of(self.program)

    def with_weights(self, *weights: float) -> Composition:
        """Return the composition with other factors of the taggers' potentials."""
        return replace(self, weights=tuple(real_number(w, "weight") for w in weights))

    def constrained(self, grammar: Grammar) -> Composition:
        """Return the composition under one more grammar.

        Raises
        ------
        GrammarError
            A grammar that does not go with the labels, or accepts nothing.
        """
        found = replace(self, conjuncts=(*self.conjuncts, *grammar.bind(self.label_sets)))
        check_consistent(found.program)
        if not found.conditional:
            _ = found.program.decoder
            return found
        with contextlib.suppress(TooLargeError):  # then nothing is known about lengths
            _ = found.skeleton and found.skeleton.decoder
        for stage in found.stages:
            _ = stage.legal.decoder
        return found

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the composition, all its taggers included, to one file.

        Raises
        ------
        OSError
            The file cannot be written.
        """
        from fstcrf.joint.file import save  # noqa: PLC0415 (it imports this module)

        save(self, path)

    # --- One sentence -------------------------------------------------------------------------

    def lattice(self, sentence: SentenceLike) -> Lattice | ChainLattice:
        """Return one sentence's weighted transducer over all tapes."""
        from fstcrf.joint.chainlattice import ChainLattice  # noqa: PLC0415 (it imports this module)

        if self.conditional:
            return ChainLattice(self, sentence)
        return next(iter(self.lattices([sentence])))

    def explain(self, sentence: SentenceLike, token: int) -> JointExplanation:
        """Return which features of which tagger pushed which label at a token, and by how much."""
        from fstcrf.joint.explain import explain  # noqa: PLC0415 (it is rarely asked for)

        return explain(self, sentence, token)

    def tag(self, sentence: SentenceLike) -> Any:
        """Return the best labels of one sentence: a list for each tape, or the only list.

        Raises
        ------
        NoPathError
            No labelling is legal.
        """
        return self.tag_all([sentence])[0]

    # --- Many ---------------------------------------------------------------------------------

    def tag_all(self, sentences: Data, *, threads: int = 1) -> list[Any]:
        """Return the best labels of each sentence.

        Parameters
        ----------
        sentences : Corpus or sequence of sentences
        threads : int
            The answer does not depend on it.

        Returns
        -------
        list of tuple of list of str
            One list for each tape; of a single tape the list itself.

        Raises
        ------
        NoPathError
            No labelling of a sentence is legal.
        """
        lengths, columns, exact = self.decide(sentences, threads=threads)
        del exact
        bounds = np.concatenate([[0], np.cumsum(lengths)]).tolist()
        flat = [np.asarray(c.values, dtype=object)[c.ids].tolist() for c in columns]
        pairs = list(itertools.pairwise(bounds))
        if len(flat) == 1:
            return [flat[0][a:b] for a, b in pairs]
        return [tuple(tape[a:b] for tape in flat) for a, b in pairs]

    def tag_columns(self, corpus: Corpus, *, threads: int = 1) -> tuple[Column, ...]:
        """Return the labels of a corpus as one column for each tape."""
        return self.decide(corpus, threads=threads)[1]

    def decide(
        self, sentences: Data, *, threads: int = 1, budget: int | Budget | None = None
    ) -> tuple[list[int], tuple[Column, ...], int]:
        """Return lengths, a column of labels for each tape, and the number of inexact answers.

        Parameters
        ----------
        sentences : Corpus or sequence of sentences
        threads : int
            The answer does not depend on it.
        budget : int or Budget, optional
            When to give up on a sentence: then the best labelling found is given, as inexact,
            with an `InexactWarning`. The states of a lazy search; with ``normalize="chain"``,
            labellings of a tape to look at, `BUDGET` when absent.

        Raises
        ------
        NoPathError
            No labelling of a sentence is legal.
        """
        if self.conditional:
            from fstcrf.joint.chainlattice import decide  # noqa: PLC0415 (it imports this module)

            found = decide(self, sentences, threads=threads, budget=budget_of(budget))
        else:
            from fstcrf.joint.batches import columns  # noqa: PLC0415 (it imports this module)

            found = columns(self, sentences, threads, budget_of(budget))
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

        from fstcrf.joint.batches import lattices  # noqa: PLC0415 (it imports this module)

        return lattices(self, sentences)

    def paths_all(
        self, sentences: Data, *, threads: int = 1, budget: int | Budget | None = None
    ) -> list[Path | None]:
        """Return the best path of each sentence, with its probability; None without a legal one.

        Parameters as for `decide`. Under ``normalize="chain"`` the score is that of the chain with
        weights and grammar, the probability that of the labels without them.
        """
        if self.conditional:
            from fstcrf.joint.chainlattice import paths  # noqa: PLC0415 (it imports this module)

            found = paths(self, sentences, threads=threads, budget=budget_of(budget))
        else:
            from fstcrf.joint.batches import best_paths  # noqa: PLC0415 (it imports this module)

            found = best_paths(self, sentences, threads, budget_of(budget))
        warn_unproven(sum(path is not None and not path.exact for path in found), len(found))
        return found

    def marginals_all(self, sentences: Data, *, threads: int = 1) -> list[Any]:
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

        from fstcrf.joint.batches import marginals  # noqa: PLC0415 (it imports this module)

        return marginals(self, sentences, threads)

    def cascade(self, sentences: Data, *, threads: int = 1) -> tuple[Column, ...]:
        """Return what the same taggers say one after the other, each reading those before it.

        Grammars are left out: a cascade has no way to satisfy them together.
        """
        from fstcrf.joint.batches import cascade  # noqa: PLC0415 (it imports this module)

        return cascade(self, sentences, threads=threads)

    def tune_weights(self, dev: Data, **options: Any) -> Composition:
        """Return the composition with weights chosen on held-out data.

        Options as for `fstcrf.joint.tuning.tune_weights`.
        """
        from fstcrf.joint.tuning import tune_weights  # noqa: PLC0415 (few tune)

        with gathered():
            return tune_weights(self, dev, **options)

    def per_tape(self, make: Callable[[str], Any]) -> Any:
        """Return what a function makes of the only tape, or a tuple of what it makes of each."""
        if len(self.tapes) == 1:
            return make(self.tapes[0])
        return tuple(make(tape) for tape in self.tapes)


def budget_of(budget: int | Budget | None) -> Budget | None:
    """Return a budget, of which the states may be given alone.

    Raises
    ------
    OptionError
        A number below 1.
    """
    if not isinstance(budget, int):
        return budget
    if budget < 1:
        raise OptionError(f"budget is {budget}, expected at least 1")
    return Budget(states=budget)
