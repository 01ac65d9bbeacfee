"""Compositions compiled: chains, couplings and grammars become one machine for the kernel."""

from typing import TYPE_CHECKING

from fstcrf.lazy import importer

if TYPE_CHECKING:
    from fstcrf.machines.plans.chain import Coupling as Coupling
    from fstcrf.machines.plans.chain import Input as Input
    from fstcrf.machines.plans.chain import TapeChain as TapeChain
    from fstcrf.machines.plans.chain import scaled as scaled
    from fstcrf.machines.plans.chain import scaled_chain as scaled_chain
    from fstcrf.machines.plans.conflict import check_consistent as check_consistent
    from fstcrf.machines.plans.conflict import conflict as conflict
    from fstcrf.machines.plans.conflict import no_path_error as no_path_error
    from fstcrf.machines.plans.decoder import Decoder as Decoder
    from fstcrf.machines.plans.decoder import Search as Search
    from fstcrf.machines.plans.decoder import one_warning as one_warning
    from fstcrf.machines.plans.decoder import warn_unproven as warn_unproven
    from fstcrf.machines.plans.folding import arc_ends as arc_ends
    from fstcrf.machines.plans.program import AxisPlan as AxisPlan
    from fstcrf.machines.plans.program import Plan as Plan
    from fstcrf.machines.plans.program import Program as Program
    from fstcrf.machines.plans.program import plan_of as plan_of

__all__, __getattr__ = importer(
    __name__,
    {
        "chain": "TapeChain Coupling Input scaled scaled_chain",
        "conflict": "check_consistent conflict no_path_error",
        "decoder": "Decoder Search one_warning warn_unproven",
        "folding": "arc_ends",
        "program": "AxisPlan Plan Program plan_of",
    },
)
