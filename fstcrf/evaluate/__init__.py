"""Scores of labellings; sees labels only, never models."""

from fstcrf.evaluate.significance import Comparison, compare
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
    "SpanReport",
    "SpanScore",
    "TokenReport",
    "compare",
    "evaluate_spans",
    "evaluate_tokens",
]
