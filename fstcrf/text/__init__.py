"""Text: corpora, tagging schemes, feature templates and their attributes."""

from fstcrf.lazy import importer

__all__, __getattr__ = importer(__name__)
