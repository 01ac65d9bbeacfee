"""Pictures that ``draw`` of lattices, grammars and topologies writes as SVG."""

from fstcrf.lazy import importer

__all__, __getattr__ = importer(__name__)
