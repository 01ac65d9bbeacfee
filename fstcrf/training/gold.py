"""Gold labels of a training text: conversion between schemes, repair, and unknown labels."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from fstcrf.arrays import Bools, Longs, Ragged, distinct
from fstcrf.errors import DataError, SchemeError
from fstcrf.text.corpus import Column, Corpus, Scheme, Sentence, convert, named_scheme
from fstcrf.text.corpus.collection import CorpusFiles
from fstcrf.text.corpus.conllu import CONLLU, JOINED, is_gold
from fstcrf.text.corpus.schemes import OUTSIDE, STRICT, expected, has_spans, split_label
from fstcrf.text.sentences import (
    UNKNOWN,
    Data,
    alternatives,
    column_labels,
    label_masks,
    label_set,
    sized,
)
from fstcrf.training.options import Options

_CONLLEVAL = named_scheme("conlleval")


@dataclass(frozen=True)
class Gold:
    """A text whose gold labels are legal in the scheme of the model."""

    corpus: Corpus  # all sentences, with labels in the scheme of the model
    kept: Bools  # [S] sentences to train on
    illegal: int = 0  # number of sentences that were repaired or left out
    first: str = ""  # message about the first illegal label, with its place


def legal_gold(
    corpus: Corpus, name: str, settings: Options, *, known: Iterable[str] = (), where: str = ""
) -> Gold:
    """Check a column of gold labels, and convert it to the scheme of the model.

    The options `scheme`, `on_illegal` and `partial` decide. `known` are labels of an earlier model.
    Messages about labels begin with `where`, after the line number. SchemeError: labels break their
    scheme and `on_illegal` is "error", or they cannot be repaired or converted; or no sentence is
    left.
    """
    mask = np.ones(len(corpus), dtype=bool)
    if settings.schemes is None:
        return Gold(corpus, mask)
    source, target = map(named_scheme, settings.schemes)
    column, same = corpus.column(name), source.name == target.name
    used = [column.values[i] for i in distinct(column.ids).tolist()]
    labels = label_set(used, partial=settings.reads_sets, earlier=known)
    labels = sorted({*labels, *known})
    masks = label_masks(column.values, labels, partial=settings.reads_sets)
    wrong = _broken(column, corpus.offsets, masks, _successions(labels, source))
    unknown = ~np.isin(column.values, labels)[column.ids]
    token = np.flatnonzero(wrong if same else wrong | unknown)
    if not len(token):
        return Gold(corpus if same else _converted(corpus, name, source, target, mask), mask)
    sentence = Ragged(corpus.offsets).rows()
    broken = np.zeros(len(corpus), dtype=bool)
    broken[sentence[token]] = True
    fault = _Fault(corpus, column, source, where, int(token[0]), bool(wrong[token[0]]))
    if settings.on_illegal == "error":
        count = (
            f"{len(token):,} illegal labels in {int(broken.sum()):,} of {len(corpus):,} sentences"
        )
        advice = _advice(corpus, column, masks, labels, source, target, len(token))
        if (unknown & broken[sentence]).any():
            advice = (
                "some of their labels are not known, so that they cannot be written anew: correct "
                "them, or on_illegal 'skip' leaves the sentences out"
            )
        elif (_unreadable(column) & broken[sentence]).any():
            advice = "correct what is no label, or on_illegal 'skip' leaves the sentences out"
        raise fault.error(f", the first of {count}: {advice}")
    kept = mask if settings.on_illegal == "repair" else ~broken
    if settings.on_illegal == "repair":
        _check_repair(fault, unknown, broken[sentence])
    elif not (kept & (Ragged(corpus.offsets).lengths > 0)).any():
        raise fault.error("; no sentence is left to train on")
    if not (same and settings.on_illegal == "skip"):
        corpus = _converted(corpus, name, source, target, broken if same else kept)
    return Gold(corpus, kept, int(broken.sum()), str(fault.error("")))


# --- Unknown labels -------------------------------------------------------------------------------

_TAGS = ("upos", "xpos", "head", "deprel")  # columns of CoNLL-U in which _ is a missing value


def with_partial(
    settings: Options, data: Data | CorpusFiles, target: str | Sequence[Any]
) -> Options:
    """Return options whose `partial` is set; None becomes False for columns of CoNLL-U."""
    if settings.partial is not None:
        return settings
    return replace(settings, partial=not (isinstance(target, str) and _of_conllu(data, target)))


def _of_conllu(data: Data | CorpusFiles, target: str) -> bool:
    if isinstance(data, CorpusFiles):
        return data.kind == "conllu"
    if isinstance(data, Corpus):
        return is_gold(data, target)
    first = next((sentence for sentence in data if sized(sentence, "a sentence")), None)
    if not isinstance(first, Sentence | Mapping) or target not in (*CONLLU, JOINED):
        return False
    return all(name in first for name in (*CONLLU, target))


@dataclass(frozen=True)
class UnknownLabels:
    """Number of tokens of a text whose gold label is unknown."""

    blank: int = 0  # tokens with the label _
    several: int = 0  # tokens with alternative labels, a|b
    tokens: int = 0  # all tokens

    @classmethod
    def of(cls, column: Column, labels: Sequence[str]) -> Self:
        """Count the unknown labels of a column, given the labels of the model."""
        counts = np.bincount(column.ids, minlength=len(column.values))
        names = {*labels, UNKNOWN}
        blank = [value == UNKNOWN for value in column.values]
        several = [value not in names and "|" in value for value in column.values]
        return cls(int(counts[blank].sum()), int(counts[several].sum()), len(column.ids))

    def __add__(self, other: UnknownLabels) -> UnknownLabels:
        return UnknownLabels(
            self.blank + other.blank, self.several + other.several, self.tokens + other.tokens
        )

    def warning(self, target: object, settings: Options, *, explicit: bool) -> str:
        """Return a warning about unknown labels; an empty string if the caller set `partial`.

        DataError: all labels are unknown.
        """
        name = f"the target {target!r}" if isinstance(target, str) else "the target"
        if self.tokens == self.blank and not (explicit and not settings.reads_sets):
            raise DataError(f"{name} holds no label: each of {self.tokens:,} tokens has '_'")
        if explicit:
            return ""
        if not settings.reads_sets:
            if target not in _TAGS or not self.blank:
                return ""
            return (
                f"{name}: '_' is a label, of {self.blank:,} of {self.tokens:,} tokens, as columns "
                "of CoNLL-U hold whole labels; with option partial true it is an unknown label"
            )
        if not self.blank + self.several:
            return ""
        return (
            f"{name}: {self.tokens:,} labels, of which unknown (_): {self.blank:,}, one of several "
            f"(a|b): {self.several:,}; option partial true says that it is meant so, false that "
            "these strings are labels"
        )


def gold_labels(gold: Gold, name: str, settings: Options) -> list[str]:
    """Return the sorted labels of the sentences to train on."""
    kept = gold.corpus if gold.kept.all() else gold.corpus.select(np.flatnonzero(gold.kept))
    return column_labels(kept.column(name), partial=settings.reads_sets)


def in_scheme(gold: list[list[str]], settings: Options | None) -> list[list[str]]:
    """Convert held-out labels to the scheme of the model.

    Sentences with unknown labels are not converted.
    """
    if (
        settings is None
        or settings.schemes is None
        or len({named_scheme(name).name for name in settings.schemes}) == 1
    ):
        return gold
    source, target = settings.schemes
    return [labels if UNKNOWN in labels else convert(labels, source, target) for labels in gold]


def comparable(
    gold: Sequence[Sequence[str]], predicted: Sequence[Sequence[str]], labels: Sequence[str]
) -> tuple[Sequence[Sequence[str]], Sequence[Sequence[str]]]:
    """Return gold and predicted labels without the tokens whose gold label is unknown.

    If the `labels` of the tagger encode spans, these tokens become ``O`` on both sides. Among
    alternative gold labels, the predicted label counts as correct; otherwise the first
    alternative is the gold label.
    """
    special = {label for sentence in gold for label in sentence}.difference(labels)
    sets = {label: alternatives(label, labels) or [label] for label in special}
    if UNKNOWN not in special and all(len(several) == 1 for several in sets.values()):
        return gold, predicted
    blank = [(OUTSIDE, OUTSIDE)] if has_spans(labels) else []

    def pairs(correct: str, label: str) -> list[tuple[str, str]]:
        several = sets.get(correct, [correct])
        if correct == UNKNOWN and UNKNOWN in special:
            return blank
        return [(label if label in several else several[0], label)]

    kept = [
        [pair for both in zip(correct, sentence, strict=True) for pair in pairs(*both)]
        for correct, sentence in zip(gold, predicted, strict=True)
    ]
    first, second = ([[pair[k] for pair in sentence] for sentence in kept] for k in (0, 1))
    return first, second


def illegal_warning(gold: Gold, settings: Options) -> str:
    """Return a warning about repaired or omitted sentences, or an empty string."""
    if not gold.illegal:
        return ""
    done = "repaired" if settings.on_illegal == "repair" else "left out"
    scheme = "" if settings.schemes is None else settings.schemes[0]
    return (
        f"{done} {gold.illegal:,} of {len(gold.kept):,} sentences, whose labels are no {scheme}; "
        f"the first: {gold.first}"
    )


@dataclass(frozen=True)
class _Fault:
    """A label that is illegal in its scheme, or unknown."""

    corpus: Corpus
    column: Column
    scheme: Scheme
    where: str
    token: int
    illegal: bool  # else unknown

    def error(self, more: str) -> SchemeError:
        what = self._illegal() if self.illegal else self._unknown()
        return SchemeError(f"{self.where}{what}{more}", **self.corpus.where(self.token))

    def _illegal(self) -> str:
        strings = [self.column.values[i] for i in self.column.ids[max(self.token - 1, 0) :][:2]]
        label, scheme = strings[min(self.token, 1)], self.scheme
        letter, kind = split_label(label, scheme)
        if letter == "?" and "|" not in label and label != UNKNOWN:
            return f"label {label!r} is no {scheme.name}: {expected(scheme)}"
        begins, ends = (self.token + k in self.corpus.offsets for k in (0, 1))
        before, other = (OUTSIDE, "") if begins else split_label(strings[0], scheme)
        last = ends and scheme.legal(before, letter, same=kind == other)
        after = "the start" if begins else repr(strings[0])
        return f"{label!r} after {after} is no {scheme.name}{' as the last label' * last}"

    def _unknown(self) -> str:
        label = self.column.values[self.column.ids[self.token]]
        return (
            f"label {label!r} is not known, so that its sentence cannot be written anew in a scheme"
        )


def _successions(labels: list[str], scheme: Scheme) -> Bools:
    """Return which label may follow which in a scheme, bool [L + 1, L + 1].

    Row L is the start of a sentence, column L its end, as in `legal_transitions`. A strict scheme
    forbids labels of other schemes.
    """
    parts = [*(split_label(label, scheme) for label in labels), (OUTSIDE, "")]
    return np.asarray(
        [
            [
                not (scheme.strict and "?" in (a, b)) and scheme.legal(a, b, same=kind == other)
                for b, other in parts
            ]
            for a, kind in parts
        ]
    )


def _broken(column: Column, offsets: Longs, masks: Bools, legal: Bools) -> Bools:
    """Return the tokens at which a sentence breaks its scheme, bool [N].

    `masks`, bool [V, L], are the labels that each string of the column allows; `legal`, bool
    [L + 1, L + 1], says which label may follow which.
    """
    full = Ragged(offsets).lengths > 0
    first, last = offsets[:-1][full], offsets[1:][full] - 1
    sets = masks.astype(np.float32)
    inner = legal[:-1, :-1].astype(np.float32)
    after = (sets @ inner @ sets.T) > 0  # string after string
    begins = np.asarray((masks & legal[-1, :-1]).any(axis=1))
    ends = np.asarray((masks & legal[:-1, -1]).any(axis=1))
    broken = np.empty(len(column.ids), dtype=bool)
    broken[1:] = ~after[column.ids[:-1], column.ids[1:]]
    broken[first] = ~begins[column.ids[first]]
    broken[last] |= ~ends[column.ids[last]]
    several = np.add.reduceat(masks.sum(axis=1)[column.ids] != 1, first) if len(first) else first
    for number in np.flatnonzero(several).tolist():  # alternatives need a search
        a, b = int(first[number]), int(last[number]) + 1
        broken[a:b] = _broken_tokens(masks[column.ids[a:b]], legal)
    return broken


def _broken_tokens(allowed: Bools, legal: Bools) -> Bools:
    """Return the tokens of a sentence at which no legal label remains, bool [n].

    After such a token, the search starts again from all its labels.
    """
    broken = np.zeros(len(allowed), dtype=bool)
    successors = legal[-1, :-1]
    for token, mask in enumerate(allowed):
        labels = successors & mask
        if token == len(allowed) - 1:
            labels = labels & legal[:-1, -1]
        broken[token] = not labels.any()
        successors = legal[:-1, :-1][labels if labels.any() else mask].any(axis=0)
    return broken


def _unreadable(column: Column) -> Bools:
    """Return the tokens whose label conlleval cannot read, bool [N]."""
    foreign = np.asarray([split_label(v, _CONLLEVAL)[0] in "?[]." for v in column.values])
    return np.asarray(foreign[column.ids])


def _check_repair(fault: _Fault, unknown: Bools, broken: Bools) -> None:
    """Raise SchemeError for a broken sentence that conlleval cannot read.

    `unknown` and `broken`, bool [N], mark unknown labels and the tokens of broken sentences.
    """
    column = fault.column
    unreadable = np.flatnonzero((_unreadable(column) | unknown) & broken)
    if len(unreadable):
        token = int(unreadable[0])
        odd = replace(fault, token=token, illegal=not unknown[token])
        raise odd.error(
            "; this sentence cannot be repaired: correct it, or set on_illegal to "
            "'skip' to leave it out"
        )


def _converted(corpus: Corpus, name: str, source: Scheme, target: Scheme, chosen: Bools) -> Corpus:
    """Return the corpus with the labels of the chosen sentences, bool [S], converted."""
    conversions: dict[tuple[str, ...], list[str]] = {}
    lists = corpus.column_lists(name)
    for number in np.flatnonzero(chosen).tolist():
        labels = tuple(lists[number])
        if labels not in conversions:
            conversions[labels] = convert(labels, source, target)
        lists[number] = conversions[labels]
    return corpus.with_column(name, lists)


def _advice(
    corpus: Corpus,
    column: Column,
    masks: Bools,
    labels: list[str],
    source: Scheme,
    target: Scheme,
    illegal: int,
) -> str:
    """Return options that accept the illegal labels."""
    ways = [
        "on_illegal 'repair' takes the spans that conlleval reads, 'skip' leaves the sentences out"
    ]
    left = {
        name: int(_broken(column, corpus.offsets, masks, _successions(labels, scheme)).sum())
        for name, scheme in ((name, named_scheme(name)) for name in STRICT)
        if name == scheme.name and name not in (source.name, target.name)
    }
    best = min(left, key=lambda name: left[name])
    if 10 * left[best] <= illegal:
        which = f"all but {left[best]:,} are" if left[best] else "all are"
        ways.append(f"{which} legal in {best}, which scheme '{best}:{target.name}' converts")
    return "; ".join(ways)
