"""Machines without a sentence: topologies, grammars, programs for the kernel, OpenFst."""

from fstcrf.lazy import importer

__all__: list[str] = []

__getattr__ = importer(__name__, {})
