"""Which features pushed which label, of one tagger and of several."""

from fstcrf.lazy import importer

__all__, __getattr__ = importer(__name__)
