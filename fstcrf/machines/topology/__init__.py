"""Label histories as states, arcs and slots; chains, and what sums over their arcs cost."""

from typing import TYPE_CHECKING

from fstcrf.lazy import importer

if TYPE_CHECKING:
    from fstcrf.machines.topology.chains import (
        chain_topology,
        check_pairs,
    )
    from fstcrf.machines.topology.machines import (
        arc_classes,
        topology_machine,
    )
    from fstcrf.machines.topology.rests import (
        Rest,
        all_pairs_cost,
        best_alone_pays,
        rest_cost,
        rest_of,
        sparse_pays,
    )
    from fstcrf.machines.topology.topology import (
        START,
        Background,
        Cover,
        Topology,
    )

__all__ = [
    "START",
    "Background",
    "Cover",
    "Rest",
    "Topology",
    "all_pairs_cost",
    "arc_classes",
    "best_alone_pays",
    "chain_topology",
    "check_pairs",
    "rest_cost",
    "rest_of",
    "sparse_pays",
    "topology_machine",
]

__getattr__ = importer(
    __name__,
    {
        "START": "topology",
        "Background": "topology",
        "Cover": "topology",
        "Rest": "rests",
        "Topology": "topology",
        "all_pairs_cost": "rests",
        "arc_classes": "machines",
        "best_alone_pays": "rests",
        "chain_topology": "chains",
        "check_pairs": "chains",
        "rest_cost": "rests",
        "rest_of": "rests",
        "sparse_pays": "rests",
        "topology_machine": "machines",
    },
)
