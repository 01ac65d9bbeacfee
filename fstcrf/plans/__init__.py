"""Compositions compiled: chains, couplings and grammars → one machine for the kernel.

=========  =====================================================================
Chain      one tape: topology and potentials
Coupling   potentials of the labels that tapes have at one token
Input      an array of potentials that every sentence brings
Program    the compiled composition
Decoder    how it finds its best paths
Plan       what was decided and what it costs
scaled     potentials times a factor; `scaled_chain`, those of a chain
conflict   constraints that contradict each other, as few as can be
gathered   one warning for all answers of a block that are not proven; `warn_unproven`
=========  =====================================================================
"""

from fstcrf.plans.chain import Chain, Coupling, Input, scaled, scaled_chain
from fstcrf.plans.conflict import check_consistent, conflict, no_path_error
from fstcrf.plans.folding import arc_ends
from fstcrf.plans.plan import AxisPlan, Plan, plan_of
from fstcrf.plans.program import Decoder, Program, Search, gathered, warn_unproven

__all__ = [
    "AxisPlan",
    "Chain",
    "Coupling",
    "Decoder",
    "Input",
    "Plan",
    "Program",
    "Search",
    "arc_ends",
    "check_consistent",
    "conflict",
    "gathered",
    "no_path_error",
    "plan_of",
    "scaled",
    "scaled_chain",
    "warn_unproven",
]
