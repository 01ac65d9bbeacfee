"""One sentence under the chain rule: a view of the tagger, and no transducer.

It answers what the rule answers. Sums over later tapes have no closed form: they are estimated from
samples.
"""

from __future__ import annotations

import math
import os
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NoReturn

import numpy as np

from fstcrf import display, kernel
from fstcrf.arguments import whole_number
from fstcrf.arrays import Floats, Ints
from fstcrf.errors import NoPathError, OptionError, ShapeError
from fstcrf.files import write_picture
from fstcrf.kernel import Budget
from fstcrf.lattices import AnyLattice, Lattice, Path, constructors, drawings
from fstcrf.lattices.paths import shown_tapes
from fstcrf.machines import pictures
from fstcrf.machines.grammar import Grammar
from fstcrf.machines.plans import no_path_error, warn_unproven
from fstcrf.taggers.batches import lattices
from fstcrf.taggers.chain import best, decode, no_path, with_evidence
from fstcrf.taggers.jointmodel import JointModel, budget_of
from fstcrf.taggers.known import Known, Request
from fstcrf.taggers.model.reading import SentenceLike
from fstcrf.taggers.search import ChainRule
from fstcrf.taggers.stages import with_tape

__all__ = ["ChainLattice", "lattice_of"]


class _Refused:
    """What a chain does not have."""

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, lattice: ChainLattice, owner: type | None = None) -> Callable[..., NoReturn]:
        return partial(_refuse, self.name, lattice.composition.order[0])


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
        self._corpus = with_evidence(composition, [sentence], known)
        self._length = self._corpus.n_tokens
        self._order = composition.order

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
        found = self._ranked(1, budget)
        if found:
            return found[0]
        raise self.no_path(budget)

    def no_path(self, budget: int | Budget | None = None) -> NoPathError:
        """Return the error that says why no labelling is legal, or that none was found."""
        if not len(self):
            return no_path_error(self.composition.program, [np.empty(0)])
        rule = ChainRule(self.composition, budget_of(budget), self._known)
        return no_path(rule, best(rule, self._corpus).bound[0], None)

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
        if n < 1:
            raise OptionError(f"n is {n}, expected at least 1")
        shown = None if tapes is None else shown_tapes(self.tapes, tapes)
        return self._ranked(n, budget, shown)

    def _ranked(
        self, n: int, budget: int | Budget | None, tapes: Sequence[str] | None = None
    ) -> list[Path]:
        asked = Request([self._sentence], n, budget=budget_of(budget), tapes=tapes, strict=False)
        answer = decode(self.composition, asked, self._known)
        warn_unproven(int(not answer.exact.all()), 1)
        return answer.paths(0)

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
        return float(ChainRule(self.composition, evidence=self._known).score(self._corpus, ids)[0])

    def probability(self, labels: Sequence[Sequence[str]]) -> float:
        """Return the probability of a labelling, without weights and grammar; raises as `score`."""
        ids = self._ids(labels)
        if not len(self):
            return float(all(tagger.topology.empty for tagger in self.composition.taggers))
        log_p = ChainRule(self.composition).score(self._corpus, ids, plain=True)[0]
        return float(min(1.0, np.exp(log_p)))

    def sample(self, n: int, *, seed: int = 0) -> list[tuple[tuple[str, ...], ...]]:
        """Return n independent exact samples: of the first tape, of the second given it, ...

        Raises
        ------
        OptionError
            Weights other than 1, or a grammar; a negative n or seed.
        """
        n, seed = whole_number(n, "n", narrow=True), whole_number(seed, "seed")
        return self.samples(n, np.random.default_rng(seed))

    def samples(self, n: int, rng: np.random.Generator) -> list[tuple[tuple[str, ...], ...]]:
        """Return samples as `sample` does, by a generator."""
        self._check_plain("a sample")
        size = len(self)
        if not n or not size:
            return [self._named({})] * n
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

    def pruned(self, n: int, *, budget: int | Budget | None = None) -> AnyLattice:
        """Return the lattice of the n best labellings: every question, asked of these alone.

        Its log Z is the log of their mass; `budget` and errors as for `nbest`.
        """
        paths = self.nbest(n, budget=budget)
        return self._lattice([path.labels for path in paths], [path.score for path in paths])

    def sampled(self, n: int = 1000, *, seed: int = 0) -> AnyLattice:
        """Return the lattice of n samples: every question, estimated from them.

        The standard error of a probability p is √(p (1 − p) / n). Errors as for `sample`.
        """
        counts = Counter(self.sample(whole_number(n, "n", least=1, narrow=True), seed=seed))
        return self._lattice(list(counts), [math.log(count / n) for count in counts.values()])

    def _lattice(self, labels: Sequence[Any], scores: Sequence[float]) -> AnyLattice:
        sets = dict(zip(self.tapes, self.labels, strict=True))
        return Lattice(constructors.joint_paths(labels, scores, sets))

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
            _refuse("marginals of a tape but the first", self._order[0])
        self._check_plain("marginals")
        stage = self.composition.stages[0]
        if not len(self):
            return np.empty((0, len(stage.tagger.labels)))
        found = kernel.axis_posterior(stage.free_bound(stage.given(self._corpus)))
        return stage.tagger.topology.label_sums(found.node[0])

    # Sums over later tapes have no closed form, and it is no transducer.
    arc_marginals = _Refused()
    max_marginals = _Refused()
    entropy = _Refused()
    span_probability = _Refused()
    probable_spans = _Refused()
    minimum_risk = _Refused()
    restrict = _Refused()
    scale = _Refused()
    weighted = _Refused()
    to_fst = _Refused()
    plan = _Refused()

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

    def __and__(self, grammar: Grammar) -> ChainLattice:
        """Return the same sentence under one more grammar."""
        return ChainLattice(self.composition.under(grammar), self._sentence, self._known)

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


def _refuse(what: str, first: str, *asked: object, **options: object) -> NoReturn:
    del asked, options
    raise OptionError(
        f"normalize='chain' is no transducer and has no {what}: ask sampled(n) or pruned(n) of "
        f"this lattice, its first tape ({first!r}), or compose with normalize='product'"
    )
