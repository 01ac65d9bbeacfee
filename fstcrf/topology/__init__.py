"""Label histories as states, arcs and slots: the structure of a CRF, without its numbers."""

from fstcrf.topology.topology import START, Topology, chain_topology

__all__ = ["START", "Topology", "chain_topology"]
