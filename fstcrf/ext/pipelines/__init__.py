"""Taggers in sequence; `fstcrf.taggers.pipelines` describes the contents."""

from fstcrf.lazy import importer

__all__, __getattr__ = importer(__name__)
