"""Potentials times a factor; what is forbidden stays forbidden.

================  =====================================
scaled            an array of potentials
scaled_chain      all potentials of a chain
scaled_coupling   those of a coupling
scaled_acceptor   the scores of a conjunct of a grammar
================  =====================================
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from fstcrf.grammar import Acceptor
from fstcrf.plans.chain import Chain, Coupling

__all__ = ["scaled", "scaled_acceptor", "scaled_chain", "scaled_coupling"]

Floats = NDArray[np.float64]


def scaled(potentials: Floats, factor: float) -> Floats:
    """Return potentials times a factor; what is forbidden stays forbidden."""
    never = np.isneginf(potentials)
    return np.where(never, -np.inf, factor * np.where(never, 0.0, potentials))


def scaled_chain(chain: Chain, factor: float) -> Chain:
    """Return a chain with its potentials times a factor."""
    return replace(
        chain,
        initial=scaled(chain.initial, factor),
        final=scaled(chain.final, factor),
        arc=None if chain.arc is None else scaled(chain.arc, factor),
        tables=tuple((context, scaled(value, factor)) for context, value in chain.tables),
    )


def scaled_coupling(coupling: Coupling, factor: float) -> Coupling:
    """Return a coupling with its potentials times a factor."""
    value = coupling.value
    return replace(coupling, value=None if value is None else scaled(value, factor))


def scaled_acceptor(acceptor: Acceptor, factor: float) -> Acceptor:
    """Return an acceptor with its scores times a factor."""
    score = None if acceptor.score is None else scaled(acceptor.score, factor)
    return replace(acceptor, score=score, final=scaled(acceptor.final, factor))
