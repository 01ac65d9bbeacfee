"""Labels known beforehand: what a column allows for each token.

============  ==========================================================
NOTHING       in a column: no label
Masks         labels that each token of a sentence may have
known_labels  the masks of the sentences of a batch
forced        lattices of the paths that they allow
============  ==========================================================
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias, cast

from fstcrf.cli.reporting import place, say, working
from fstcrf.errors import DataError, NoPathError, TooLargeError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from fstcrf.arrays import Bools
    from fstcrf.corpus import Corpus, Sentence
    from fstcrf.joint import Composition
    from fstcrf.joint.chainlattice import ChainLattice
    from fstcrf.kernel import Budget
    from fstcrf.lattice import Lattice, Path

__all__ = [
    "NOTHING",
    "Answer",
    "Case",
    "Counts",
    "Masks",
    "OnNoPath",
    "Search",
    "answered",
    "forced",
    "known_labels",
    "no_path_error",
    "search_budget",
    "searching",
]

Masks: TypeAlias = "tuple[NDArray[np.bool_], ...]"
"""Labels that each token of a sentence may have, bool [T, L] for each tape."""

NOTHING = "_"
"""In a column: no label, no span that starts here."""


def known_labels(model: Composition, batch: Corpus, force: Mapping[str, str]) -> list[Masks]:
    """Return the labels that the columns allow for each token of each sentence."""
    import numpy as np

    parts = [
        _allowed(batch, force[tape], model.label_sets[tape])
        if tape in force
        else np.ones((batch.n_tokens, len(model.label_sets[tape])), dtype=np.bool_)
        for tape in model.tapes
    ]
    bounds = itertools.pairwise(batch.offsets.tolist())
    return [tuple(part[a:b] for part in parts) for a, b in bounds]


def forced(lattices: list[Lattice], known: Sequence[Masks] | None) -> list[Lattice]:
    """Return the lattices of the paths that masks allow; all paths without masks."""
    if known is None:
        return lattices
    return [
        lattice.restrict(masks if len(masks) > 1 else masks[0])
        for lattice, masks in zip(lattices, known, strict=True)
    ]


def _allowed(batch: Corpus, name: str, labels: Sequence[str]) -> Bools:
    """Return the labels that a column allows, bool [N, L].

    Raises
    ------
    DataError
        A string that is neither label, nor ``a|b``, nor ``_``.
    """
    import numpy as np

    column = batch.column(name)
    allowed = np.zeros((len(column.values), len(labels)), dtype=np.bool_)
    index = {label: k for k, label in enumerate(labels)}
    for number, value in enumerate(column.values):
        parts = [value] if value in index else value.split("|")
        if value == NOTHING:
            allowed[number] = True
        elif all(part in index for part in parts):
            allowed[number, [index[part] for part in parts]] = True
        elif len(tokens := np.flatnonzero(column.ids == number)):
            raise DataError(
                f"{value!r} in column {name!r} is no label of the model; the labels are "
                f"{' '.join(labels)}, and _ where none is known",
                **batch.where(int(tokens[0])),
            )
    return allowed[column.ids]


# --- Why a sentence has no legal label sequence ---------------------------------------------------


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


# --- The best labels of sentences -----------------------------------------------------------------

_LONG = 10.0
"""Seconds after which something is said of a search."""
_AT_ONCE = 1e-6
"""Seconds of a search for which no time is left."""

OnNoPath: TypeAlias = Literal["error", "skip", "relax"]


@dataclass(frozen=True, slots=True)
class Search:
    """What is searched for, and what is known beforehand.

    Parameters
    ----------
    n : int
        How many paths.
    force : mapping of str to str
        For a tape, the column with its labels known beforehand.
    bias : mapping of str to float
        Added to the potential of a label of the only tape everywhere.
    on_no_path : {"error", "skip", "relax"}
        What to do where no label sequence is legal.
    budget : Budget, optional
        When to give up on a sentence that is searched.
    threads : int
    tapes : tuple of str, optional
        The paths differ in these tapes; each stands for all that have its labels there.
    """

    n: int = 1
    force: Mapping[str, str] = field(default_factory=dict)
    bias: Mapping[str, float] = field(default_factory=dict)
    on_no_path: OnNoPath = "error"
    budget: Budget | None = None
    threads: int = 1
    tapes: tuple[str, ...] | None = None


def search_budget(states: int | None, seconds: float | None) -> Budget | None:
    """Return when to give up on a sentence; None where no option says so."""
    from fstcrf.kernel import Budget

    if states is None and seconds is None:
        return None
    return Budget(seconds=seconds) if states is None else Budget(states, seconds)


@dataclass(slots=True)
class Counts:
    """Sentences that were not answered as asked, by what became of them.

    Parameters
    ----------
    skipped : int
        Without a legal label sequence.
    ungrammatical : int
        Answered without the grammar.
    unforced : int
        Answered without the labels known beforehand.
    free : int
        Answered without either.
    inexact : int
        Whose answer is the best found, not proven to be the best.
    """

    skipped: int = 0
    ungrammatical: int = 0
    unforced: int = 0
    free: int = 0
    inexact: int = 0

    def report(self) -> None:
        """Say on standard error how many there were."""
        for number, what in (
            (self.skipped, "tagged _: no label sequence is legal"),
            (self.ungrammatical, "tagged without the grammar: with it no label sequence is legal"),
            (self.unforced, "tagged without the forced labels, which no legal sequence has"),
            (self.free, "tagged without the grammar and the forced labels"),
            (self.inexact, "tagged with the best labels found, not proven to be the best"),
        ):
            if number:
                say(f"{number} sentence{'s' if number > 1 else ''} {what}")


@dataclass(frozen=True, slots=True)
class Answer:
    """The best paths of a sentence.

    Parameters
    ----------
    paths : tuple of Path
        Best first; none where no label sequence is legal.
    lattice : Lattice, optional
        The distribution that they are from; a chain of tapes has none.
    """

    paths: tuple[Path, ...] = ()
    lattice: Lattice | None = None


class _Attempt(NamedTuple):
    """A model and what is known; what of it was given up."""

    model: Composition
    known: list[Masks] | None
    gave_up: str | None = None


def answered(model: Composition, batch: Corpus, search: Search, counts: Counts) -> list[Answer]:
    """Answer the sentences of a batch.

    Raises
    ------
    DataError
        A label known beforehand that the model does not have; names file and line.
    NoPathError
        A sentence has no legal label sequence, and `search` does not say what to do.
    """
    found = [Answer()] * len(batch)
    waiting = list(range(len(batch)))
    for attempt in _attempts(model, batch, search):
        chosen = batch if len(waiting) == len(batch) else batch.select(waiting)
        known = None if attempt.known is None else [attempt.known[i] for i in waiting]
        answers = _search(attempt.model, chosen, known, search)
        for i, answer in zip(waiting, answers, strict=True):
            found[i] = answer
        dead = [i for i in waiting if not found[i].paths]
        if attempt.gave_up is not None:
            solved = len(waiting) - len(dead)
            setattr(counts, attempt.gave_up, getattr(counts, attempt.gave_up) + solved)
        waiting = dead
        if not waiting:
            break
        if search.on_no_path == "error":
            masks = None if attempt.known is None else attempt.known[waiting[0]]
            case = Case(attempt.model, batch.select(waiting[:1]), masks, search.force)
            raise no_path_error(case, search.budget)
    counts.skipped += len(waiting)
    counts.inexact += sum(any(not path.exact for path in answer.paths) for answer in found)
    return found


def _attempts(model: Composition, batch: Corpus, search: Search) -> Iterator[_Attempt]:
    """Yield the model with all that is asked, then with less and less of it."""
    known = known_labels(model, batch, search.force) if search.force else None
    yield _Attempt(model, known)
    if search.on_no_path != "relax":
        return
    free = replace(model, conjuncts=())
    if model.conjuncts:
        yield _Attempt(free, known, "ungrammatical")
    if known is not None:
        yield _Attempt(model, None, "unforced")
    if model.conjuncts and known is not None:
        yield _Attempt(free, None, "free")


# --- One attempt ----------------------------------------------------------------------------------


def _search(
    model: Composition, batch: Corpus, known: Sequence[Masks] | None, search: Search
) -> list[Answer]:
    if model.conditional and (search.n > 1 or search.tapes):
        return list(_chained(model, batch, search))
    with searching(model, batch):
        return _found(model, batch, known, search)


@contextmanager
def searching(model: Composition, batch: Corpus) -> Iterator[None]:
    """Say that a batch is being worked on, where best paths are searched and that takes long."""
    if len(batch) and (model.conditional or model.program.decoder.lazy):
        with working(place(batch)):
            yield
    else:
        yield


def _found(
    model: Composition, batch: Corpus, known: Sequence[Masks] | None, search: Search
) -> list[Answer]:
    if model.conditional:
        paths = model.paths_all(batch, threads=search.threads, budget=search.budget)
        return [Answer(() if path is None else (path,)) for path in paths]
    from fstcrf.lattice import best, nbest

    lattices = _lattices(model, batch, known, search)
    ranked: list[tuple[Path, ...]]
    if search.tapes is not None:
        from fstcrf.lattice.paths import nbest_of_tapes

        some = nbest_of_tapes(
            lattices, search.n, search.tapes, threads=search.threads, budget=search.budget
        )
        ranked = [tuple(paths) for paths in some]
    elif search.n == 1:
        found = best(lattices, threads=search.threads, budget=search.budget)
        ranked = [() if path is None else (path,) for path in found]
    else:
        several = nbest(lattices, search.n, threads=search.threads, budget=search.budget)
        ranked = [tuple(paths) for paths in several]
    return [Answer(*pair) for pair in zip(ranked, lattices, strict=True)]


def _chained(model: Composition, batch: Corpus, search: Search) -> Iterator[Answer]:
    """Yield the best labellings of each sentence by a chain; the time is that of the batch."""
    started = time.monotonic()
    for number, sentence in _patiently(batch):
        budget = search.budget
        if budget is not None and budget.seconds is not None:
            left = budget.seconds - (time.monotonic() - started)
            budget = replace(budget, seconds=max(left, _AT_ONCE))
        lattice = cast("ChainLattice", model.lattice(sentence))
        with working(place(batch, number)):
            try:
                yield Answer(tuple(lattice.nbest(search.n, budget=budget, tapes=search.tapes)))
            except NoPathError:
                yield Answer()


def _patiently(batch: Corpus) -> Iterator[tuple[int, Sentence]]:
    """Yield the sentences; say once that there is a shorter search, where it is a long one."""
    started, told = time.monotonic(), False
    for number, sentence in enumerate(batch):
        if not told and time.monotonic() - started > _LONG:
            say(
                f"{number} of {len(batch)} sentences so far: the n best of a chain take long; "
                "--max-states N looks at fewer labellings"
            )
            told = True
        yield number, sentence


def _lattices(
    model: Composition, batch: Corpus, known: Sequence[Masks] | None, search: Search
) -> list[Lattice]:
    lattices = forced(model.lattices(batch), known)
    return _biased(lattices, search.bias) if search.bias else lattices


def _biased(lattices: list[Lattice], bias: Mapping[str, float]) -> list[Lattice]:
    """Add to the potential of some labels everywhere."""
    import numpy as np

    program = lattices[0].program
    topology = program.chains[0].topology
    added = np.zeros(topology.n_labels)
    added[topology.label_ids(list(bias))] = list(bias.values())
    k = lattices[0].state_potentials(program.tapes[0])
    states = added[topology.state_label]
    return [lattice.with_values({k: lattice.values[k] + states}) for lattice in lattices]
