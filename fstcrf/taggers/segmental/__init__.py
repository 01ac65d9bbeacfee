"""Semi-Markov conditional random fields: taggers whose units are segments."""

from typing import TYPE_CHECKING

from fstcrf.lazy import importer

if TYPE_CHECKING:
    from fstcrf.ext.segments.crf import SegmentCRF as SegmentCRF
    from fstcrf.ext.segments.crf import decoded as decoded
    from fstcrf.ext.segments.structure import Segments as Segments

__all__, __getattr__ = importer(
    __name__,
    {
        "fstcrf.ext.segments.crf": "SegmentCRF decoded",
        "fstcrf.ext.segments.structure": "Segments",
    },
)
