"""Additions to the library: a package for each use, which no module outside imports.

The names of `fstcrf` that live here are found by a table of strings when they are first used.
"""

from fstcrf.lazy import importer

__all__, __getattr__ = importer(__name__)
