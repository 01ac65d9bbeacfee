"""Sweeps over a document in Python, for violation models that are written in Python.

The same sampling as the kernel's, with scores from models instead of counts.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from fstcrf import kernel
from fstcrf.documents.document import Document
from fstcrf.documents.local import LocalScores
from fstcrf.documents.violations import ViolationModel, bound_to, log_score
from fstcrf.errors import NumericError
from fstcrf.kernel.gibbs import Chain

__all__ = ["Scored"]

Floats = NDArray[np.float64]


class Scored:
    """A document that is swept over, with models of violations.

    Parameters
    ----------
    document : Document
    local : LocalScores
    models : sequence of ViolationModel
    tapes : sequence of int
        Number of the tape that each model reads.

    Raises
    ------
    OptionError
        What a model's `bind` returned lacks a method.
    NumericError
        When it begins or sweeps: a model returned NaN or +inf.
    """

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

    def begin(self, paths: Iterable[NDArray[np.int32]]) -> NDArray[np.int32]:
        """Start from the first path unless the models forbid it, else from the best other one.

        Raises
        ------
        NumericError
            A model returned NaN or +inf, or the models forbid all paths.
        """
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
                f"{', '.join(self._models)} give −inf to all {asked} labellings that sampling "
                "could start from; make what they forbid a large finite penalty"
            )
        self._total = self._start(found)
        return found

    def sweep(
        self, chain: Chain, temperatures: Floats, whole: NDArray[np.bool_], uniform: Floats
    ) -> Floats:
        """Sweep over the document, changing a chain in place; as `kernel.gibbs.Gibbs.sweep`."""
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

    def _remember(self, chain: Chain) -> None:
        if self._total > chain.best_score + 1e-9:
            chain.best_score, chain.best = self._total, chain.path.copy()

    # --- One token ------------------------------------------------------------------------------

    def _token(
        self, chain: Chain, first: int, end: int, t: int, temperature: float, u: float
    ) -> None:
        labels = self._local.labelling.n_labels
        now = self._label[chain.path[t]]
        score = np.full(labels, -np.inf)
        score[now] = 0.0
        for label in range(labels):
            if label != now:
                score[label] = self._difference(chain.path, first, end, t, label)
        # All are asked about: models may outweigh the tagger, however far behind a label is. The
        # kernel asks about fewer only where it knows that penalties can but lower scores.
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

    def _difference(
        self, path: NDArray[np.int32], first: int, end: int, t: int, label: int
    ) -> float:
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
                arc = graph.score[n] if graph.moving else graph.score
                total += arc[now * size + new] - arc[was * size + old]
            if new == old and n > t:
                return float(total)
            total += node[n, new] - node[n, old]
            was, now = old, new
        return float(total + graph.final[now] - graph.final[was])

    # --- One sentence ---------------------------------------------------------------------------

    def _sentence(
        self, chain: Chain, first: int, end: int, temperature: float, draws: Floats, u: float
    ) -> None:
        local, by = self._local, 1.0 / temperature if temperature else 1.0
        score = local.graph.score[first:end] if local.graph.moving else local.graph.score
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

    def _path_score(self, path: NDArray[np.int32], first: int) -> float:
        graph, size = self._local.graph, self._local.graph.n_states
        rows = np.arange(first, first + len(path))
        arcs = path[:-1].astype(np.int64) * size + path[1:]
        score = graph.score[rows[1:], arcs] if graph.moving else graph.score[arcs]
        ends = graph.initial[path[0]] + graph.final[path[-1]]
        return float(ends + self._local.node[rows, path].sum() + score.sum())

    # --- Models ---------------------------------------------------------------------------------

    def _start(self, path: NDArray[np.int32]) -> float:
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
    last = np.flatnonzero(weight)[-1]  # rounding must not lead to what is impossible
    return int(min(np.searchsorted(np.cumsum(weight), u * weight.sum(), side="right"), last))


def _sample(graph: kernel.Graph, node: Floats, draws: Floats) -> NDArray[np.int32]:
    """Draw a path by forward filtering and backward sampling, in logs."""
    size, length = graph.n_states, len(node)
    alpha = np.empty_like(node)
    alpha[0] = graph.initial + node[0]
    arcs = graph.score.reshape((-1, size, size))

    def into(t: int) -> Floats:
        rows: Floats = arcs[t if graph.moving else 0]
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
