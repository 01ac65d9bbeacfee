"""Whether two columns can be labels of one task at all.

============  ==================================================================
LEAST         below this share of tokens, two columns hardly have a label in common
label_share   the share of tokens whose label the other column has, too
============  ==================================================================
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from fstcrf.corpus import named_scheme
from fstcrf.corpus.schemes import OUTSIDE, split_label

__all__ = ["LEAST", "label_share"]

LEAST = 0.1


def label_share(gold: Mapping[str, int], predicted: Mapping[str, int]) -> float:
    """Return the share of tokens whose label occurs in the other column, too.

    Of a label of spans its type counts, so that columns in two schemes are of one task; ``O``,
    which most tasks have, does not count. The larger one of the two columns' shares decides: a
    tagger that says one label everywhere has that in common with the labels wanted, however few
    they are there.

    Parameters
    ----------
    gold, predicted : mapping of str to int
        How many tokens have each label.

    Returns
    -------
    float
        In [0, 1]; 1 where a column has no label but ``O``, of which nothing can be said.
    """
    columns = _said(gold), _said(predicted)
    if not all(columns):
        return 1.0
    both = columns[0].keys() & columns[1].keys()
    return max(sum(c[label] for label in both) / c.total() for c in columns)


def _said(labels: Mapping[str, int]) -> Counter[tuple[bool, str]]:
    """Count types of spans, and other labels."""
    found: Counter[tuple[bool, str]] = Counter()
    for label, tokens in labels.items():
        letter, kind = split_label(label, named_scheme("conlleval"))
        if label != OUTSIDE and tokens:
            span = bool(kind) and letter != "?"
            found[span, kind if span else label] += tokens
    return found
