"""Scores of labellings; sees labels only, never models."""

from fstcrf.evaluate.significance import Comparison, compare
from fstcrf.evaluate.spans import SpanReport, SpanScore, evaluate_spans
from fstcrf.evaluate.tokens import LabelScore, TokenReport, evaluate_tokens

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
