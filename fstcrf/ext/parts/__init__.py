"""Training on parts of a text, in other processes or within a limit of memory."""

from fstcrf.lazy import importer

__all__, __getattr__ = importer(__name__)
