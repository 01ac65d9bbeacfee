"""Taggers in a row; what it offers is in `fstcrf.taggers.pipelines`."""

from fstcrf.lazy import importer

__all__, __getattr__ = importer(__name__)
