"""A tagger as part of a composition: its chain, and its potentials while earlier tapes are open."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from fstcrf.errors import OptionError
from fstcrf.features import LiteralIndex
from fstcrf.model import CRF
from fstcrf.model.potentials import Potentials, Term
from fstcrf.model.reading import Data
from fstcrf.plans import Chain

__all__ = ["Component"]

Floats = NDArray[np.float64]
Values = tuple[Floats, ...]


@dataclass(frozen=True, eq=False)
class Component:
    """A tagger with its weight, whose reads are tapes of the composition where those are there.

    Parameters
    ----------
    tagger : CRF
    weight : float
        Factor of its potentials.
    open_labels : mapping of str to tuple of str
        The tapes it reads that are decided together with its own, and their labels.
    """

    tagger: CRF
    weight: float
    open_labels: Mapping[str, tuple[str, ...]]

    def __post_init__(self) -> None:
        known = {tape.name: set(tape.labels) for tape in self.tagger.reads}
        for tape, labels in self.open_labels.items():
            new = [label for label in labels if label not in known[tape]]
            if new:
                raise OptionError(
                    f"the tagger of {self.tagger.tape!r} was trained to read a tape {tape!r} "
                    f"without the labels {', '.join(map(repr, new[:5]))}: put a map between them, "
                    "compose(earlier, map, later)"
                )

    @cached_property
    def weighted(self) -> CRF:
        """The tagger with its weight multiplied in."""
        if self.weight == 1.0:
            return self.tagger
        return replace(self.tagger, theta=self.tagger.theta * self.weight)

    @cached_property
    def chain(self) -> Chain:
        """The tagger's tape in the composition."""
        binding = self.weighted.bind(self.open_labels)
        graph = self.weighted.weights.still_graph
        any_token = self._any_token()
        still = not any(outline.moving for outline in binding.arc)
        return Chain(
            name=self.tagger.tape,
            topology=self.tagger.topology,
            initial=graph.initial,
            final=graph.final,
            arc=_summed(any_token.arc, self.arc_context)[0] if still else None,
            arc_context=self.arc_context,
            node_contexts=tuple(o.context for o in binding.node if o.moving),
            tables=tuple(
                (term.context, term.values[0])
                for outline, term in zip(binding.node, any_token.node, strict=True)
                if not outline.moving
            ),
        )

    @cached_property
    def arc_context(self) -> tuple[str, ...]:
        """Tapes whose labels its arcs depend on."""
        outlines = self.weighted.bind(self.open_labels).arc
        return tuple(dict.fromkeys(t for outline in outlines for t in outline.context))

    def prepare(self, sentences: Data) -> tuple[list[int], Callable[[int, int], Values]]:
        """Return the lengths of sentences, and what gives the values of a run of the full ones.

        The values are one array for each input of the chain, in the program's order.
        """
        binding = self.weighted.bind(self.open_labels)
        prepared = binding.prepare(sentences)
        moving = [outline.moving for outline in binding.node]
        own_arcs = self.chain.arc is None

        def values(first: int, end: int) -> Values:
            found = prepared.potentials(first, end)
            nodes = [t.values for t, m in zip(found.node, moving, strict=True) if m]
            if not own_arcs:
                return tuple(nodes)
            arcs = _summed(found.arc, self.arc_context)
            return (*nodes, np.broadcast_to(arcs, (len(nodes[0]), *arcs.shape[1:])))

        return prepared.lengths, values

    def _any_token(self) -> Potentials:
        """Return the potentials of some token, for those that do not depend on it."""
        index = self.weighted.index
        if isinstance(index, LiteralIndex):
            return self.weighted.bind(self.open_labels).prepare([[[]]]).potentials(0, 1)
        sentence = {name: ["0"] for name in index.columns}  # a number will do everywhere
        sentence |= {t.name: [t.labels[0]] for t in self.tagger.reads}
        return self.weighted.bind(self.open_labels).prepare([sentence]).potentials(0, 1)


def _summed(terms: Sequence[Term], context: tuple[str, ...]) -> Floats:
    """Add up terms over the tapes that any of them depends on: [N or 1, L, ..., X]."""
    total: Floats | float = 0.0
    for term in terms:
        sizes = dict(zip(term.context, term.values.shape[1:], strict=False))
        order = [term.context.index(t) for t in context if t in sizes]
        moved = term.values.transpose(0, *(1 + k for k in order), term.values.ndim - 1)
        shape = (len(moved), *(sizes.get(t, 1) for t in context), moved.shape[-1])
        total = total + moved.reshape(shape)
    return np.asarray(total)
