"""Two labellings of the same tokens: interned, in one scheme, of one task.

`spans` counts correct spans and labels; `significance` tests whether differences are due to chance.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np

from fstcrf.arguments import items_of, string_list, string_lists
from fstcrf.arrays import Bools, Longs, Ragged
from fstcrf.errors import LabelWarning, ShapeError, warn
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
    offsets: Longs  # int64 [S + 1], sentence ``s`` has the tokens ``offsets[s] : offsets[s + 1]``

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
        """Whether each token has the correct label, bool [N]."""
        return np.equal(self.gold.ids, self.predicted.ids)

    @property
    def correct_tokens(self) -> int:
        """Number of tokens with the correct label."""
        return int(np.count_nonzero(self.right))

    @property
    def correct_sentences(self) -> int:
        """Number of sentences with only correct labels; an empty one is correct."""
        wrong = Ragged(self.offsets).filtered(~self.right)
        return int(np.count_nonzero(wrong.lengths == 0))


def paired(gold: Sequence[Sequence[str]], predicted: Sequence[Sequence[str]]) -> LabelPairs:
    """Intern two labellings, given as one list of labels per sentence.

    Raises
    ------
    ShapeError, LabelError
        Labellings of other tokens; a sentence that is not a list, or a label that is not a string.
    """
    gold, predicted = (
        string_lists(labellings, f"{side} label")
        for side, labellings in (("gold", gold), ("predicted", predicted))
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
    """Return names with their counts, for messages: ``B-X (10), I-X (2) and 3 more``."""
    shown = ", ".join(f"{name} ({count})" for name, count in names.most_common(most))
    return shown if len(names) <= most else f"{shown} and {len(names) - most} more"


def unseen(gold: Iterable[Iterable[str]], known: Iterable[str]) -> Counter[str]:
    """Return the unknown gold labels, with the number of tokens of each."""
    counts = Counter(label for labels in gold for label in labels)
    for label in known:
        del counts[label]
    return counts


def warn_of_unseen(gold: Iterable[Iterable[str]], known: Iterable[str], what: str) -> None:
    """Count the gold labels that the tagger cannot predict, in one LabelWarning about `what`."""
    new = unseen(gold, known)
    if new:
        text = f"{what} that training never saw count as errors: {counted(new)}"
        warn(text, LabelWarning)


# --- Labels of two schemes ------------------------------------------------------------------------

# Schemes in order of preference, if several of them fit the labels.
_LIKELY = ("iob2", "bioes", "bilou", "bmes", "bmewo", "iob1")


def written_alike(
    gold: Sequence[Sequence[str]], predicted: Sequence[Sequence[str]]
) -> tuple[Sequence[Sequence[str]], tuple[str, str] | None]:
    """Return the predicted labels in the scheme of the gold ones, so that tokens can be compared.

    Spans are read by conlleval's rules, in any scheme; single labels are compared as strings.
    Labels are rewritten only if most predicted spans are not well formed in the scheme that fits
    the gold labels best, but are well formed in another one.

    Parameters
    ----------
    gold, predicted : sequence of sequences of str
        Labels of each sentence.

    Returns
    -------
    predicted : sequence of sequences of str
        Unchanged, or rewritten.
    schemes : (str, str) or None
        The old and the new scheme, if labels were rewritten.

    Raises
    ------
    ShapeError
        The labellings are not of the same tokens.
    LabelError
        A sentence that is not a list, or a label that is not a string.

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
    """Return the share of the spans, read by conlleval's rules, that a scheme reads alike."""
    read = span_arrays(column, offsets, scheme, illegal="repair")
    strict = span_arrays(column, offsets, scheme, illegal="drop")
    if not len(read.start):
        return 1.0
    _, repaired, other = np.intersect1d(
        read.start, strict.start, assume_unique=True, return_indices=True
    )
    alike = (read.end[repaired] == strict.end[other]) & (read.type[repaired] == strict.type[other])
    return int(alike.sum()) / len(read.start)  # types of one column have equal numbers


# --- The best of several --------------------------------------------------------------------------


def best_of(
    gold: Sequence[Sequence[str]], ranked: Sequence[Sequence[Sequence[str]]]
) -> list[list[str]]:
    """Return for each sentence the best of several labellings, given the gold one (oracle choice).

    The best labelling has the fewest wrong spans, missed or found wrongly; ties: the first. F of
    the oracle choice shows the loss from using only the first of n labellings.

    Parameters
    ----------
    gold : sequence of B label sequences
    ranked : sequence of B sequences of label sequences
        At least one for each sentence, for example from `Lattice.nbest`.

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
    candidates = [
        [
            string_list(one, "label", sentence=number)
            for one in items_of(several, f"sentence {number}: labellings are", "a list of them")
        ]
        for number, several in enumerate(
            items_of(ranked, "labellings are", "some for each sentence")
        )
    ]
    if len(gold) != len(candidates):
        raise ShapeError(f"{len(gold)} gold sentences, {len(candidates)} with labellings")
    chosen = []
    for number, (labels, several) in enumerate(zip(gold, candidates, strict=True)):
        if not several or any(len(one) != len(labels) for one in several):
            raise ShapeError(
                f"sentence {number}: expected at least one labelling, each of {len(labels)} labels"
            )
        there = set(spans(labels, "conlleval"))
        wrong = [len(there.symmetric_difference(spans(one, "conlleval"))) for one in several]
        chosen.append(list(several[wrong.index(min(wrong))]))
    return chosen
