"""Labellings of the same tokens beside each other: interned, in one scheme, of one task.

What is right of them is counted in `spans`, what may be chance in `significance`.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np

from fstcrf.arguments import items_of, string_list, string_lists
from fstcrf.arrays import Bools, Longs
from fstcrf.errors import LabelWarning, ShapeError
from fstcrf.ragged import Ragged
from fstcrf.text.corpus import spans
from fstcrf.text.corpus.corpus import Column
from fstcrf.text.corpus.schemes import convert, has_spans, span_arrays

# --- Two labellings, interned together ------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class LabelPairs:
    """Gold and predicted labels of the same N tokens; both columns share their values."""

    # gold, predicted: the labels
    gold: Column
    predicted: Column
    offsets: Longs  # int64 [S + 1], sentence ``s`` owns the tokens ``offsets[s] : offsets[s + 1]``

    @property
    def n_tokens(self) -> int:
        """Number of tokens, N."""
        return int(self.offsets[-1])

    @property
    def n_sentences(self) -> int:
        """Number of sentences, S."""
        return len(self.offsets) - 1

    @property
    def right(self) -> Bools:
        """Whether each token has the right label, bool [N]."""
        return np.equal(self.gold.ids, self.predicted.ids)

    @property
    def correct_tokens(self) -> int:
        """Number of tokens with the right label."""
        return int(np.count_nonzero(self.right))

    @property
    def correct_sentences(self) -> int:
        """Number of sentences with all labels right; an empty one is right."""
        wrong = Ragged(self.offsets).filtered(~self.right)
        return int(np.count_nonzero(wrong.lengths == 0))


def paired(gold: Sequence[Sequence[str]], predicted: Sequence[Sequence[str]]) -> LabelPairs:
    """Intern two labellings, given as one list of labels per sentence.

    Raises
    ------
    ShapeError, LabelError
        Labellings of other tokens; a sentence that is no list, or a label that is no string.
    """
    gold, predicted = (
        string_lists(given, f"{side} label")
        for side, given in (("gold", gold), ("predicted", predicted))
    )
    if len(gold) != len(predicted):
        raise ShapeError(f"{len(gold)} gold sentences, {len(predicted)} predicted")
    lengths = [len(sentence) for sentence in gold]
    for number, (length, sentence) in enumerate(zip(lengths, predicted, strict=True)):
        if length != len(sentence):
            raise ShapeError(f"sentence {number}: {length} gold labels, {len(sentence)} predicted")
    labels = Column.from_strings(chain.from_iterable((*gold, *predicted)))
    offsets = Ragged.from_lengths(lengths).offsets
    n_tokens = int(offsets[-1])
    return LabelPairs(
        Column(labels.ids[:n_tokens], labels.values),
        Column(labels.ids[n_tokens:], labels.values),
        offsets,
    )


def counted(names: Counter[str], most: int = 5) -> str:
    """Return names with how often each was met, for messages: ``B-X (10), I-X (2) and 3 more``."""
    shown = ", ".join(f"{name} ({count})" for name, count in names.most_common(most))
    return shown if len(names) <= most else f"{shown} and {len(names) - most} more"


def unseen(gold: Iterable[Iterable[str]], known: Iterable[str]) -> Counter[str]:
    """Return the gold labels that are none of the known ones, with how many tokens have them."""
    counts = Counter(label for labels in gold for label in labels)
    for label in known:
        del counts[label]
    return counts


def warn_of_unseen(
    gold: Iterable[Iterable[str]], known: Iterable[str], what: str, *, stacklevel: int
) -> None:
    """Count the gold labels that no answer can have, in one LabelWarning about `what`."""
    new = unseen(gold, known)
    if new:
        text = f"{what} that training never saw count as errors: {counted(new)}"
        warnings.warn(text, LabelWarning, stacklevel=stacklevel + 1)


# --- Labels of two schemes ------------------------------------------------------------------------

# What labels are taken for where several schemes would do: the first.
_LIKELY = ("iob2", "bioes", "bilou", "bmes", "bmewo", "iob1")


def written_alike(
    gold: Sequence[Sequence[str]], predicted: Sequence[Sequence[str]]
) -> tuple[Sequence[Sequence[str]], tuple[str, str] | None]:
    """Return the predicted labels in the scheme of the gold ones, so that tokens can be compared.

    Spans are read as conlleval reads them, whatever the scheme; single labels are not. Labels are
    written anew only where most predicted spans are not well formed in the scheme that suits the
    gold labels best, and are in another.

    Parameters
    ----------
    gold, predicted : sequence of sequences of str
        Labels of each sentence.

    Returns
    -------
    predicted : sequence of sequences of str
        As they are, or written anew.
    schemes : (str, str) or None
        What they were and what they are, where they were written anew.

    Raises
    ------
    ShapeError
        The labellings are not of the same tokens.
    LabelError
        A sentence that is no list, or a label that is no string.

    Examples
    --------
    >>> written_alike([["I-PER", "I-PER", "O"]], [["B-PER", "E-PER", "O"]])
    ([['I-PER', 'I-PER', 'O']], ('bioes', 'iob1'))
    """
    predicted = string_lists(predicted, "predicted label")
    pairs = paired(gold, predicted)
    if not has_spans(pairs.gold.strings()):
        return predicted, None
    target, _ = _likeliest(pairs.gold, pairs.offsets)
    if _well_formed(pairs.predicted, pairs.offsets, target) > 0.5:
        return predicted, None
    source, share = _likeliest(pairs.predicted, pairs.offsets)
    if share <= 0.5:
        return predicted, None
    return [convert(labels, source, target) for labels in predicted], (source, target)


def _likeliest(column: Column, offsets: Longs) -> tuple[str, float]:
    """Return the scheme in which most spans are well formed, and their share."""
    best, most = _LIKELY[0], -1.0
    for name in _LIKELY:
        share = _well_formed(column, offsets, name)
        if share > most:
            best, most = name, share
        if share == 1.0:
            break
    return best, most


def _well_formed(column: Column, offsets: Longs, scheme: str) -> float:
    """Return the share of the spans, as conlleval reads them, that a scheme reads alike."""
    read = span_arrays(column, offsets, scheme, illegal="repair")
    strict = span_arrays(column, offsets, scheme, illegal="drop")
    if not len(read.start):
        return 1.0
    _, repaired, other = np.intersect1d(
        read.start, strict.start, assume_unique=True, return_indices=True
    )
    alike = (read.end[repaired] == strict.end[other]) & (read.type[repaired] == strict.type[other])
    return int(alike.sum()) / len(read.start)  # types of one column are numbered alike


# --- The best of several --------------------------------------------------------------------------


def best_of(
    gold: Sequence[Sequence[str]], ranked: Sequence[Sequence[Sequence[str]]]
) -> list[list[str]]:
    """Return for each sentence that of several labellings which somebody who knows would choose.

    It is the one with the fewest wrong spans, missed and found wrongly, the first of equals. F of
    the best of n labellings says what is lost when only the first is looked at.

    Parameters
    ----------
    gold : sequence of B label sequences
    ranked : sequence of B sequences of label sequences
        At least one for each sentence, such as those of `Lattice.nbest`.

    Raises
    ------
    ShapeError
        Another number of sentences, or of labels in one; a sentence without a labelling.

    Examples
    --------
    >>> best_of([["B-X", "O"]], [[["O", "O"], ["B-X", "O"], ["B-X", "B-X"]]])
    [['B-X', 'O']]
    """
    gold = string_lists(gold, "gold label")
    ranked = [
        [
            string_list(one, "label", sentence=number)
            for one in items_of(several, f"sentence {number}: labellings are", "a list of them")
        ]
        for number, several in enumerate(
            items_of(ranked, "labellings are", "some for each sentence")
        )
    ]
    if len(gold) != len(ranked):
        raise ShapeError(f"{len(gold)} gold sentences, {len(ranked)} with labellings")
    chosen = []
    for number, (labels, several) in enumerate(zip(gold, ranked, strict=True)):
        if not several or any(len(one) != len(labels) for one in several):
            raise ShapeError(
                f"sentence {number}: expected at least one labelling, each of {len(labels)} labels"
            )
        there = set(spans(labels, "conlleval"))
        wrong = [len(there.symmetric_difference(spans(one, "conlleval"))) for one in several]
        chosen.append(list(several[wrong.index(min(wrong))]))
    return chosen
