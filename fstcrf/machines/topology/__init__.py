"""Label histories as states, arcs and slots; chains, and the cost of steps over their arcs."""

from typing import TYPE_CHECKING

from fstcrf.lazy import importer

if TYPE_CHECKING:
    from fstcrf.machines.topology.machines import Rest as Rest
    from fstcrf.machines.topology.machines import all_pairs_cost as all_pairs_cost
    from fstcrf.machines.topology.machines import arc_classes as arc_classes
    from fstcrf.machines.topology.machines import best_alone_pays as best_alone_pays
    from fstcrf.machines.topology.machines import chain_topology as chain_topology
    from fstcrf.machines.topology.machines import check_pairs as check_pairs
    from fstcrf.machines.topology.machines import rest_cost as rest_cost
    from fstcrf.machines.topology.machines import rest_of as rest_of
    from fstcrf.machines.topology.machines import sparse_pays as sparse_pays
    from fstcrf.machines.topology.machines import topology_machine as topology_machine
    from fstcrf.machines.topology.topology import START as START
    from fstcrf.machines.topology.topology import ArcBlocks as ArcBlocks
    from fstcrf.machines.topology.topology import DefaultArcs as DefaultArcs
    from fstcrf.machines.topology.topology import Topology as Topology

__all__, __getattr__ = importer(
    __name__,
    {
        "machines": "chain_topology check_pairs arc_classes topology_machine Rest "
        "all_pairs_cost best_alone_pays rest_cost rest_of sparse_pays",
        "topology": "DefaultArcs ArcBlocks START Topology",
    },
)
