"""Why a sentence has no legal label sequence, and what is to blame.

=============  ==========================================================================
Case           a sentence without a legal label sequence
no_path_error  where all have died, and of what: forced labels, grammar, or both together
=============  ==========================================================================
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from fstcrf.cli.forcing import Masks, forced
from fstcrf.errors import DataError, NoPathError, TooLargeError

if TYPE_CHECKING:
    from fstcrf.corpus import Corpus
    from fstcrf.joint import Composition
    from fstcrf.kernel import Budget

__all__ = ["Case", "no_path_error"]


@dataclass(frozen=True, slots=True)
class Case:
    """A sentence without a legal label sequence.

    Parameters
    ----------
    model : Composition
    sentence : Corpus
        It alone.
    known : Masks, optional
        Labels known beforehand.
    columns : mapping of str to str
        For a tape, the column that they are from.
    """

    model: Composition
    sentence: Corpus
    known: Masks | None
    columns: Mapping[str, str]

    def unforced(self) -> Case:
        """Return the same without the labels known beforehand."""
        return replace(self, known=None)

    def ungrammatical(self) -> Case:
        """Return the same without the grammar."""
        return replace(self, model=replace(self.model, conjuncts=()))

    def only(self, tape: str) -> Case:
        """Return the same with the labels known of one tape alone."""
        pairs = zip(self.model.tapes, self.known or (), strict=True)
        return replace(self, known=tuple(m if t == tape else m | True for t, m in pairs))

    def death(self, budget: Budget | None) -> NoPathError | None:
        """Return how the label sequences die; None where one is legal, or nobody knows."""
        model = replace(self.model, normalize="product")
        known = None if self.known is None else [self.known]
        try:
            forced(model.lattices(self.sentence), known)[0].best(budget)
        except NoPathError as error:
            return error
        except TooLargeError:  # a chain is not expanded
            return None
        return None


def no_path_error(case: Case, budget: Budget | None) -> NoPathError:
    """Return the error that says why, with file and line of the first token that is to blame."""
    from fstcrf.grammar import listed_names

    blamed, fault = _blamed(case, budget)
    error = blamed.death(budget)
    why, names = "no label sequence is legal from here on", tuple[str, ...]()
    position = 0
    if error is not None:
        position, names = error.position or 0, error.constraints
        if names:
            why += f" under {listed_names(names)}" + " together" * (len(names) > 1)
        elif error.position is None:
            why, fault = str(error), ""
    place = case.sentence.where(position)
    where = DataError(f"{fault}{why}; --on-no-path skip or relax goes on", **place)
    return NoPathError(str(where), constraints=names)


def _blamed(case: Case, budget: Budget | None) -> tuple[Case, str]:
    """Return what dies by itself already, and words for it, found out by trying each alone."""
    if case.known is None:
        return case, ""
    by_labels, by_grammar = case.ungrammatical(), case.unforced()
    labels_die = by_labels.death(budget) is not None
    grammar_dies = by_grammar.death(budget) is not None
    rules = "the grammar" if case.model.conjuncts else "the scheme of the tagger"
    if labels_die and grammar_dies and case.model.conjuncts:
        return case, f"{_columns(by_labels, budget)} and {rules} are to blame, each by itself: "
    if grammar_dies:
        return by_grammar, f"{rules} alone is to blame, whatever is forced: "
    if labels_die:
        fault = f"{_columns(by_labels, budget)} alone, which the scheme of the tagger forbids: "
        return by_labels, fault
    return case, f"{_columns(case, budget)} and {rules} are to blame, but only together: "


def _columns(case: Case, budget: Budget | None) -> str:
    """Name the columns of forced labels; of several those that by themselves leave no path."""
    tapes = list(case.columns)
    alone = [t for t in tapes if len(tapes) > 1 and case.only(t).death(budget) is not None]
    names = " and ".join(repr(case.columns[t]) for t in alone or tapes)
    plural = "s" if len(alone or tapes) > 1 else ""
    return f"the labels forced by column{plural} {names}"
