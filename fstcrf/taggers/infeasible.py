"""Why a sentence has no legal label sequence, and what it has with less known."""

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
    """A sentence without a legal label sequence: what decides it, and what is known of it."""

    tagger: Tagger
    sentence: Data
    forced: Mapping[str, Any] | None
    budget: Budget | None
    columns: Mapping[str, str] = field(default_factory=dict)

    def death(self, *, grammar: bool = True, tapes: Sequence[str] | None = None) -> Any:
        """Return how label sequences die; None where one is legal, or nobody knows.

        Without the grammar, or with the labels known of some tapes alone, where that is asked.
        """
        tagger = self.tagger if grammar else self.tagger.without_grammar() or self.tagger
        known = self.forced
        if known is not None and tapes is not None:
            known = {tape: labels for tape, labels in known.items() if tape in tapes} or None
        forced = [known] if known is not None else None
        try:
            whole = tagger.as_transducer()
            whole.decoded(Request(self.sentence, forced=forced, budget=self.budget))
        except NoPathError as error:
            return error
        except TooLargeError:  # a chain is not expanded
            return None
        return None

    def blamed(self) -> tuple[NoPathError | None, str]:
        """Return how what dies by itself already does so, and words for it."""
        if self.forced is None:
            return self.death(), ""
        ruled = self.tagger.without_grammar() is not None
        rules = "the grammar" if ruled else "the scheme of the tagger"
        labels_die, grammar_dies = self.death(grammar=False), self.death(tapes=())
        if labels_die and grammar_dies and ruled:
            words = f"{self._labels(grammar=False)} and {rules} are to blame, each by itself"
            return self.death(), words
        if grammar_dies:
            return grammar_dies, f"{rules} alone is to blame, whatever is forced"
        if labels_die:
            words = f"{self._labels(grammar=False)} alone, which the scheme of the tagger forbids"
            return labels_die, words
        words = f"{self._labels(grammar=True)} and {rules} are to blame, but only together"
        return self.death(), words

    def _labels(self, *, grammar: bool) -> str:
        """Name the forced labels; of several tapes those that by themselves leave no path."""
        tapes = list(self.forced or ())
        alone = [t for t in tapes if self.death(grammar=grammar, tapes=[t])]
        named = alone if len(tapes) > 1 and alone else tapes
        what, names = ("column", self.columns) if self.columns else ("tape", {})
        plural = "s" if len(named) > 1 else ""
        shown = " and ".join(repr(names.get(tape, tape)) for tape in named)
        return f"the labels forced by {what}{plural} {shown}"


def explained(
    error: NoPathError, tagger: Tagger, asked: Request, columns: Mapping[str, str]
) -> NoPathError:
    """Return the error with the token where all has died, and with what is to blame for it."""
    if error.sentence is None:
        return error
    known: Any = None if asked.forced is None else asked.forced[error.sentence]
    if known is not None and not isinstance(known, Mapping):
        known = {tagger.tapes[0]: known}
    one = selected(asked.sentences, np.asarray([error.sentence]))
    death, blame = _Case(tagger, one, known, asked.budget, columns).blamed()
    why = error if death is None else death
    return NoPathError(
        why.reason,
        position=why.position,
        sentence=error.sentence,
        constraints=why.constraints,
        blame="" if death is None or death.position is None else blame,
    )


def relaxed(answer: Answer, tagger: Tagger, asked: Request) -> Answer:
    """Return an answer in which sentences without a path are asked about again, with less known."""
    for other, known, change in _with_less(tagger, asked.forced):
        where = np.flatnonzero(answer.dead)
        some = selected(asked.sentences, where)
        mine = None if known is None else [known[i] for i in where.tolist()]
        part = other.decoded(replace(asked, sentences=some, forced=mine, probabilities=False))
        answer = answer.with_part(where, part, change)
    return answer


def _with_less(
    tagger: Tagger, forced: Sequence[Forced | None] | None
) -> Iterator[tuple[Tagger, Sequence[Forced | None] | None, Change]]:
    """Yield a tagger and what is known, with less and less of it."""
    free = tagger.without_grammar()
    if free is not None:
        yield free, forced, "grammar"
    if forced is not None:
        yield tagger, None, "forced"
    if free is not None and forced is not None:
        yield free, None, "both"


def selected(sentences: Data, where: Longs) -> Data:
    """Return some sentences, by their numbers."""
    if isinstance(sentences, Corpus):
        return sentences.select(where)
    return [cast("SentenceLike", sentences[i]) for i in where.tolist()]
