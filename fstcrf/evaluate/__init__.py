"""Scores of labellings; it knows labels only, not models."""

from typing import TYPE_CHECKING

from fstcrf.lazy import importer

if TYPE_CHECKING:
    from fstcrf.evaluate.labellings import best_of as best_of
    from fstcrf.evaluate.labellings import written_alike as written_alike
    from fstcrf.evaluate.spans import LabelScore as LabelScore
    from fstcrf.evaluate.spans import SpanReport as SpanReport
    from fstcrf.evaluate.spans import SpanScore as SpanScore
    from fstcrf.evaluate.spans import TokenReport as TokenReport
    from fstcrf.evaluate.spans import evaluate_spans as evaluate_spans
    from fstcrf.evaluate.spans import evaluate_tokens as evaluate_tokens
    from fstcrf.ext.significance import Comparison as Comparison
    from fstcrf.ext.significance import McNemar as McNemar
    from fstcrf.ext.significance import ResampledT as ResampledT
    from fstcrf.ext.significance import SpanCounts as SpanCounts
    from fstcrf.ext.significance import bootstrapped_f as bootstrapped_f
    from fstcrf.ext.significance import compare as compare
    from fstcrf.ext.significance import mcnemar as mcnemar
    from fstcrf.ext.significance import randomised_f as randomised_f
    from fstcrf.ext.significance import resampled_t as resampled_t
    from fstcrf.ext.significance import span_counts as span_counts

__all__, __getattr__ = importer(
    __name__,
    {
        "labellings": "best_of written_alike",
        "spans": "LabelScore SpanReport SpanScore TokenReport evaluate_spans evaluate_tokens",
        "fstcrf.ext.significance": "Comparison McNemar ResampledT SpanCounts bootstrapped_f "
        "compare mcnemar randomised_f resampled_t span_counts",
    },
)
