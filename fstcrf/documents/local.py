"""The tagger's side of a document: potentials of joint states, multiplied out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from fstcrf import kernel
from fstcrf.arrays import Floats
from fstcrf.documents.document import Document
from fstcrf.errors import OptionError
from fstcrf.joint import CRF, Composition, compose
from fstcrf.kernel.gibbs import Labelling
from fstcrf.lattice import Lattice
from fstcrf.lattice.machines import JointArrays, joint_arrays, joint_nodes

__all__ = ["LocalModel", "LocalScores", "Tagger"]

Tagger: TypeAlias = CRF | Composition


@dataclass(frozen=True, eq=False, slots=True)
class LocalScores:
    """What a tagger says of the N tokens of a document.

    Parameters
    ----------
    graph : kernel.Graph
        Dense, over S joint states.
    node : float64 [N, S]
    labelling : Labelling
        Of joint labels.
    names : list of tuple of str
        The labels of the tapes, for each joint label.
    """

    graph: kernel.Graph
    node: Floats
    labelling: Labelling
    names: list[tuple[str, ...]]

    @classmethod
    def of(cls, lattices: Sequence[Lattice]) -> LocalScores:
        """Return the scores of lattices of one program, none of them empty.

        Raises
        ------
        TooLargeError
            The joint states cannot be written out.
        """
        joint = joint_arrays(lattices[0])
        return _scores(lattices, joint, _labelling(joint))


class LocalModel:
    """A tagger or a composition as the local model of documents.

    Parameters
    ----------
    tagger : CRF or Composition
        A composition's tapes and grammar are multiplied out.

    Raises
    ------
    OptionError
        A composition with ``normalize="chain"``.
    """

    def __init__(self, tagger: Tagger) -> None:
        self.tagger = tagger
        self.composition = tagger if isinstance(tagger, Composition) else compose(tagger)
        if self.composition.conditional:
            raise OptionError(
                "normalize='chain' is no product of transducers: documents need "
                "compose(..., normalize='product')"
            )
        self._joint: tuple[object, JointArrays, Labelling] | None = None

    @property
    def tapes(self) -> tuple[str, ...]:
        """Names of the tapes."""
        return self.composition.tapes

    def scores(self, document: Document) -> LocalScores:
        """Return what the tagger says of a document that has tokens.

        Raises
        ------
        TooLargeError
            The joint states cannot be written out.
        """
        lattices = [x for x in self.composition.lattices(document.corpus) if len(x)]
        return _scores(lattices, *self._shared(lattices[0]))

    def _shared(self, lattice: Lattice) -> tuple[JointArrays, Labelling]:
        """Return what all sentences share; the nodes are those of one of them."""
        shared = self._joint
        if shared is None or shared[0] is not lattice.program:
            joint = joint_arrays(lattice)
            shared = self._joint = (lattice.program, joint, _labelling(joint))
        return shared[1], shared[2]


def _scores(lattices: Sequence[Lattice], joint: JointArrays, labelling: Labelling) -> LocalScores:
    if joint.per_token:
        parts = [joint_arrays(lattice) for lattice in lattices]
        node = np.concatenate([part.node for part in parts])
        step = np.concatenate([part.step for part in parts])
    else:
        node = np.concatenate([_nodes(lattice, joint) for lattice in lattices])
        step = joint.step[0]
    size = len(joint.label)
    arcs = np.ascontiguousarray(step.reshape((*step.shape[:-2], size * size)))
    graph = kernel.Graph(joint.initial, joint.final, arcs)
    return LocalScores(graph, np.ascontiguousarray(node), labelling, joint.names)


def _nodes(lattice: Lattice, joint: JointArrays) -> Floats:
    """Return the potentials of joint states; of a tagger alone they are there."""
    if len(lattice.values) == 1 and lattice.values[0].shape[1] == len(joint.label):
        machine = lattice.program.machine
        if machine.residual is None and len(machine.factors) == 1:
            return lattice.values[0]
    return joint_nodes(lattice)


def _labelling(joint: JointArrays) -> Labelling:
    size, labels = len(joint.label), len(joint.names)
    label = joint.label.astype(np.int32)
    following = np.full((size + 1, labels), -1, dtype=np.int32)
    source, target = np.nonzero((joint.step > -np.inf).any(axis=0))
    following[source, label[target]] = target
    start = np.flatnonzero(joint.initial > -np.inf)
    following[size, label[start]] = start
    return Labelling(label, following)
