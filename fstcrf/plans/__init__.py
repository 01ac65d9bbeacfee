"""Compositions compiled: chains, couplings and grammars become one machine for the kernel."""

from fstcrf.plans.chain import Chain, Coupling, Input, scaled, scaled_chain
from fstcrf.plans.conflict import check_consistent, conflict, no_path_error
from fstcrf.plans.decoder import Decoder, Search, gathered, warn_unproven
from fstcrf.plans.folding import arc_ends
from fstcrf.plans.program import AxisPlan, Plan, Program, plan_of

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
