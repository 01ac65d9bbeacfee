"""Scores with their uncertainty, confusions, and errors in the order of how sure the tagger was."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from fstcrf.arguments import string_lists
from fstcrf.arrays import Ints
from fstcrf.errors import DataError, InexactWarning, NoPathError, OptionError
from fstcrf.evaluate import evaluate_spans, evaluate_tokens
from fstcrf.evaluate.labellings import written_alike
from fstcrf.ext.calibration import Events, label_events, lattices_of, span_events
from fstcrf.ext.significance import bootstrapped_f, span_counts
from fstcrf.taggers import CRF, Tagger
from fstcrf.taggers.batches import surrounded
from fstcrf.text.corpus import Corpus, Span, spans
from fstcrf.text.corpus.batches import batches
from fstcrf.text.corpus.schemes import has_spans

_ABOVE = 0.01
"""Minimum probability of a span or label in calibration events."""
_ENOUGH = 10
"""With fewer documents, the bootstrap draws sentences."""
_TOGETHER = 20_000
"""Tokens between reports."""


class TypeScore(NamedTuple):
    """The scores of a type of spans, or of a label, with 95 % intervals (Wilson 1927)."""

    type: str
    gold: int
    guessed: int
    correct: int
    precision: float
    precision_interval: tuple[float, float]
    recall: float
    recall_interval: tuple[float, float]
    f: float


class ErrorFound(NamedTuple):
    """A span, or a label at a token, that is wrong or missing.

    Attributes
    ----------
    sentence : int
    start, end : int
        Its tokens.
    gold, found : str
        The gold and the found label; empty without a span that begins and ends here.
    probability : float
        Probability of the found span, or, for a missed one, of the gold span. NaN without
        probabilities.
    """

    sentence: int
    start: int
    end: int
    gold: str
    found: str
    probability: float


@dataclass(frozen=True, slots=True)
class Repair:
    """The changes that a grammar makes.

    Parameters
    ----------
    sentences : tuple of int
        Sentences whose best labels it forbade.
    mended, spoilt : int
        Tokens that are right only with the grammar, and only without it.
    score, free : float
        F of spans, else accuracy, with the grammar and without it.
    """

    sentences: tuple[int, ...]
    mended: int
    spoilt: int
    score: float
    free: float


@dataclass(frozen=True, eq=False, slots=True)
class Analysis:
    """The results of a tagger on text with gold labels.

    Parameters
    ----------
    tape : str
    spans : bool
        Labels are labels of spans.
    corpus : Corpus
    gold, found : sequence of sequences of str
        Labels of each sentence.
    accuracy, sentences : float
        Shares of tokens, and of whole sentences, that are right.
    f : float
        F of all spans; for other labels, the accuracy.
    f_interval : (float, float)
        A 95 % confidence interval, from the bootstrap over documents if there are at least ten,
        else over sentences.
    types : tuple of TypeScore
        Most frequent first.
    confusions : tuple of (str, str, int)
        Gold and found label, and how often; most frequent first.
    errors : tuple of ErrorFound
        The most confident errors are first.
    events : Events, optional
        All spans (labels) above 0.01 with their probabilities; `None` for taggers without
        probabilities.
    repair : Repair, optional
        `None` without a grammar.
    unproven : int
        Sentences whose labels are the best found, not proven to be the best.
    """

    tape: str
    spans: bool
    corpus: Corpus
    gold: Sequence[Sequence[str]]
    found: Sequence[Sequence[str]]
    accuracy: float
    sentences: float
    f: float
    f_interval: tuple[float, float]
    types: tuple[TypeScore, ...]
    confusions: tuple[tuple[str, str, int], ...]
    errors: tuple[ErrorFound, ...]
    events: Events | None
    repair: Repair | None
    unproven: int

    @property
    def units(self) -> Ints | None:
        """Number of each sentence's document; `None` with too few documents."""
        return _units(self.corpus)

    def curve(self) -> tuple[list[float], list[float], list[float]]:
        """Return thresholds, and precision and recall of spans with at least these probabilities.

        Raises
        ------
        OptionError
            The tagger has no probabilities.
        """
        if self.events is None:
            raise OptionError("the tagger has no probabilities of spans: no curve")
        order = np.argsort(-self.events.probability, kind="stable")
        p, right = self.events.probability[order], np.cumsum(self.events.correct[order])
        wanted = int(self.events.correct.sum() + self.events.missed.sum())
        last = np.append(p[1:] < p[:-1], True) if len(p) else np.empty(0, dtype=bool)
        kept = np.arange(1, len(p) + 1)
        recall = right / max(wanted, 1)
        return p[last].tolist(), (right / kept)[last].tolist(), recall[last].tolist()


def analyse(
    tagger: Tagger[Any],
    corpus: Corpus,
    gold: str | Sequence[Sequence[str]],
    *,
    tape: str | None = None,
    threads: int = 1,
    resamples: int = 2_000,
    seed: int = 0,
    told: Callable[[float], None] = lambda _: None,
) -> Analysis:
    """Decode a corpus and collect its errors.

    If the tagger's spans have another scheme than the gold labels, its spans are converted to
    theirs (`written_alike`), so that tokens can be compared.

    Parameters
    ----------
    tagger : Tagger
    corpus : Corpus
    gold : str or sequence of sequences of str
        Column of the gold labels, or the gold labels of each sentence.
    tape : str, optional
        The analysed tape, if there are several.
    threads : int
    resamples, seed : int
        Of the bootstrap.
    told : callable
        Called with the share of the work that is done, 0 to 1, now and then.

    Raises
    ------
    OptionError
        No such tape, or no name among several.
    DataError
        No tokens; a column that is missing.
    """
    if tape is None and len(tagger.tapes) > 1:
        raise OptionError(f"the tagger has several tapes: choose one of {', '.join(tagger.tapes)}")
    name = tagger.tapes[0] if tape is None else tape
    if name not in tagger.tapes:
        raise OptionError(f"no tape {name!r}: the tapes are {', '.join(tagger.tapes)}")
    if not corpus.n_tokens:
        raise DataError("the text has no tokens, expected at least one")
    wanted = (
        corpus.column_lists(gold)
        if isinstance(gold, str)
        else list(map(list, string_lists(gold, "gold label")))
    )
    parts = 2 if tagger.without_grammar() is None else 3
    decided, unproven = _decided(tagger, corpus, name, threads, lambda share: told(share / parts))
    found, _ = written_alike(wanted, decided)
    of_spans = has_spans({label for labels in wanted for label in labels})
    events, chances = _probabilities(tagger, corpus, name, wanted, found, of_spans, threads)
    told(2 / parts)
    tokens = evaluate_tokens(wanted, found)
    f, interval = tokens.accuracy, (float("nan"), float("nan"))
    if of_spans:
        f = evaluate_spans(wanted, found).f
        if len(wanted) > 1:
            counts, units = span_counts(wanted, found), _units(corpus)
            counts = counts if units is None else counts.grouped(units)
            interval = bootstrapped_f(counts, resamples=resamples, seed=seed)
    else:
        interval = _wilson(tokens.correct, tokens.tokens)
    return Analysis(
        name,
        of_spans,
        corpus,
        wanted,
        found,
        tokens.accuracy,
        tokens.sentence_accuracy,
        f,
        interval,
        _types(wanted, found, of_spans=of_spans),
        tuple((*pair, count) for pair, count in tokens.confusions.items()),
        _errors(wanted, found, chances, of_spans=of_spans),
        events,
        _repaired(
            *(tagger, corpus, name, wanted, decided),
            threads=threads,
            of_spans=of_spans,
            told=lambda share: told((2 + share) / parts),
        ),
        unproven,
    )


# --- How it is found ------------------------------------------------------------------------------


def _units(corpus: Corpus) -> Ints | None:
    documents = corpus.documents
    return documents if len(np.unique(documents)) >= _ENOUGH else None


_Key = tuple[int, int, int, str]  # sentence, start, end, type or label


def _decided(
    tagger: Tagger[Any], corpus: Corpus, tape: str, threads: int, told: Callable[[float], None]
) -> tuple[list[list[str]], int]:
    import warnings  # noqa: PLC0415

    labels: list[list[str]] = []
    unproven = 0
    whole = tagger._composed if isinstance(tagger, CRF) else tagger._joint()
    corpus = corpus if whole is None else surrounded(whole, corpus)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", InexactWarning)  # they are counted
        for run in batches(corpus, _TOGETHER):
            try:
                answer = tagger.decode(run, threads=threads)
            except NoPathError as error:
                number = None if error.sentence is None else len(labels) + error.sentence
                raise error.of_sentence(number) from None
            labels += answer[tape].labels(0)
            unproven += int((~answer.exact).sum())
            told(len(labels) / len(corpus))
    return labels, unproven


def _probabilities(
    tagger: Tagger[Any],
    corpus: Corpus,
    tape: str,
    gold: Sequence[Sequence[str]],
    found: Sequence[Sequence[str]],
    of_spans: bool,  # noqa: FBT001
    threads: int,
) -> tuple[Events | None, dict[_Key, float]]:
    """Return all events, and the probability of each span or label on either side."""
    decision = tagger._joint()
    if decision is not None and decision._conditional:
        return None, {}
    lattices = lattices_of(tagger, corpus, tape=tape, threads=threads)
    events = (span_events if of_spans else label_events)(
        lattices, gold, above=_ABOVE, tape=tape, threads=threads
    )
    chances: dict[_Key, float] = {}
    for number, (lattice, one, other) in enumerate(zip(lattices, gold, found, strict=True)):
        if not len(lattice) or list(one) == list(other):
            continue
        if of_spans:
            asked = sorted({(s.start, s.end, s.type) for row in (one, other) for s in spans(row)})
            values = lattice.span_probabilities([Span(*key) for key in asked], tape=tape)
            chances |= {(number, *k): float(p) for k, p in zip(asked, values, strict=True)}
        else:
            rows = lattice.marginals(tape)
            place = {label: k for k, label in enumerate(lattice.on[lattice.number(tape)].labels)}
            for token, pair in enumerate(zip(one, other, strict=True)):
                for label in pair:
                    p = float(rows[token, place[label]]) if label in place else 0.0
                    chances[number, token, token + 1, label] = p
    return events, chances


def _errors(
    gold: Sequence[Sequence[str]],
    found: Sequence[Sequence[str]],
    chances: dict[_Key, float],
    *,
    of_spans: bool,
) -> tuple[ErrorFound, ...]:
    """Return wrong and missing spans, the most confident errors first."""
    errors = []
    for number, (one, other) in enumerate(zip(gold, found, strict=True)):
        if list(one) == list(other):
            continue
        if of_spans:
            wanted = {(s.start, s.end): s.type for s in spans(one)}
            said = {(s.start, s.end): s.type for s in spans(other)}
        else:
            wanted = {(k, k + 1): label for k, label in enumerate(one)}
            said = {(k, k + 1): label for k, label in enumerate(other)}
        for place in sorted(wanted.keys() | said.keys()):
            right, mine = wanted.get(place, ""), said.get(place, "")
            if right != mine:
                p = chances.get((number, *place, mine or right), float("nan"))
                errors.append(ErrorFound(number, *place, right, mine, p))

    def doubt(error: ErrorFound) -> float:
        sure = error.probability if error.found else 1.0 - error.probability
        return -sure if np.isfinite(sure) else 0.0

    return tuple(sorted(errors, key=doubt))


def _types(
    gold: Sequence[Sequence[str]], found: Sequence[Sequence[str]], *, of_spans: bool
) -> tuple[TypeScore, ...]:
    scores: Any = (
        evaluate_spans(gold, found).types if of_spans else evaluate_tokens(gold, found).labels
    )
    rows = [
        TypeScore(
            name,
            score.gold,
            score.guessed,
            score.correct,
            score.precision,
            _wilson(score.correct, score.guessed),
            score.recall,
            _wilson(score.correct, score.gold),
            score.f,
        )
        for name, score in scores.items()
    ]
    return tuple(sorted(rows, key=lambda row: (-row.gold, row.type)))


def _wilson(correct: int, tried: int) -> tuple[float, float]:
    from scipy.stats import binomtest  # noqa: PLC0415 (slow to import)

    if not tried:
        return 0.0, 1.0
    found = binomtest(correct, tried).proportion_ci(method="wilson")
    return float(found.low), float(found.high)


def _repaired(
    tagger: Tagger[Any],
    corpus: Corpus,
    tape: str,
    gold: Sequence[Sequence[str]],
    found: Sequence[Sequence[str]],
    *,
    threads: int,
    of_spans: bool,
    told: Callable[[float], None],
) -> Repair | None:
    free = tagger.without_grammar()
    if free is None:
        return None
    other, _ = _decided(free, corpus, tape, threads, told)
    changed = tuple(k for k, (a, b) in enumerate(zip(found, other, strict=True)) if a != b)
    with_it, without = (written_alike(gold, side)[0] for side in (found, other))
    right, before = (
        np.asarray(
            [w == s for a, b in zip(gold, side, strict=True) for w, s in zip(a, b, strict=True)]
        )
        for side in (with_it, without)
    )
    scores = [
        evaluate_spans(gold, side).f if of_spans else evaluate_tokens(gold, side).accuracy
        for side in (with_it, without)
    ]
    mended, spoilt = int((right & ~before).sum()), int((before & ~right).sum())
    return Repair(changed, mended, spoilt, *scores)
