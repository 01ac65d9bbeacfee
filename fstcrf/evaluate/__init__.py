"""Scores of labellings; sees labels only, never models."""

from fstcrf.evaluate.labellings import best_of, written_alike
from fstcrf.evaluate.significance import (
    Comparison,
    McNemar,
    ResampledT,
    SpanCounts,
    bootstrapped_f,
    compare,
    mcnemar,
    randomised_f,
    resampled_t,
    span_counts,
)
from fstcrf.evaluate.spans import (
    LabelScore,
    SpanReport,
    SpanScore,
    TokenReport,
    evaluate_spans,
    evaluate_tokens,
)

__all__ = [
    "Comparison",
    "LabelScore",
    "McNemar",
    "ResampledT",
    "SpanCounts",
    "SpanReport",
    "SpanScore",
    "TokenReport",
    "best_of",
    "bootstrapped_f",
    "compare",
    "evaluate_spans",
    "evaluate_tokens",
    "mcnemar",
    "randomised_f",
    "resampled_t",
    "span_counts",
    "written_alike",
]
