"""Text: corpora, tagging schemes, templates and the attributes that they give."""

from fstcrf.lazy import importer

__all__, __getattr__ = importer(__name__)
