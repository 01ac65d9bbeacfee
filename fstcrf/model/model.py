"""What a tagger is: a topology, an index of attributes, and weights."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

from fstcrf.arrays import Floats
from fstcrf.features import FeatureIndex, LiteralIndex
from fstcrf.lazy import LazyModule
from fstcrf.model.reading import Tape
from fstcrf.model.record import TrainingRecord
from fstcrf.model.weights import Weights
from fstcrf.once import made_once
from fstcrf.topology import Topology
from fstcrf.train.problem import ParameterSpace, Tables

if TYPE_CHECKING:
    from fstcrf import plans
else:  # best labels alone need no lattice
    plans = LazyModule("fstcrf.plans")

__all__ = ["Model"]


@dataclass(frozen=True, eq=False)
class Model:
    """A conditional random field as data; `fstcrf.CRF` is one that tags.

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

    topology: Topology
    index: FeatureIndex | LiteralIndex
    space: ParameterSpace
    theta: Floats
    tape: str
    columns: tuple[str, ...]
    reads: tuple[Tape, ...] = ()
    record: TrainingRecord | None = None

    def __repr__(self) -> str:
        size = f"{len(self.labels)} labels, {self.space.size:,} weights"
        return f"<{type(self).__name__}: writes {self.tape}, {size}>"

    def __getstate__(self) -> dict[str, object]:
        """Return what it is made of: what was computed from that stays here."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    @property
    def labels(self) -> tuple[str, ...]:
        """The labels; axis of marginals and of masks."""
        return self.topology.labels

    @made_once
    def tables(self) -> Tables:
        """The weights, laid out for the kernel."""
        return self.space.tables(self.theta)

    @made_once
    def weights(self) -> Weights:
        """The weights, laid out for tagging."""
        return Weights(self.topology, self.space, self.theta)

    @made_once
    def program(self) -> plans.Program:
        """The tagger compiled: what its lattices share."""
        graph = self.weights.still_graph
        per_token = self.weights.has_arc_attributes
        arc = None if per_token else graph.score
        chain = plans.Chain(self.tape, self.topology, graph.initial, graph.final, arc)
        return plans.Program([chain])

    @made_once
    def bound(self) -> dict[Hashable, object]:
        """The model bound to labels of the tapes that it reads; kept by `potentials.bind`."""
        return {}
