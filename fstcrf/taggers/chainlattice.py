"""Corpora decoded by the chain rule, run by run: the runs do not depend on the threads.

=================  ==========================================================
decide             the best labels of each sentence
paths              the same with scores and probabilities
solved_runs        what both are made from
log_probabilities  of labellings, whatever weights and grammar are
no_path            the error of a sentence for which nothing legal was found
=================  ==========================================================
"""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import NoReturn

import numpy as np

from fstcrf import display, kernel
from fstcrf.arguments import whole_number
from fstcrf.arrays import Floats, Ints
from fstcrf.errors import NoPathError, OptionError, ShapeError
from fstcrf.files import write_picture
from fstcrf.kernel import Budget
from fstcrf.lattices import Answer, Lattice, Path, drawings
from fstcrf.lattices.answer import Labels, labels_of_tapes, shown_tapes
from fstcrf.machines import pictures
from fstcrf.machines.grammar import Grammar
from fstcrf.machines.plans import no_path_error, warn_unproven
from fstcrf.ragged import Ragged
from fstcrf.taggers.batches import as_corpus, check_empty, lattices, with_tokens
from fstcrf.taggers.chain import Solver
from fstcrf.taggers.jointmodel import WIDE_BUDGET, JointModel, budget_of
from fstcrf.taggers.known import Known
from fstcrf.taggers.model.reading import Data, Run, SentenceLike, answered, runs_of
from fstcrf.taggers.stages import Solved, possible_lengths, repeated, with_tape
from fstcrf.text.corpus import Column, Corpus

__all__ = [
    "ChainLattice",
    "decide",
    "lattice_of",
    "log_probabilities",
    "no_path",
    "paths",
    "rank",
    "solved_runs",
]


_RUN_TOKENS = 100_000
_AT_ONCE = 1e-6
"""Seconds of a search for which no time is left."""


def decide(
    composition: JointModel, sentences: Data, *, threads: int = 1, budget: Budget | None = None
) -> tuple[list[int], tuple[Column, ...], int]:
    """Return lengths, a column of labels for each tape, and the number of answers not proven.

    Raises
    ------
    NoPathError
        No labelling of a sentence is legal.
    """
    lengths, solver, runs = solved_runs(composition, sentences, threads, budget, scored=False)
    inexact = 0
    check_empty(composition, lengths)
    for run, _, solved in runs:
        for k in np.flatnonzero(np.isneginf(solved.total)).tolist()[:1]:
            number = int(np.flatnonzero(lengths)[run.first + k])
            raise no_path(solver, solved.bound[k], number)
        inexact += int((solved.bound > solved.total).sum())
    columns = []
    for tagger in composition.taggers:
        parts = [solved.labels[solver.order.index(tagger.tape)] for *_, solved in runs]
        ids = np.concatenate([np.empty(0, dtype=np.int32), *parts])
        columns.append(Column(ids.astype(np.int32), tagger.labels))
    return lengths, tuple(columns), inexact


def no_path(solver: Solver, bound: float, sentence: int | None) -> NoPathError:
    """Return the error of a sentence for which nothing legal was found."""
    if bound == -np.inf:
        return NoPathError("no labelling is legal", sentence=sentence)
    return NoPathError(
        f"none of the {solver.budget} best labellings of tape {solver.order[0]!r} has a legal "
        "completion; give a larger budget",
        sentence=sentence,
    )


def solved_runs(
    composition: JointModel,
    sentences: Data,
    threads: int,
    budget: Budget | None,
    known: Known | None = None,
    *,
    scored: bool = True,
) -> tuple[list[int], Solver, list[tuple[Run, Corpus, Solved]]]:
    """Decode run by run; the runs do not depend on the threads."""
    solver = Solver(composition, budget, known, scored=scored)
    lengths, corpus = with_tokens(as_corpus(composition, sentences))
    corpus = _told(composition, known, lengths, corpus)
    several = runs_of([length for length in lengths if length], _RUN_TOKENS)

    def of_run(run: Run) -> tuple[Run, Corpus, Solved]:
        whole = run.end - run.first == len(corpus)
        mine = corpus if whole else corpus.select(np.arange(run.first, run.end))
        return run, mine, solver.best(mine)

    return lengths, solver, answered(several, of_run, threads)


def paths(
    composition: JointModel,
    sentences: Data,
    *,
    known: Known | None = None,
    threads: int = 1,
    budget: Budget | None = None,
) -> list[Path | None]:
    """Return the best labelling of each sentence; None without a legal one."""
    lengths, solver, runs = solved_runs(composition, sentences, threads, budget, known)
    found: list[Path | None] = []
    for run, corpus, solved in runs:
        log_p = log_probabilities(solver, corpus, solved)
        for b, (first, end) in enumerate(itertools.pairwise(run.offsets.tolist())):
            total, bound = float(solved.total[b]), float(solved.bound[b])
            if total == -np.inf:
                found.append(None)
                continue
            ids = [solved.labels[solver.order.index(t.tape)] for t in composition.taggers]
            labels = tuple(
                tuple([tagger.labels[i] for i in mine[first:end].tolist()])
                for tagger, mine in zip(composition.taggers, ids, strict=True)
            )
            probability = float(min(1.0, np.exp(log_p[b])))
            found.append(Path(labels, total, probability, bound <= total, bound))
    full = iter(found)
    shown = tuple(() for _ in composition.taggers)
    return [
        next(full) if n else next(iter(_empty_paths(composition, shown)), None) for n in lengths
    ]


def _empty_paths(composition: JointModel, labels: Labels) -> list[Path]:
    """Return the only path of a sentence without tokens; [] where the grammar refuses it."""
    score = composition.program.empty_score
    return [Path(labels, score, 1.0, exact=True, bound=score)] if score > -np.inf else []


def rank(
    composition: JointModel,
    sentences: Data,
    n: int = 1,
    *,
    known: Known | None = None,
    threads: int = 1,
    budget: Budget | None = None,
    strict: bool = True,
    tapes: Sequence[str] | None = None,
    scores: bool = True,
) -> Answer:
    """Return the n best labellings of each sentence; those that are not proven are not warned of.

    Without `scores`, those of one labelling, its bound and probability are of no scale.

    Several labellings, and those of some tapes, are searched sentence by sentence, and share the
    budget's time. NoPathError where a sentence has none, where that is `strict`.
    """
    if n == 1 and tapes is None:
        return _best(composition, sentences, known, threads, budget, strict=strict, scores=scores)
    started = time.monotonic()
    ranked: list[list[Path]] = []
    lengths: list[int] = []
    for number, sentence in enumerate(sentences):
        if budget is not None and budget.seconds is not None:
            left = budget.seconds - (time.monotonic() - started)
            budget = replace(budget, seconds=max(left, _AT_ONCE))
            started = time.monotonic()
        mine = None if known is None else known.of_sentence(number)
        lattice = ChainLattice(composition, sentence, mine)
        ranked.append(lattice.nbest(n, budget=budget, tapes=tapes))
        lengths.append(len(lattice))
        if strict and not ranked[-1]:
            raise lattice.no_path(budget, number)
    sets = {tape: composition.label_sets[tape] for tape in tapes or composition.tapes}
    return Answer.of_paths(ranked, sets, lengths, n)


def _best(
    composition: JointModel,
    sentences: Data,
    known: Known | None,
    threads: int,
    budget: Budget | None,
    *,
    strict: bool,
    scores: bool,
) -> Answer:
    lengths, solver, runs = solved_runs(
        composition, sentences, threads, budget, known, scored=scores
    )
    full = np.asarray(lengths) > 0
    total = np.zeros(len(lengths))
    if not full.all():
        total[~full] = composition.program.empty_score
    bound = total.copy()
    total[full] = np.concatenate([np.empty(0), *(solved.total for *_, solved in runs)])
    bound[full] = np.concatenate([np.empty(0), *(solved.bound for *_, solved in runs)])
    dead = np.flatnonzero(np.isneginf(total))
    if strict and len(dead):
        if not full[dead[0]]:
            check_empty(composition, lengths)
        raise no_path(solver, bound[dead[0]], int(dead[0]))

    def probabilities() -> Floats:
        log_p = np.where(np.isneginf(total), -np.inf, 0.0)
        parts = [log_probabilities(solver, corpus, solved) for _, corpus, solved in runs]
        log_p[full] = np.concatenate([np.empty(0), *parts])
        return np.minimum(1.0, np.exp(log_p))

    flat = {}
    for tape in composition.tapes:
        parts = [solved.labels[solver.order.index(tape)] for *_, solved in runs]
        flat[tape] = np.concatenate([np.empty(0, np.int32), *parts]).astype(np.int32)[None]
    return Answer(
        flat,
        composition.label_sets,
        Ragged.from_lengths(lengths).offsets,
        scores=total,
        probabilities=probabilities,
        exact=bound <= total,
        bounds=bound,
    )


def log_probabilities(solver: Solver, corpus: Corpus, solved: Solved) -> Floats:
    """Return log probabilities, without weights, grammar and biases, float64 [B]."""
    plain = all(weight == 1.0 for weight in solver.composition.weights)
    plain = plain and not solver.known.bias
    if plain and not any(acceptor.weighted for acceptor in solver.composition.conjuncts):
        return solved.total
    legal = np.flatnonzero(solved.total > -np.inf)
    found = np.full(len(corpus), -np.inf)
    if len(legal):
        tokens = repeated(corpus.offsets, legal)
        ids = {t: mine[tokens] for t, mine in zip(solver.order, solved.labels, strict=True)}
        found[legal] = solver.score(corpus.select(legal), ids, plain=True)
    return found


# --- One sentence under the chain rule ------------------------------------------------------------


_Ranked = tuple[float, list[Ints]]
"""The score of a labelling, and its labels, tape by tape in the order of the chain."""


class ChainLattice:
    """One sentence under ``normalize="chain"``; made by `Composition.lattice`.

    Parameters
    ----------
    composition : JointModel
    sentence : as for `Composition.tag`
    known : Known, optional
        Labels that are known, and biases.
    """

    def __init__(
        self, composition: JointModel, sentence: SentenceLike, known: Known | None = None
    ) -> None:
        self.composition, self._sentence, self._known = composition, sentence, known
        lengths, corpus = with_tokens(as_corpus(composition, [sentence]))
        self._length = lengths[0]
        self._corpus = _told(composition, known, lengths, corpus)
        self._order = Solver(composition).order

    def __repr__(self) -> str:
        return f"<ChainLattice: {len(self)} tokens, {' · '.join(self._order)}>"

    def _repr_html_(self) -> str:
        """Return the marginals of the first tape for notebooks, the likeliest labels marked."""
        first = self._order[0]
        labels, shares = self.composition.label_sets[first], self.marginals(first)
        likeliest = [labels[i] for i in shares.argmax(axis=1).tolist()]
        return display.picture(
            display.heading(repr(self)),
            display.heat_map(first, labels, shares, likeliest),
            display.note("further tapes: best(), nbest(n), samples"),
        )

    def __len__(self) -> int:
        return self._length

    @property
    def tapes(self) -> tuple[str, ...]:
        """Names of the tapes."""
        return self.composition.tapes

    @property
    def labels(self) -> tuple[tuple[str, ...], ...]:
        """The labels of each tape."""
        return tuple(tagger.labels for tagger in self.composition.taggers)

    def best(self, *, budget: int | Budget | None = None) -> Path:
        """Return the best labelling.

        Parameters
        ----------
        budget : int or Budget, optional
            Labellings of a tape to look at; as for `Composition.decide`. Where it ends the search,
            the path is the best one found, ``exact=False``, ``bound`` says what could still be
            better, and there is an `InexactWarning`.

        Raises
        ------
        NoPathError
            No labelling is legal.
        """
        (found,) = self._paths(budget)
        if found is None:
            raise self.no_path(budget_of(budget), None)
        return found

    def no_path(self, budget: Budget | None, sentence: int | None) -> NoPathError:
        """Return the error of a sentence for which nothing legal was found, by its number."""
        if not len(self):
            return no_path_error(self.composition.program, [np.empty(0)], sentence=sentence)
        solver = self._solver(budget)
        return no_path(solver, solver.best(self._corpus).bound[0], sentence)

    def _solver(self, budget: Budget | None = None) -> Solver:
        return Solver(self.composition, budget, self._known)

    def nbest(
        self,
        n: int,
        *,
        budget: int | Budget | None = None,
        tapes: Sequence[str] | None = None,
    ) -> list[Path]:
        """Return the n best labellings, best first; `budget` and `Path` as for `best`.

        A path is exact where no labelling that is not among them scores higher.

        Parameters
        ----------
        n : int
        budget : int
        tapes : sequence of str, optional
            The n best labellings of these tapes alone: they differ in these tapes, the score of
            each is that of its best labelling of all tapes. Its probability is summed over the
            other tapes where these are decided later; else it has no closed form and is NaN.

        Raises
        ------
        OptionError
            n below 1, or tapes that there are not.
        """
        shown = shown_tapes(self.tapes, self.tapes if tapes is None else tapes)
        if n < 1:
            raise OptionError(f"n is {n}, expected at least 1")
        if not len(self):
            return _empty_paths(self.composition, labels_of_tapes([() for _ in shown]))
        solver = self._solver(budget_of(budget))
        if not possible_lengths(self.composition.skeleton, np.diff(self._corpus.offsets))[0]:
            return []
        size = max(solver.budget, WIDE_BUDGET if solver.usual else 1)
        found, bound = _ranked(solver, self._corpus, 0, n, size, frozenset(shown))
        if not found and bound > -np.inf:
            for path in self._paths(budget):
                if path is not None:
                    ids = self._ids(path.labels)
                    found = [(path.score, [ids[tape] for tape in self._order])]
        ranked = []
        for total, parts in found:
            ids = dict(zip(self._order, parts, strict=True))
            probability = self._shown_probability(solver, ids, shown)
            reach = max(bound, total)
            labels = dict(zip(self.tapes, self._named(ids), strict=True))
            own = labels_of_tapes([labels[tape] for tape in shown])
            ranked.append(Path(own, total, probability, bound <= total, reach))
        warn_unproven(int(any(not path.exact for path in ranked)), 1)
        return ranked

    def _shown_probability(
        self, solver: Solver, ids: dict[str, Ints], shown: tuple[str, ...]
    ) -> float:
        """Return the probability of the labels of some tapes; NaN where it has no closed form."""
        first = self._order[: len(shown)]
        if set(first) != set(shown):
            return float("nan")
        known = {tape: ids[tape] for tape in first}
        return float(min(1.0, np.exp(solver.score(self._corpus, known, plain=True)[0])))

    def log_partition(self) -> float:
        """Return log Z: 0, every factor is a probability; −inf where a tagger has no path.

        Raises
        ------
        OptionError
            Weights other than 1, or a grammar: the sum is not 1 then, and has no closed form.
        """
        self._check_plain("log Z")
        return 0.0 if len(self) else self.composition.program.empty_score

    def score(self, labels: Sequence[Sequence[str]]) -> float:
        """Return the log probability of a labelling (times weights, plus grammar scores).

        Raises
        ------
        ShapeError
            Another number of tapes, or of labels than tokens.
        LabelError
            A label that a tape does not have.
        """
        ids = self._ids(labels)
        if not len(self):
            return self.composition.program.empty_score
        return float(self._solver().score(self._corpus, ids)[0])

    def probability(self, labels: Sequence[Sequence[str]]) -> float:
        """Return the probability of a labelling, without weights and grammar; raises as `score`."""
        ids = self._ids(labels)
        if not len(self):
            return float(all(tagger.topology.empty for tagger in self.composition.taggers))
        log_p = self._solver().score(self._corpus, ids, plain=True)[0]
        return float(min(1.0, np.exp(log_p)))

    def sample(self, n: int, *, seed: int = 0) -> list[tuple[tuple[str, ...], ...]]:
        """Return n independent exact samples: of the first tape, of the second given it, ...

        Raises
        ------
        OptionError
            Weights other than 1, or a grammar; a negative n or seed.
        """
        self._check_plain("a sample")
        n, seed = whole_number(n, "n", narrow=True), whole_number(seed, "seed")
        size = len(self)
        if not n or not size:
            return [self._named({})] * n
        rng = np.random.default_rng(seed)
        corpus, ids = self._corpus.select([0] * n), {}
        for stage in self.composition.stages:
            bound = stage.free_bound(stage.given(corpus))
            path = kernel.sample_paths(bound, rng.random((1, n * size)))[0]
            mine = stage.tagger.topology.state_label[path]
            ids[stage.tagger.tape] = mine
            corpus = with_tape(corpus, stage.tagger, mine)
        return [
            self._named({tape: mine[a : a + size] for tape, mine in ids.items()})
            for a in range(0, n * size, size)
        ]

    def marginals(self, tape: str | None = None) -> Floats:
        """Return the probability of each label of the first tape at each token, float64 [T, L].

        Parameters
        ----------
        tape : str
            The first tape.

        Raises
        ------
        OptionError
            Another tape, or weights or a grammar: estimate those from samples.
        """
        if tape != self._order[0]:
            _sampling("marginals of a tape but the first", self._order[0])
        self._check_plain("marginals")
        stage = self.composition.stages[0]
        if not len(self):
            return np.empty((0, len(stage.tagger.labels)))
        found = kernel.axis_posterior(stage.free_bound(stage.given(self._corpus)))
        return stage.tagger.topology.label_sums(found.node[0])

    # --- What a chain does not have: sums over later tapes have no closed form --------------------

    def arc_marginals(self) -> NoReturn:
        """Raise OptionError: later tapes have no marginals but those of samples."""
        _sampling("arc_marginals", self._order[0])

    def max_marginals(self) -> NoReturn:
        """Raise OptionError: later tapes have no max-marginals."""
        _sampling("max_marginals", self._order[0])

    def entropy(self) -> NoReturn:
        """Raise OptionError: estimate it from samples."""
        _sampling("entropy", self._order[0])

    def span_probability(self, start: int, end: int, type: str) -> NoReturn:  # noqa: A002
        """Raise OptionError: estimate it from samples."""
        del start, end, type
        _sampling("span_probability", self._order[0])

    def probable_spans(self) -> NoReturn:
        """Raise OptionError: estimate them from samples."""
        _sampling("probable_spans", self._order[0])

    def minimum_risk(self) -> NoReturn:
        """Raise OptionError: estimate marginals from samples."""
        _sampling("minimum_risk", self._order[0])

    def restrict(self, mask: object) -> NoReturn:
        """Raise OptionError: `Composition.decode` takes known labels."""
        del mask
        _sampling("restrict", self._order[0])

    def scale(self, factor: float) -> NoReturn:
        """Raise OptionError: `Composition.with_weights` multiplies log probabilities."""
        del factor
        _sampling("scale", self._order[0])

    def weighted(self, factor: float) -> NoReturn:
        """Raise OptionError: `Composition.with_weights` multiplies log probabilities."""
        del factor
        _sampling("weighted", self._order[0])

    def to_fst(self) -> NoReturn:
        """Raise OptionError: it is no transducer."""
        _sampling("to_fst", self._order[0])

    def draw(
        self, path: str | os.PathLike[str] | None = None, *, tokens: Sequence[str] | None = None
    ) -> str:
        """Return a picture as SVG: the best labels of each tape, a table for each.

        Of the first tape, where its marginals are known, with the probability of each label.

        Parameters
        ----------
        path : str or Path, optional
            A file ``*.svg`` to write it to, too.
        tokens : sequence of str, optional
            What stands above the columns; their numbers when absent.

        Raises
        ------
        NoPathError
            No labelling is legal.
        ShapeError
            Another number of tokens.
        OptionError
            A file of another kind.
        OSError
            The file cannot be written.
        """
        names = [str(t) for t in range(len(self))] if tokens is None else list(tokens)
        if len(names) != len(self):
            raise ShapeError(f"{len(names)} tokens for a lattice of {len(self)}")
        best, first = self.best(), self._order[0]
        found: list[pictures.Table] = []
        for tape, known, mine in zip(self.tapes, self.labels, best.labels, strict=True):
            if tape == first and self._plain:
                rows = self.marginals(tape).tolist()
                found += pictures.probabilities(tape, known, names, rows, mine)
            else:
                found += drawings.best_tables(f"{tape}: the best labels", mine, names)
        title = f"Labels of {len(self)} tokens: {', '.join(self.tapes)}"
        return write_picture(pictures.tables(found, title), path)

    def plan(self) -> NoReturn:
        """Raise OptionError: ask `Composition.plan`."""
        _sampling("plan", self._order[0])

    def __and__(self, grammar: Grammar) -> ChainLattice:
        """Return the same sentence under one more grammar."""
        return ChainLattice(self.composition.under(grammar), self._sentence, self._known)

    def _paths(self, budget: int | Budget | None) -> list[Path | None]:
        limit = budget_of(budget)
        found = paths(self.composition, [self._sentence], budget=limit, known=self._known)
        warn_unproven(sum(path is not None and not path.exact for path in found), 1)
        return found

    def _ids(self, labels: Sequence[Sequence[str]]) -> dict[str, Ints]:
        if len(labels) != len(self.tapes) or any(len(part) != len(self) for part in labels):
            raise ShapeError(
                f"labels of {len(labels)} tapes, {[len(p) for p in labels]} long; expected "
                f"{len(self.tapes)} of {len(self)} tokens"
            )
        return {
            tagger.tape: tagger.topology.label_ids(part)
            for tagger, part in zip(self.composition.taggers, labels, strict=True)
        }

    def _named(self, ids: dict[str, Ints]) -> tuple[tuple[str, ...], ...]:
        return tuple(
            tuple([tagger.labels[i] for i in ids[tagger.tape].tolist()]) if ids else ()
            for tagger in self.composition.taggers
        )

    @property
    def _plain(self) -> bool:
        """Whether all factors are probabilities."""
        composition = self.composition
        free = self._known is None and not composition.conjuncts
        return free and all(weight == 1.0 for weight in composition.weights)

    def _check_plain(self, what: str) -> None:
        if not self._plain:
            raise OptionError(
                f"{what} of normalize='chain' needs weights of 1 and no grammar (nor known labels "
                "or biases): labellings do not sum to one otherwise. normalize='product' has it"
            )


def lattice_of(composition: JointModel, sentence: SentenceLike) -> Lattice | ChainLattice:
    """Return one sentence's weighted transducer over all tapes; a chain is none, but like one."""
    if composition.conditional:
        return ChainLattice(composition, sentence)
    return lattices(composition, [sentence])[0]


def _ranked(
    solver: Solver,
    corpus: Corpus,
    k: int,
    n: int,
    budget: int,
    shown: frozenset[str],
    least: float = -np.inf,
) -> tuple[list[_Ranked], float]:
    """Return the n best labellings of the tapes from k on, and a bound on what was not looked at.

    They differ in the tapes shown. Those that do not exceed `least` are not wanted: neither looked
    for nor in the bound. So many labellings are looked at as `budget` says.
    """
    stage = solver.stages[k]
    given = solver.given(k, corpus)
    normaliser = stage.weight * float(stage.log_z(given)[0])
    bound = stage.legal_bound(given)
    different = shown.intersection(solver.order[k:])
    n = n if different else 1
    if k == len(solver.stages) - 1:
        for some in kernel.growing(n):
            ranked = kernel.nbest_paths(bound, some)
            count = int(ranked.found[0])
            if count < some:
                break
        scores = (ranked.score[0, :count] - normaliser).tolist()
        last = [[stage.labels(path)] for path in ranked.path[:count]]
        return list(zip(scores, last, strict=True)), -np.inf
    gain = float(solver.gain(k, np.diff(corpus.offsets))[0])
    places = [j for j, tape in enumerate(solver.order[k:]) if tape in different]
    found: list[_Ranked] = []
    missed, seen, wanted = -np.inf, 0, min(max(2, n), budget)
    while True:
        ranked = kernel.nbest_paths(bound, wanted + 1)
        scores, left = ranked.score[0] - normaliser, max(n, budget // wanted)
        for number in range(seen, wanted):
            score, floor = float(scores[number]), max(_floor(found, n), least)
            if score + gain <= floor or score == -np.inf:
                return found, missed
            if number and solver.late:
                return found, max(score + gain, missed)
            ids = stage.labels(ranked.path[number])
            labelled = with_tape(corpus, stage.tagger, ids)
            inner, rest = _ranked(solver, labelled, k + 1, n, left, shown, floor - score)
            found += [(score + total, [ids, *tail]) for total, tail in inner]
            found = _different(found, places, n)
            missed = max(missed, score + rest)
        reach = float(scores[wanted] + gain)
        if reach <= max(_floor(found, n), least):
            return found, missed
        if wanted >= budget:
            return found, max(reach, missed)
        seen, wanted = wanted, min(2 * wanted, budget)


def _different(found: list[_Ranked], places: Sequence[int], n: int) -> list[_Ranked]:
    """Return the n best of those that differ at some places, best first."""
    best: dict[tuple[bytes, ...], _Ranked] = {}
    for item in sorted(found, key=lambda item: -item[0]):
        best.setdefault(tuple(item[1][j].tobytes() for j in places), item)
    return list(best.values())[:n]


def _floor(found: Sequence[_Ranked], n: int) -> float:
    """Return what a labelling must exceed to be among the n best; −inf while there is room."""
    return found[n - 1][0] if len(found) >= n else -np.inf


def _told(
    composition: JointModel, known: Known | None, lengths: Sequence[int], corpus: Corpus
) -> Corpus:
    """Return a corpus of the sentences that are not empty, with what is known of their labels."""
    if known is None or not known.forced:
        return corpus
    topologies = {tagger.tape: tagger.topology for tagger in composition.taggers}
    return known.written(topologies, corpus, np.flatnonzero(lengths))


def _sampling(what: str, first: str) -> NoReturn:
    raise OptionError(
        f"normalize='chain' is no transducer and has no {what}: estimate it from sample(n), ask "
        f"for the first tape ({first!r}), or compose with normalize='product'"
    )
