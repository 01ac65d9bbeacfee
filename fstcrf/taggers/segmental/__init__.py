"""Semi-Markov conditional random fields: taggers whose units are segments."""

from fstcrf.taggers.segmental.crf import SegmentAnswer, SegmentCRF

__all__ = ["SegmentAnswer", "SegmentCRF"]
