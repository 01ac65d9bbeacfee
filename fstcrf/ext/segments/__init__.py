"""Semi-Markov conditional random fields; `fstcrf.taggers.segmental` describes the contents."""

from fstcrf.lazy import importer

__all__, __getattr__ = importer(__name__)
