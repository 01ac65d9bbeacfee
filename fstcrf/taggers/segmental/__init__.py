"""Semi-Markov conditional random fields: taggers whose units are segments."""

from fstcrf.taggers.segmental.crf import SegmentCRF, decoded

__all__ = ["SegmentCRF", "decoded"]
