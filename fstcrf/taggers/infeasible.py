"""Sentences without a legal label sequence: the cause, and answers under fewer restrictions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from fstcrf.arrays import Longs
from fstcrf.errors import NoPathError, TooLargeError
from fstcrf.lattices.answer import Answer, Change
from fstcrf.taggers.evidence import Forced, Request
from fstcrf.text.corpus import Corpus
from fstcrf.text.sentences import Data, SentenceLike

if TYPE_CHECKING:
    from fstcrf.kernel import Budget
    from fstcrf.taggers.tagger import Tagger


@dataclass(frozen=True, slots=True)
class _Case:
    """A sentence without a legal label sequence, its tagger and its forced labels."""

    tagger: Tagger
    sentence: Data
    forced: Mapping[str, Any] | None
    budget: Budget | None
    columns: Mapping[str, str] = field(default_factory=dict)

    def error(
        self, *, grammar: bool = True, tapes: Sequence[str] | None = None
    ) -> NoPathError | None:
        """Decode the sentence and return the error; None if there is a path or too many states.

        The grammar, and the forced labels of all other tapes, can be left out.
        """
        tagger = self.tagger if grammar else self.tagger.without_grammar() or self.tagger
        labels = self.forced
        if labels is not None and tapes is not None:
            labels = {tape: row for tape, row in labels.items() if tape in tapes} or None
        forced = [labels] if labels is not None else None
        try:
            transducer = tagger._as_transducer()
            transducer._decode(Request(self.sentence, forced=forced, budget=self.budget))
        except NoPathError as error:
            return error
        except TooLargeError:  # a chain is not expanded
            return None
        return None

    def cause(self) -> tuple[NoPathError | None, str]:
        """Return the error of the smallest cause: labels, grammar or both; and its description."""
        if self.forced is None:
            return self.error(), ""
        has_grammar = self.tagger.without_grammar() is not None
        rules = "the grammar" if has_grammar else "the scheme of the tagger"
        by_labels, by_grammar = self.error(grammar=False), self.error(tapes=())
        if by_labels and by_grammar and has_grammar:
            words = f"{self._labels(grammar=False)} and {rules} are to blame, each by itself"
            return self.error(), words
        if by_grammar:
            return by_grammar, f"{rules} alone is to blame, whatever is forced"
        if by_labels:
            words = f"{self._labels(grammar=False)} alone, which the scheme of the tagger forbids"
            return by_labels, words
        words = f"{self._labels(grammar=True)} and {rules} are to blame, but only together"
        return self.error(), words

    def _labels(self, *, grammar: bool) -> str:
        """Describe the forced labels, if possible only the tapes that leave no path."""
        tapes = list(self.forced or ())
        causes = [t for t in tapes if self.error(grammar=grammar, tapes=[t])]
        named = causes if len(tapes) > 1 and causes else tapes
        noun, names = ("column", self.columns) if self.columns else ("tape", {})
        plural = "s" if len(named) > 1 else ""
        shown = " and ".join(repr(names.get(tape, tape)) for tape in named)
        return f"the labels forced by {noun}{plural} {shown}"


def explained(
    error: NoPathError, tagger: Tagger, request: Request, columns: Mapping[str, str]
) -> NoPathError:
    """Return an error that names the token without a legal label, and the cause."""
    if error.sentence is None:
        return error
    forced: Any = None if request.forced is None else request.forced[error.sentence]
    if forced is not None and not isinstance(forced, Mapping):
        forced = {tagger.tapes[0]: forced}
    sentence = selected(request.sentences, np.asarray([error.sentence]))
    cause, blame = _Case(tagger, sentence, forced, request.budget, columns).cause()
    why = error if cause is None else cause
    return NoPathError(
        why.reason,
        position=why.position,
        sentence=error.sentence,
        constraints=why.constraints,
        blame="" if cause is None or cause.position is None else blame,
    )


def relaxed(answer: Answer, tagger: Tagger, request: Request) -> Answer:
    """Return an answer whose sentences without a path are decoded under fewer restrictions."""
    for freer, forced, change in _relaxations(tagger, request.forced):
        dead = np.flatnonzero(answer.dead)
        sentences = selected(request.sentences, dead)
        labels = None if forced is None else [forced[i] for i in dead.tolist()]
        again = replace(request, sentences=sentences, forced=labels, probabilities=False)
        answer = answer.with_part(dead, freer._decode(again), change)
    return answer


def _relaxations(
    tagger: Tagger, forced: Sequence[Forced | None] | None
) -> Iterator[tuple[Tagger, Sequence[Forced | None] | None, Change]]:
    """Yield a tagger and forced labels with fewer and fewer restrictions."""
    unconstrained = tagger.without_grammar()
    if unconstrained is not None:
        yield unconstrained, forced, "grammar"
    if forced is not None:
        yield tagger, None, "forced"
    if unconstrained is not None and forced is not None:
        yield unconstrained, None, "both"


def selected(sentences: Data, numbers: Longs) -> Data:
    """Return the sentences with these numbers."""
    if isinstance(sentences, Corpus):
        return sentences.select(numbers)
    return [cast("SentenceLike", sentences[i]) for i in numbers.tolist()]
