"""Models composed, as data: the parts of a composition, whether they go together, its program."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any, Literal, Self

import numpy as np

from fstcrf.arguments import real_number
from fstcrf.errors import LabelError, OptionError, TooLargeError
from fstcrf.features import LiteralIndex
from fstcrf.grammar import Acceptor, Grammar
from fstcrf.joint.component import Component, Reading, Relabelling, TapeMap
from fstcrf.joint.stages import Stage, skeleton, stages_of
from fstcrf.kernel import Budget
from fstcrf.model.model import Model
from fstcrf.once import made_once
from fstcrf.plans import Plan, Program, Search, check_consistent, plan_of
from fstcrf.plans.chain import reading_order

__all__ = ["BUDGET", "WIDE_BUDGET", "JointModel", "Normalize", "budget_of"]

Normalize = Literal["product", "chain"]

BUDGET = 16
"""Labellings of a tape that are looked at before the best one found is given as not proven.

Measured on held-out sentences by ``tests.benchmarks.chain_budget``;
docs/guides/joint-score.md says what came of it."""

WIDE_BUDGET = 64
"""The same under a grammar, known labels or biases, where the best labels are less probable, and
for n best labellings."""

_UNTUNED = (
    "weights of 1: unless tuned, a product of taggers that read each other tends to be worse than "
    "their cascade; use normalize='chain', or tune_weights"
)


@dataclass(frozen=True, eq=False)
class JointModel:
    """Models composed, as data; `fstcrf.Composition` is one that tags.

    Parameters
    ----------
    taggers : tuple of Model
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

    taggers: tuple[Model, ...]
    weights: tuple[float, ...]
    conjuncts: tuple[Acceptor, ...] = ()
    maps: tuple[TapeMap, ...] = ()
    normalize: Normalize = "product"
    relabellings: tuple[Relabelling, ...] = ()
    search: Search = "auto"
    budget: Budget | None = None

    def __post_init__(self) -> None:
        _check(self)

    def __repr__(self) -> str:
        sizes = ", ".join(f"{tape} ({len(labels)})" for tape, labels in self.label_sets.items())
        return f"<{type(self).__name__}: {sizes}; {self.normalize}>"

    def __getstate__(self) -> dict[str, Any]:
        """Return what it is made of: what was computed from that stays here."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

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
        return Program(chains, (), (*self.conjuncts, *added), self.search, self.budget)

    @made_once
    def stages(self) -> tuple[Stage, ...]:
        """The taggers in the order in which ``normalize="chain"`` decides them."""
        return stages_of(self.components, self.order, self.conjuncts)

    @made_once
    def skeleton(self) -> Program | None:
        """The tapes that the grammar connects, without potentials; None where there are none."""
        return skeleton(self.taggers, self.conjuncts)

    def plan(self) -> Plan:
        """Return what the composition compiles to and what it costs; print it.

        Under the chain rule, of the product of the same taggers.
        """
        plan = plan_of(self.program)
        read = any(component.readings for component in self.components)
        untuned = self.normalize == "product" and read and set(self.weights) == {1.0}
        return replace(plan, notes=(_UNTUNED,)) if untuned else plan

    def with_weights(self, *weights: float) -> Self:
        """Return the composition with other factors of the taggers' potentials."""
        return replace(self, weights=tuple(real_number(w, "weight") for w in weights))

    def under(self, grammar: Grammar) -> Self:
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


# --- Whether the parts go together ----------------------------------------------------------------


def _check(composition: JointModel) -> None:
    """Check that the parts of a composition go together.

    Raises
    ------
    OptionError, LabelError
        As `JointModel` says.
    """
    _check_tapes(composition)
    _check_options(composition)
    _check_sentences(composition)
    _check_grammar(composition)
    _check_relabellings(composition)
    # Sorting them raises where they read each other.
    assert len(composition.order) == len(composition.label_sets)  # noqa: S101


def _check_tapes(composition: JointModel) -> None:
    if not composition.taggers:
        raise OptionError("nothing to compose: give at least one tagger")
    names = [*(t.tape for t in composition.taggers), *(m.tape for m in composition.maps)]
    twice = next((name for k, name in enumerate(names) if name in names[:k]), None)
    if twice is not None:
        raise OptionError(
            f"two taggers write one tape: {', '.join(names)}; {twice!r} is there twice, train "
            "or load one of its taggers with another tape="
        )


def _check_options(composition: JointModel) -> None:
    weights, taggers = composition.weights, composition.taggers
    if len(weights) != len(taggers):
        raise OptionError(f"{len(weights)} weights for {len(taggers)} taggers")
    if any(not 0 <= weight < np.inf for weight in weights):
        raise OptionError(f"weights are {list(weights)}, expected numbers from 0")
    if composition.normalize not in ("product", "chain"):
        raise OptionError(f"normalize is {composition.normalize!r}, expected 'product' or 'chain'")


def _check_sentences(composition: JointModel) -> None:
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


def _check_grammar(composition: JointModel) -> None:
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


def _check_relabellings(composition: JointModel) -> None:
    sets = composition.label_sets
    reads = {(tagger.tape, t.name) for tagger in composition.taggers for t in tagger.reads}
    for r in composition.relabellings:
        if (r.reader, r.read) not in reads or len(r.place) != len(sets.get(r.tape, ())):
            raise OptionError(
                f"a relabelling of {r.tape!r} for {r.reader!r}, read as {r.read!r}, does not go "
                "with the taggers"
            )
