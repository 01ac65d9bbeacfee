"""Semi-Markov conditional random fields; what it offers is in `fstcrf.taggers.segmental`."""

from fstcrf.lazy import importer

__all__, __getattr__ = importer(__name__)
