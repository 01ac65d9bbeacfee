"""Machines without a sentence: topologies, grammars, programs for the kernel, OpenFst."""

from fstcrf.lazy import importer

__all__, __getattr__ = importer(__name__)
