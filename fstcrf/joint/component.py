"""A tagger as part of a composition: its chain, and its potentials while earlier tapes are open."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from fstcrf.errors import OptionError
from fstcrf.features import LiteralIndex
from fstcrf.joint.relabelling import Reading
from fstcrf.model import CRF
from fstcrf.model.potentials import Binding, Potentials, Term
from fstcrf.model.reading import Data
from fstcrf.once import made_once
from fstcrf.plans import Chain

__all__ = ["Component"]

Context = tuple[str, ...]
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
    readings : mapping of str to Reading
        What it reads of tapes that are decided together with its own, by the name it reads.

    Raises
    ------
    OptionError
        It is given labels that it was not trained to read.
    """

    tagger: CRF
    weight: float
    readings: Mapping[str, Reading]

    def __post_init__(self) -> None:
        known = {tape.name: set(tape.labels) for tape in self.tagger.reads}
        for read, reading in self.readings.items():
            new = [label for label in reading.labels if label not in known[read]]
            if new:
                raise OptionError(
                    f"the tagger of {self.tagger.tape!r} was trained to read a tape {read!r} "
                    f"without the labels {', '.join(map(repr, new[:5]))}: put a map between them, "
                    "compose(earlier, map, later)"
                )

    @made_once
    def weighted(self) -> CRF:
        """The tagger with its weight multiplied in."""
        if self.weight == 1.0:
            return self.tagger
        return replace(self.tagger, theta=self.tagger.theta * self.weight)

    @made_once
    def chain(self) -> Chain:
        """The tagger's tape in the composition."""
        binding = self._binding
        graph = self.weighted.weights.still_graph
        any_token = self._any_token()
        still = not any(outline.moving for outline in binding.arc)
        tables = [
            self._on_tapes(term)
            for outline, term in zip(binding.node, any_token.node, strict=True)
            if not outline.moving
        ]
        return Chain(
            name=self.tagger.tape,
            topology=self.tagger.topology,
            initial=graph.initial,
            final=graph.final,
            arc=self._summed(any_token.arc)[0] if still else None,
            arc_context=self.arc_context,
            node_contexts=tuple(self._context(o.context) for o in binding.node if o.moving),
            tables=tuple((term.context, term.values[0]) for term in tables),
        )

    @cached_property
    def arc_context(self) -> Context:
        """Tapes whose labels its arcs depend on."""
        contexts = [self._context(outline.context) for outline in self._binding.arc]
        return tuple(dict.fromkeys(tape for context in contexts for tape in context))

    def prepare(self, sentences: Data) -> tuple[list[int], Callable[[int, int], Values]]:
        """Return the lengths of sentences, and what gives the values of a run of the full ones.

        The values are one array for each input of the chain, in the program's order.
        """
        binding = self._binding
        prepared = binding.prepare(sentences)
        moving = [outline.moving for outline in binding.node]
        own_arcs = self.chain.arc is None

        def values(first: int, end: int) -> Values:
            found = prepared.potentials(first, end)
            terms = [t for t, m in zip(found.node, moving, strict=True) if m]
            nodes = [self._on_tapes(term).values for term in terms]
            if not own_arcs:
                return tuple(nodes)
            arcs = self._summed(found.arc)
            return (*nodes, np.broadcast_to(arcs, (len(nodes[0]), *arcs.shape[1:])))

        return prepared.lengths, values

    @property
    def _binding(self) -> Binding:
        """The tagger bound to the labels that it sees; taggers keep their bindings."""
        return self.weighted.bind({read: r.labels for read, r in self.readings.items()})

    def _any_token(self) -> Potentials:
        """Return the potentials of some token, for those that do not depend on it."""
        index = self.weighted.index
        if isinstance(index, LiteralIndex):
            return self._binding.prepare([[[]]]).potentials(0, 1)
        # A number will do everywhere; the first column makes it a token where no other is read.
        sentence = {name: ["0"] for name in ("", *index.columns)}
        sentence |= {t.name: [t.labels[0]] for t in self.tagger.reads}
        return self._binding.prepare([sentence]).potentials(0, 1)

    # --- From the names that the tagger reads to tapes ----------------------------------------

    def _context(self, reads: Context) -> Context:
        return tuple(dict.fromkeys(self.readings[read].tape for read in reads))

    def _on_tapes(self, term: Term) -> Term:
        """Return a term by the labels of the composition's tapes rather than those it sees."""
        values = term.values
        axes: list[str] = []
        for read in term.context:
            reading, axis = self.readings[read], len(axes) + 1
            if reading.place is not None:
                values = values.take(reading.place, axis=axis)
            if reading.tape in axes:  # one tape read by two names: both labels are known at once
                values = _diagonal(values, axes.index(reading.tape) + 1, axis)
            else:
                axes.append(reading.tape)
        return Term(tuple(axes), values)

    def _summed(self, terms: Sequence[Term]) -> Floats:
        """Add up terms over the tapes that any of them depends on: [N or 1, L, ..., X]."""
        total: Floats | float = 0.0
        for term in map(self._on_tapes, terms):
            sizes = dict(zip(term.context, term.values.shape[1:], strict=False))
            order = [term.context.index(t) for t in self.arc_context if t in sizes]
            moved = term.values.transpose(0, *(1 + k for k in order), term.values.ndim - 1)
            shape = (len(moved), *(sizes.get(t, 1) for t in self.arc_context), moved.shape[-1])
            total = total + moved.reshape(shape)
        return np.asarray(total)


def _diagonal(values: Floats, first: int, second: int) -> Floats:
    """Return the entries whose numbers agree on two axes, the second axis gone."""
    return np.moveaxis(np.diagonal(values, axis1=first, axis2=second), -1, first)
