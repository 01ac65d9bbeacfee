"""Gibbs sampling of documents: annealing, starts, and chains of sweeps.

The best labelling of a chain is the best among the start and the results of all sweeps; it is
therefore never worse than the start. The chain never has a labelling that a model scores −∞. Scores
are therefore finite, and are updated incrementally; each call of the kernel counts again, so that
rounding errors do not accumulate. NumPy draws the uniform numbers for several sweeps at a time,
from the seed, the number of the document and the number of the chain. A long file is read in
batches that are split at the ends of documents (`text/corpus/batches.py`), and documents are
numbered through the whole file: the size of batches has no effect on results.

Draws without counting. If no penalty is positive, the tagger's scores often suffice to show
that a draw is the current label for any counts; then nothing is counted. Labels whose probability
is lower by e⁻³⁷ are left out for the same reason. If a model can raise scores, there is no such
bound, and every label is evaluated.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np

from fstcrf import kernel
from fstcrf.arguments import one_of
from fstcrf.arrays import Bools, Floats, Ints
from fstcrf.errors import NumericError, OptionError
from fstcrf.ext.documents.document import (
    Document,
    ViolationModel,
    bound_to,
    log_score,
    number,
    whole_number,
)
from fstcrf.ext.documents.kernel import Gibbs, MarkovChain
from fstcrf.ext.documents.scores import LocalScores, agreement, in_kernel, tape_of

Schedule = Literal["linear", "exponential", "geometric", "constant"]


@dataclass(frozen=True, slots=True)
class Annealing:
    """Temperatures of the sweeps.

    Parameters
    ----------
    sweeps : int
        How many there are, n.
    schedule : {"linear", "exponential", "geometric", "constant"}
        linear: from `start` down to 0. exponential: start · exp(−rate · t). geometric: from `start`
        to `end` by the same factor each time; then a last sweep at 0. constant: `start` throughout,
        which is sampling and no search.
    start : float
        Temperature of the first sweep; 1 is the distribution itself.
    end : float
        Of the last sweep but one, geometric; at most `start`.
    rate : float
        Per sweep, exponential; below 5 / sweeps the last sweep but one is still warm.

    Raises
    ------
    OptionError
        A schedule that there is not; numbers out of range; a geometric one that heats up.
    """

    sweeps: int = 200
    schedule: Schedule = "linear"
    start: float = 1.0
    end: float = 0.01
    rate: float = 0.03

    def __post_init__(self) -> None:
        one_of("schedule", self.schedule, Schedule)
        whole_number("sweeps", self.sweeps, 1)
        for name in ("start", "end", "rate"):
            value = getattr(self, name)
            number(name, value)
            if not (np.isfinite(value) and value > 0):
                raise OptionError(f"{name} is {value}, expected a finite number above 0")
        if self.schedule == "geometric" and self.end > self.start:
            raise OptionError(
                f"end is {self.end}, expected at most start, {self.start}: a geometric schedule "
                "cools down"
            )

    def temperatures(self) -> Floats:
        """Return the temperature of each sweep, float64 [sweeps].

        Examples
        --------
        >>> Annealing(5).temperatures().tolist()
        [1.0, 0.75, 0.5, 0.25, 0.0]
        """
        n, time = self.sweeps, np.arange(self.sweeps, dtype=np.float64)
        if self.schedule == "constant":
            return np.full(n, float(self.start))
        if n == 1:
            return np.zeros(1)
        if self.schedule == "linear":
            return self.start * (1.0 - time / (n - 1))
        if self.schedule == "exponential":
            found = self.start * np.exp(-self.rate * time)
        else:
            found = self.start * (self.end / self.start) ** (time / max(n - 2, 1))
        found[-1] = 0.0
        return found


# --- Starts ---------------------------------------------------------------------------------------


Start: TypeAlias = Literal["viterbi", "random"]

_TRIES = 20  # random paths, where models of violations forbid the first
_PREFERRED = 1e6  # natural log, larger than any tagger score of a sentence


def starts(
    local: LocalScores, document: Document, best: Ints, wanted: Start, random: np.random.Generator
) -> Iterator[Ints]:
    """Yield paths of joint states, int32 [N]: the wanted one, then others in case models forbid it.

    The others are, for each label, the tagger's best path with as many tokens of the label as
    possible, and random paths.
    """
    if wanted == "viterbi":
        yield best.copy()
    else:
        for _ in range(_TRIES):
            yield _random_path(local, document, random)
        yield best.copy()
    for label in range(local.labelling.n_labels):
        preferred = np.where(local.labelling.label == label, _PREFERRED, 0.0)
        yield kernel.viterbi(local.graph, document.offsets, local.node + preferred)[0]
    if wanted == "viterbi":
        for _ in range(_TRIES):
            yield _random_path(local, document, random)


def _random_path(local: LocalScores, document: Document, random: np.random.Generator) -> Ints:
    """Draw states so that each label has an equal chance among those with which one can go on."""
    following, size = local.labelling.following, local.graph.n_states
    final = local.graph.final > -np.inf
    path = np.zeros(len(document), dtype=np.int32)
    bounds = document.offsets.tolist()
    allowed = local.node > -np.inf
    for first, end in itertools.pairwise(bounds):
        able = [final & allowed[end - 1]]  # states from which the sentence can be ended
        for t in range(end - 2, first - 1, -1):
            after = following[:size]
            on = ((after >= 0) & able[-1][np.maximum(after, 0)]).any(axis=1)
            able.append(on & allowed[t])
        able.reverse()
        now = size
        for t in range(first, end):
            after = following[now]
            after = after[(after >= 0) & able[t - first][np.maximum(after, 0)]]
            now = int(random.choice(after))
            path[t] = now
    return path


# --- Sweeps in Python -----------------------------------------------------------------------------

# For models of violations that are written in Python: the same sampling as in the kernel, with
# scores from models instead of counts.


class _PythonGibbs:
    """A document that is swept over, with models of violations, each of which reads one tape."""

    def __init__(
        self,
        document: Document,
        local: LocalScores,
        models: Sequence[ViolationModel],
        tapes: Sequence[int],
    ) -> None:
        self._document, self._local = document, local
        self._names = [[names[tape] for names in local.names] for tape in tapes]
        self._models = [type(model).__name__ for model in models]
        self._bound = [bound_to(model, document) for model in models]
        self._label = local.labelling.label.tolist()
        self._following = local.labelling.following.tolist()
        self._bounds = document.offsets.tolist()
        self._total = 0.0

    def begin(self, paths: Iterable[Ints]) -> Ints:
        """Start from the first path unless the models forbid it, else from the best other one."""
        found, reached, asked = None, -np.inf, 0
        for asked, path in enumerate(paths, start=1):
            total = self._start(path)
            if total > reached:
                found, reached = path, total
            if asked == 1 and found is not None:
                break
        if found is None:
            raise NumericError(
                f"document {self._document.number}: the violation models "
                f"{', '.join(self._models)} give −inf to all {asked} labellings from which "
                "sampling could start: use a large finite penalty instead of −inf"
            )
        self._total = self._start(found)
        return found

    def sweep(
        self, chain: MarkovChain, temperatures: Floats, whole: Bools, uniform: Floats
    ) -> Floats:
        """Sweep over the document, changing a chain in place; as `kernel.Gibbs.sweep`."""
        self._remember(chain)
        tokens, scores = len(self._document), np.empty(len(temperatures))
        sentences = list(zip(self._bounds[:-1], self._bounds[1:], strict=True))
        for k, temperature in enumerate(temperatures.tolist()):
            for b, (first, end) in enumerate(sentences):
                if whole[k]:
                    draws = uniform[k, first:end]
                    self._sentence(chain, first, end, temperature, draws, uniform[k, tokens + b])
                    continue
                for t in range(first, end):
                    self._token(chain, first, end, t, temperature, uniform[k, t])
            scores[k] = self._total
            self._remember(chain)
        return scores

    def _remember(self, chain: MarkovChain) -> None:
        if self._total > chain.best_score + 1e-9:
            chain.best_score, chain.best = self._total, chain.path.copy()

    # --- One token ------------------------------------------------------------------------------

    def _token(
        self, chain: MarkovChain, first: int, end: int, t: int, temperature: float, u: float
    ) -> None:
        labels = self._local.labelling.n_labels
        now = self._label[chain.path[t]]
        score = np.full(labels, -np.inf)
        score[now] = 0.0
        for label in range(labels):
            if label != now:
                score[label] = self._difference(chain.path, first, end, t, label)
        # All labels are evaluated: models may outweigh the tagger for any label. The kernel
        # evaluates fewer labels, but only if all penalties lower scores.
        for label in np.flatnonzero(score > -np.inf).tolist():
            if label != now:
                score[label] += self._change(t, [label])
        drawn = _drawn(score, now, temperature, u)
        if drawn == now:
            return
        self._change(t, [drawn])
        self._keep()
        self._total = self._total + float(score[drawn])
        state = int(chain.path[t - 1]) if t > first else self._local.graph.n_states
        for n in range(t, end):
            old = int(chain.path[n])
            state = self._following[state][drawn if n == t else self._label[old]]
            if state == old and n > t:
                return
            chain.path[n] = state

    def _difference(self, path: Ints, first: int, end: int, t: int, label: int) -> float:
        """Return the tagger's score with another label less that with the present one."""
        graph, node = self._local.graph, self._local.node
        size = graph.n_states
        was = now = int(path[t - 1]) if t > first else size
        total = 0.0
        for n in range(t, end):
            old = int(path[n])
            new = self._following[now][label if n == t else self._label[old]]
            if new < 0:
                return -np.inf
            if n == first:
                total += graph.initial[new] - graph.initial[old]
            else:
                arc = graph.score[n] if graph.per_token else graph.score
                total += arc[now * size + new] - arc[was * size + old]
            if new == old and n > t:
                return float(total)
            total += node[n, new] - node[n, old]
            was, now = old, new
        return float(total + graph.final[now] - graph.final[was])

    # --- One sentence ---------------------------------------------------------------------------

    def _sentence(
        self, chain: MarkovChain, first: int, end: int, temperature: float, draws: Floats, u: float
    ) -> None:
        local, by = self._local, 1.0 / temperature if temperature else 1.0
        score = local.graph.score[first:end] if local.graph.per_token else local.graph.score
        graph = kernel.Graph(local.graph.initial * by, local.graph.final * by, score * by)
        node, offsets = local.node[first:end] * by, np.asarray([0, end - first])
        if temperature:
            path = _sample(graph, node, draws)
        else:
            path = kernel.viterbi(graph, offsets, node)[0]
        gain = self._path_score(path, first) - self._path_score(chain.path[first:end], first)
        change = self._change(first, [self._label[state] for state in path.tolist()])
        if temperature:
            with np.errstate(divide="ignore"):
                taken = np.log(u) * temperature < change
        else:
            taken = gain + change > 0
        if taken:
            self._keep()
            chain.path[first:end] = path
            self._total = self._total + gain + change

    def _path_score(self, path: Ints, first: int) -> float:
        graph, size = self._local.graph, self._local.graph.n_states
        rows = np.arange(first, first + len(path))
        arcs = path[:-1].astype(np.int64) * size + path[1:]
        score = graph.score[rows[1:], arcs] if graph.per_token else graph.score[arcs]
        ends = graph.initial[path[0]] + graph.final[path[-1]]
        return float(ends + self._local.node[rows, path].sum() + score.sum())

    # --- Models ---------------------------------------------------------------------------------

    def _start(self, path: Ints) -> float:
        total = sum(
            self._path_score(path[a:b], a)
            for a, b in zip(self._bounds[:-1], self._bounds[1:], strict=True)
        )
        numbers = [self._label[state] for state in path.tolist()]
        for model, names, bound in zip(self._models, self._names, self._bound, strict=True):
            score = log_score(bound.start([names[k] for k in numbers]), model)
            total += self._checked(score, model, 0)
        return total

    def _change(self, first: int, labels: Sequence[int]) -> float:
        total = 0.0
        for model, names, bound in zip(self._models, self._names, self._bound, strict=True):
            change = log_score(bound.change(first, [names[k] for k in labels]), model)
            total += self._checked(change, model, first)
        return total

    def _checked(self, score: float, model: str, token: int) -> float:
        if np.isnan(score) or score == np.inf:
            number, place = self._document.number, f"token {token}"
            raise NumericError(
                f"document {number}, {place}: the violation model {model} returned {score}, "
                "expected a log score: a number or −inf"
            )
        return score

    def _keep(self) -> None:
        for bound in self._bound:
            bound.keep()


def _drawn(score: Floats, now: int, temperature: float, u: float) -> int:
    best = int(score.argmax())
    if temperature == 0.0:
        return best if score[best] > score[now] else now
    weight = np.exp((score - score[best]) / temperature)
    last = np.flatnonzero(weight)[-1]  # rounding must not choose an impossible label
    return int(min(np.searchsorted(np.cumsum(weight), u * weight.sum(), side="right"), last))


def _sample(graph: kernel.Graph, node: Floats, draws: Floats) -> Ints:
    """Draw a path by forward filtering and backward sampling, in logs."""
    size, length = graph.n_states, len(node)
    alpha = np.empty_like(node)
    alpha[0] = graph.initial + node[0]
    arcs = graph.score.reshape((-1, size, size))

    def into(t: int) -> Floats:
        rows: Floats = arcs[t if graph.per_token else 0]
        return rows

    for t in range(1, length):
        alpha[t] = np.logaddexp.reduce(alpha[t - 1][:, None] + into(t), axis=0) + node[t]
    path = np.empty(length, dtype=np.int32)
    after = graph.final
    for t in range(length - 1, -1, -1):
        path[t] = _drawn(alpha[t] + after, 0, 1.0, float(draws[t]))
        if t:
            after = into(t)[:, path[t]]
    return path


# --- Chains ---------------------------------------------------------------------------------------
Sweeps: TypeAlias = Literal["token", "sentence", "mixed"]

_DRAWS = 200_000  # uniform numbers that are there at a time


class DocumentChain:
    """One chain of samples of a document's labels.

    Parameters
    ----------
    document : Document
        With at least one token.
    local : LocalScores
        The tagger's scores of the document.
    models : sequence of ViolationModel
        Scores across sentences; without models, the tagger decides.
    tapes : tuple of str
        Names of the tapes.
    start : {"viterbi", "random"}
        The first labels: the tagger's best labels, or labels drawn uniformly from its possible
        labels. If models forbid them (−inf), others are tried; see `starts`.
    seed : int or sequence of int
        Of numpy's default generator.

    Attributes
    ----------
    path, best : int32 [N]
        Joint states now, and the best so far: the start, or those after a sweep.
    best_score : float

    Raises
    ------
    NoPathError
        A sentence has no legal label sequence.
    NumericError
        A model returned NaN or +inf, or −inf for every start.
    OptionError
        A model names no tape among several, or an unknown tape; or its result lacks a method
        or is not a number.
    """

    def __init__(
        self,
        document: Document,
        local: LocalScores,
        models: Sequence[ViolationModel] = (),
        *,
        tapes: tuple[str, ...],
        start: Start = "viterbi",
        seed: int | Sequence[int] = 0,
    ) -> None:
        one_of("start", start, Start)
        self.document, self.local = document, local
        self._random = np.random.default_rng(seed)
        quick, agreed = in_kernel(models), None
        if quick and models:
            tape = tapes.index(tape_of(models[0], tapes))
            agreed = agreement(models, document, [names[tape] for names in local.names])
        gibbs = Gibbs(local.graph, document.offsets, local.node, local.labelling, agreed)
        paths = starts(local, document, gibbs.viterbi(), start, self._random)
        self._engine: Gibbs | _PythonGibbs = gibbs
        if quick:
            path = next(paths)
        else:
            read = [tapes.index(tape_of(model, tapes)) for model in models]
            self._engine = _PythonGibbs(document, local, models, read)
            path = self._engine.begin(paths)
        self.chain = MarkovChain(path, path.copy())

    @property
    def best_score(self) -> float:
        """Score of the best labels so far: the tagger's and the models', not normalised."""
        return self.chain.best_score

    def sweep(self, temperatures: Floats, kind: Sweeps = "mixed") -> Floats:
        """Sweep over the document.

        Parameters
        ----------
        temperatures : float64 [n]
            Of each sweep.
        kind : {"token", "sentence", "mixed"}
            The unit of one draw; "mixed": sentences in every second sweep, including the first.

        Returns
        -------
        float64 [n]
            The score after each sweep.
        """
        one_of("sweeps", kind, Sweeps)
        n = len(temperatures)
        number = np.arange(n)
        whole = number % 2 == 0 if kind == "mixed" else np.full(n, kind == "sentence")
        if n and kind == "mixed":
            whole[-1] = False  # the last sweep draws single tokens
        draws = len(self.document) + len(self.document.offsets) - 1
        run = max(1, _DRAWS // draws)  # memory does not grow with the number of sweeps
        scores = [
            self._engine.sweep(
                self.chain,
                np.ascontiguousarray(temperatures[k : k + run], dtype=np.float64),
                whole[k : k + run],
                self._random.random((len(temperatures[k : k + run]), draws)),
            )
            for k in range(0, n, run)
        ]
        return np.concatenate(scores) if scores else np.zeros(0)

    def labels(self, *, best: bool = False) -> list[tuple[str, ...]]:
        """Return the labels of all tapes, for each token."""
        path = self.chain.best if best else self.chain.path
        names, label = self.local.names, self.local.labelling.label
        return [names[k] for k in label[path].tolist()]
