"""The best labels of sentences, with what is known beforehand, and what to do where none are legal.

=============  ======================================================================
Search         what is searched for, and what is known beforehand
search_budget  when to give up on a sentence, from options
Counts         sentences that were not answered as asked, by what became of them
Answer         the best paths of a sentence, and what gives their probabilities
answered       answer sentences; give up the grammar, then what is known, where wanted
searching      a block that says which sentences it works on where it takes long
=============  ======================================================================
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias, cast

from fstcrf.cli.failures import say
from fstcrf.cli.forcing import Masks, forced, known_labels
from fstcrf.cli.nopath import Case, no_path_error
from fstcrf.cli.waiting import place, working
from fstcrf.errors import NoPathError

if TYPE_CHECKING:
    from fstcrf.corpus import Corpus, Sentence
    from fstcrf.joint import Composition
    from fstcrf.joint.chainlattice import ChainLattice
    from fstcrf.kernel import Budget
    from fstcrf.lattice import Lattice, Path

__all__ = ["Answer", "Counts", "OnNoPath", "Search", "answered", "search_budget", "searching"]

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
        from fstcrf.lattice.shown import nbest_of_tapes

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
