"""The influence of features on labels, for one tagger and for several."""

from fstcrf.lazy import importer

__all__, __getattr__ = importer(__name__)
