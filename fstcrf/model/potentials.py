"""Potentials of a tagger whose earlier tapes may be open: what joint decoding adds up.

==================  ==========================================================
Potentials          terms of some sentences, one for each context
Term                potentials that depend on the labels of some tapes
Binding             a tagger bound to the labels of its open tapes
PreparedPotentials  sentences, ready to give their potentials run by run
==================  ==========================================================

In a cascade the labels of an earlier tape are a column. In a joint decoder they are states: the
tape is *open*, and there is a potential for each state and each label of the tape. What does not
depend on open tapes is the plain term, of the context ``()``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from fstcrf.errors import OptionError
from fstcrf.features import LiteralIndex
from fstcrf.features.hashed import Hashed
from fstcrf.features.reader import Reader
from fstcrf.features.tables import Tables, divided
from fstcrf.kernel import SparseRows
from fstcrf.model.conditioning import Bound, Outline, bound
from fstcrf.model.reading import Data, Run, read_corpus, read_sentences, runs_of

if TYPE_CHECKING:
    from fstcrf.model.crf import CRF

__all__ = ["Binding", "Outline", "Potentials", "PreparedPotentials", "Term"]

Floats = NDArray[np.float64]
Side = Tables | Hashed


@dataclass(frozen=True, slots=True, eq=False)
class Term:
    """Potentials of one tagger, conditioned on the labels of other tapes at the same position.

    Parameters
    ----------
    context : tuple of str
        The tapes; () for none.
    values : float64 [N, L_1, ..., X]
        Natural-log scores, for each label of the tapes: of each state (X = S), or of each arc of
        the kernel that leads into the token (rows of first tokens mean nothing). The first axis is
        1 where they are the same for all tokens.
    """

    context: tuple[str, ...]
    values: Floats


@dataclass(frozen=True, slots=True, eq=False)
class Potentials:
    """What the potentials of N tokens are the sum of.

    Parameters
    ----------
    node, arc : tuple of Term
        Of states and of arcs; the first has no context. Arcs that a dense graph has and the
        topology has not are −inf there.
    initial, final : float64 [S]
        Of beginning and ending in a state; −inf forbids.
    """

    node: tuple[Term, ...]
    arc: tuple[Term, ...]
    initial: Floats
    final: Floats


@dataclass(frozen=True, slots=True)
class PreparedPotentials:
    """Sentences, ready to give their potentials; made by `Binding.prepare`.

    Parameters
    ----------
    lengths : list of int
        Tokens of each sentence; empty sentences included.
    potentials : callable
        (first, end) → potentials of those of the sentences that are not empty.
    """

    lengths: list[int]
    potentials: Callable[[int, int], Potentials]

    def runs(self, tokens: int) -> Iterator[Run]:
        """Yield runs of sentences of about so many tokens."""
        return runs_of(self.lengths, tokens)


class Binding:
    """A tagger bound to the labels of its open tapes; made by `CRF.bind`.

    Parameters
    ----------
    model : CRF
    labels : mapping of str to sequence of str
        The tapes that are open, with the labels of their axes. Other tapes that the model reads
        are columns, as in a cascade. Labels that the model does not know have no potentials.

    Attributes
    ----------
    node, arc : tuple of Outline
        The terms that `Potentials` will have.

    Raises
    ------
    OptionError
        A tape that the model does not read, or that has no labels, or a label twice.
    """

    def __init__(self, model: CRF, labels: Mapping[str, Sequence[str]]) -> None:
        _check(model, labels)
        self._model = model
        # In the order in which the model reads them: so are the axes.
        self._open = {t.name: tuple(labels[t.name]) for t in model.reads if t.name in labels}
        self._node_side, self._node = self._bound(arc=False)
        self._arc_side, self._arc = self._bound(arc=True)
        states, arcs = model.topology.n_states, model.weights.still_graph.n_arcs
        moving = self._arc_side is not None
        self.node = (Outline((), (states,), moving=True), *(t.outline for t in self._node))
        self.arc = (Outline((), (arcs,), moving=moving), *(t.outline for t in self._arc))

    def _bound(self, *, arc: bool) -> tuple[Side | None, tuple[Bound, ...]]:
        """Return the families without open tapes, and the terms of the others."""
        index, weights = self._model.index, self._model.weights
        if isinstance(index, LiteralIndex) or (arc and not weights.has_arc_attributes):
            return None, ()
        sides = divided(index.arc if arc else index.node, tuple(self._open))
        plain = sides.pop((), None)
        if not sides:
            return plain, ()
        cells = weights.arc_cells() if arc else weights.node_cells()
        n_rows = index.n_arc_rows if arc else index.n_node_rows
        return plain, bound(sides, self._open, cells, n_rows)

    def prepare(self, sentences: Data) -> PreparedPotentials:
        """Prepare sentences; what is done per distinct string is done once, here.

        Parameters
        ----------
        sentences : Corpus or sequence of sentences
            They need no columns for open tapes.

        Raises
        ------
        DataError, TemplateError
            They lack a column, or are not what they should be.
        """
        model, index = self._model, self._model.index
        if isinstance(index, LiteralIndex):
            data = read_sentences(index, sentences, model.columns)
            return PreparedPotentials(
                data.lengths, lambda a, b: self._potentials(data.design(a, b).node, None, (), ())
            )
        lengths, corpus = read_corpus(
            index, sentences, model.columns, model.reads, open_tapes=self._open
        )
        reader = index.reader(corpus, open_tapes=tuple(self._open))
        node = _rows(self._node_side, reader, index.n_node_rows)
        arc = _rows(self._arc_side, reader, index.n_arc_rows)
        node_terms = [(t.outline.context, t.runs(reader)) for t in self._node]
        arc_terms = [(t.outline.context, t.runs(reader)) for t in self._arc]

        def potentials(first: int, end: int) -> Potentials:
            return self._potentials(
                node(first, end),
                None if self._arc_side is None else arc(first, end),
                [Term(context, values(first, end)) for context, values in node_terms],
                [Term(context, values(first, end)) for context, values in arc_terms],
            )

        return PreparedPotentials(lengths, potentials)

    def conditioned(self, sentences: Data) -> Callable[[NDArray[np.int64]], tuple[Term, ...]]:
        """Return what gives the terms of states that depend on open tapes, for some tokens.

        Returns
        -------
        callable
            int64 [M], tokens of the sentences that are not empty → terms of M tokens.
        """
        model, index = self._model, self._model.index
        if isinstance(index, LiteralIndex):
            return lambda tokens: ()  # noqa: ARG005 (attribute lists read no tape)
        _, corpus = read_corpus(index, sentences, model.columns, model.reads, open_tapes=self._open)
        reader = index.reader(corpus, open_tapes=tuple(self._open))
        terms = [(t.outline.context, t.tokens(reader)) for t in self._node]
        return lambda tokens: tuple(Term(context, make(tokens)) for context, make in terms)

    def _potentials(
        self,
        node: SparseRows,
        arc: SparseRows | None,
        node_terms: Sequence[Term],
        arc_terms: Sequence[Term],
    ) -> Potentials:
        weights = self._model.weights
        graph = weights.graph(arc)
        score = graph.score if graph.moving else graph.score[None]
        return Potentials(
            (Term((), weights.node(node)), *node_terms),
            (Term((), score), *arc_terms),
            graph.initial,
            graph.final,
        )


def _rows(side: Side | None, reader: Reader, n_rows: int) -> Callable[[int, int], SparseRows]:
    """Return the function from a run of sentences to the attributes that one side gives."""
    if side is not None:
        return side.runs(reader)
    offsets = reader.corpus.offsets

    def none(first: int, end: int) -> SparseRows:
        size = int(offsets[end] - offsets[first])
        return SparseRows(
            np.zeros(size + 1, dtype=np.int64), np.empty(0, dtype=np.int32), None, n_rows
        )

    return none


def _check(model: CRF, labels: Mapping[str, Sequence[str]]) -> None:
    known = [tape.name for tape in model.reads]
    for tape, axis in labels.items():
        if tape not in known:
            raise OptionError(
                f"the tagger of tape {model.tape!r} does not read tape {tape!r}; it reads "
                f"{', '.join(map(repr, known)) or 'none'}"
            )
        if isinstance(axis, str) or not axis or len(set(axis)) < len(axis):
            raise OptionError(f"the labels of tape {tape!r} must be a list of distinct labels")
