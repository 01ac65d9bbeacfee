"""Scores of labellings; sees labels only, never models.

=============== =================================================================
evaluate_spans  conlleval's scores, lenient or strict
evaluate_tokens accuracy, a score per label, confusions, unknown words
SpanReport      what `evaluate_spans` returns
SpanScore       counts, precision, recall and F of one type of span
TokenReport     what `evaluate_tokens` returns
LabelScore      counts, precision, recall and F of one label
compare         tests of significance of all kinds; each by itself in `significance`
Comparison      what `compare` returns
=============== =================================================================
"""

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
