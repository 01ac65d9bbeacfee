"""Compositions compiled: chains, couplings and grammars become one machine for the kernel."""

from typing import TYPE_CHECKING

from fstcrf.lazy import importer

if TYPE_CHECKING:
    from fstcrf.machines.plans.chain import Chain, Coupling, Input, scaled, scaled_chain
    from fstcrf.machines.plans.conflict import check_consistent, conflict, no_path_error
    from fstcrf.machines.plans.decoder import Decoder, Search, gathered, warn_unproven
    from fstcrf.machines.plans.folding import arc_ends
    from fstcrf.machines.plans.program import AxisPlan, Plan, Program, plan_of

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

__getattr__ = importer(
    __name__,
    {
        "AxisPlan": "program",
        "Chain": "chain",
        "Coupling": "chain",
        "Decoder": "decoder",
        "Input": "chain",
        "Plan": "program",
        "Program": "program",
        "Search": "decoder",
        "arc_ends": "folding",
        "check_consistent": "conflict",
        "conflict": "conflict",
        "gathered": "decoder",
        "no_path_error": "conflict",
        "plan_of": "program",
        "scaled": "chain",
        "scaled_chain": "chain",
        "warn_unproven": "decoder",
    },
)
