"""Pictures that ``draw`` of lattices, grammars and topologies writes as SVG."""
