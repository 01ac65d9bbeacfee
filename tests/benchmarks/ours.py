"""Our side: pieces of work that are not a command of ``fstcrf``.

``python -m tests.benchmarks.ours WORK JSON`` does one piece in a process of its own and prints a
JSON object.
"""

from __future__ import annotations

import hashlib
import statistics
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, cast
from unittest import mock

import fstcrf
from fstcrf.taggers import CRF
from fstcrf.training import Features, Run
from tests.benchmarks.tasks import L2, TEMPLATES, Task
from tests.benchmarks.work import answer, seconds_of

if TYPE_CHECKING:
    from fstcrf import CRF, Corpus
    from fstcrf.arrays import Floats, Longs
    from fstcrf.kernel import Bound
    from fstcrf.taggers.weights import Weights
    from fstcrf.text.features import FeatureIndex
    from fstcrf.training import ParameterSpace, Problem


def _corpus(task: Task, copies: int = 1) -> Corpus:
    import numpy as np

    corpus = fstcrf.read_columns(task.path, task.columns, separator=task.separator)
    return corpus if copies == 1 else corpus.select(np.tile(np.arange(len(corpus)), copies))


def problem_of(task: Task, copies: int = 1) -> tuple[Problem, ParameterSpace]:
    """Return what `fstcrf train` would train on for a task."""
    from fstcrf.machines.topology import chain_topology
    from fstcrf.text.features import FeatureIndex, parse_template
    from fstcrf.text.sentences import label_set
    from fstcrf.training import parameter_space

    corpus = _corpus(task, copies)
    templates = parse_template(TEMPLATES[task.attributes])
    _, design = FeatureIndex.build(corpus, templates, boundary="skip")
    labels = label_set(corpus.column(task.target).values, partial=False)
    problem = _problem(chain_topology(labels, 1), corpus, design, task.target)
    return problem, parameter_space(problem)


def _problem(topology: Any, corpus: Corpus, design: Any, target: str) -> Problem:
    import numpy as np

    from fstcrf.text.sentences import allowed_labels
    from fstcrf.training import Problem

    allowed = allowed_labels(corpus.column(target), topology.labels, partial=False)
    return Problem(topology, corpus.offsets, design.node, None, allowed, np.ones(len(corpus)))


def _problem_of_model(tagger: CRF, corpus: Corpus, target: str) -> Problem:
    design = cast("FeatureIndex", tagger.index).design(corpus)
    return _problem(tagger.topology, corpus, design, target)


def evaluate(
    task: Task, *, threads: int = 1, warm: int = 20, timed: int = 20, copies: int = 1
) -> dict[str, Any]:
    """Measure iterations of L-BFGS after some others, then the objective alone where they led.

    One thread is measured in processor time, as CRFsuite measures itself.
    """
    import numpy as np

    from fstcrf import kernel
    from fstcrf.training import LBFGSOptimiser, Likelihood

    clock = time.process_time if threads == 1 else time.perf_counter
    started = clock()
    problem, space = problem_of(task, copies)
    objective = Likelihood(problem, space, l2=L2, threads=threads)
    prepared = clock() - started
    optimiser = LBFGSOptimiser(objective, np.zeros(space.size))
    for _ in range(warm):
        optimiser.step()
    before, begun = objective.evaluations, clock()
    step = None
    for _ in range(timed):
        step = optimiser.step()
    seconds, evaluations = clock() - begun, objective.evaluations - before
    theta = optimiser.theta()
    calls = [seconds_of(partial(objective, theta), clock) for _ in range(max(5, timed // 2))]
    return {
        "threads": threads,
        "prepare_seconds": prepared,
        "seconds_per_iteration_evaluation": seconds / evaluations,
        "seconds_per_evaluation": statistics.median(calls),
        "calls": calls,
        "objective": None if step is None else step.value,
        "tokens": int(problem.offsets[-1]),
        "labels": problem.topology.n_labels,
        "pairs": len(problem.node.index),
        "attributes": space.n_node_rows,
        "parameters": space.size,
        "variant": kernel.variant(),
    }


def score(task: Task, *, model: str, test: str) -> dict[str, Any]:
    """Compute the objective of a saved model once more, in float64, and its F on a test file."""
    from fstcrf.training import Likelihood

    tagger = CRF.load(model)
    problem = _problem_of_model(tagger, _corpus(task), task.target)
    likelihood = Likelihood(problem, tagger.space, l2=L2, threads=2, precision="float64")
    value, _ = likelihood(tagger.theta)
    gold = fstcrf.read_columns(test, task.columns, separator=task.separator)
    report = fstcrf.evaluate_spans(gold.column_lists(task.target), tagger.tag_all(gold))
    record = tagger.record
    return {
        "objective": value,
        "f1": 100 * report.f,
        "accuracy": 100 * report.accuracy,
        "parameters": tagger.space.size,
        "iterations": None if record is None else record.iterations,
        "reason": None if record is None else record.reason,
    }


def weights(task: Task, *, model: str) -> dict[str, Any]:
    """Hash the weights of a model; its file also holds how it was made."""
    del task
    return {"hash": hashlib.sha256(CRF.load(model).theta.tobytes()).hexdigest()}


def predictions(task: Task, *, tagged: str) -> dict[str, Any]:
    """Score a column file whose last column is a prediction."""
    corpus = fstcrf.read_columns(tagged, (*task.columns, "%found"), separator=task.separator)
    gold, found = corpus.column_lists(task.target), corpus.column_lists("%found")
    report = fstcrf.evaluate_spans(gold, found)
    return {"f1": 100 * report.f, "accuracy": 100 * report.accuracy}


def steps(task: Task, *, iterations: int) -> dict[str, Any]:
    """Measure what a training with L-BFGS is made of, in processor time.

    An iteration of L-BFGS counts by the evaluation.
    """
    import numpy as np

    from fstcrf.training import LBFGSOptimiser, Likelihood
    from fstcrf.training.sgd import ASGD, SGDOptimiser

    problem, space = problem_of(task)
    clock, objective = time.process_time, Likelihood(problem, space, l2=L2)
    first = SGDOptimiser(problem, space, np.zeros(space.size), ASGD(l2=L2), first_rate=0.1)
    epochs = [seconds_of(first.step, clock) for _ in range(iterations)]
    curvature = [seconds_of(partial(objective.curvature, first.theta()), clock) for _ in range(2)]
    evaluation = [seconds_of(partial(objective, first.theta()), clock) for _ in range(iterations)]
    then, before = LBFGSOptimiser(objective, first.theta()), objective.evaluations
    whole = sum(seconds_of(then.step, clock) for _ in range(iterations))
    seen = space.topology.n_states**2
    return {
        "labels": problem.topology.n_labels,
        "tokens": int(problem.offsets[-1]),
        "pairs": len(space.transitions) / seen,
        "evaluation": statistics.median(evaluation),
        "kinds": {
            "stochastic epoch": statistics.median(epochs),
            "curvature": min(curvature),
            "iteration, by the evaluation": whole / (objective.evaluations - before),
        },
    }


def rich(task: Task, *, rounds: int) -> dict[str, Any]:
    """Measure over all pairs of labels, and over exceptions: an evaluation, taggers, lattices."""
    import numpy as np

    from fstcrf import kernel
    from fstcrf.kernel import decoding
    from fstcrf.taggers.weights import Weights
    from fstcrf.training import LBFGSOptimiser, Likelihood, evidence

    clock = time.process_time
    problem, space = problem_of(task)
    sparse = Likelihood(problem, space, l2=L2)
    with mock.patch.object(evidence, "default_arcs_of", return_value=None):
        dense = Likelihood(problem, space, l2=L2)
    optimiser = LBFGSOptimiser(sparse, np.zeros(space.size))
    for _ in range(3):
        optimiser.step()
    theta = optimiser.theta()
    weights = Weights(problem.topology, space, theta)
    last = int(np.searchsorted(problem.offsets[:-1], 8_000))
    some = problem.part(0, last)[1]
    node = weights.node(some.node)
    graphs = weights.static_graph, weights.sparse_graph or weights.static_graph
    alone, composed = _lattices(weights, some.offsets, node)
    asked: dict[str, list[Callable[[], object]]] = {
        "evaluation": [partial(objective, theta) for objective in (dense, sparse)],
        "best paths": [partial(kernel.viterbi, graph, some.offsets, node) for graph in graphs],
        "marginals": [partial(decoding.axis_posterior, batch) for batch in alone],
        "five best": [partial(decoding.nbest_paths, batch, 5) for batch in alone],
        "one sentence": [partial(decoding.axis_posterior, batch.select([0])) for batch in alone],
        "composition": [partial(decoding.axis_posterior, batch) for batch in composed],
    }
    found: dict[str, list[list[float]]] = {name: [[], []] for name in asked}
    for way in (way for name in list(asked)[1:] for way in asked[name]):
        way()  # memory that is taken for the first time
    for _ in range(rounds):
        for name, ways in asked.items():
            for k, way in enumerate(ways):
                found[name][k].append(seconds_of(way, clock))
    return {
        "labels": problem.topology.n_labels,
        "tokens": int(problem.offsets[-1]),
        "pairs": len(space.transitions) / problem.topology.n_states**2,
        **{name: [statistics.median(side) for side in both] for name, both in found.items()},
    }


def _lattices(weights: Weights, offsets: Longs, node: Floats) -> tuple[list[Bound], list[Bound]]:
    """Return sentences over all pairs and over a rest, and some beside a tape of 5 labels."""
    import numpy as np

    from fstcrf.kernel import Axis, Bound, Factor, JointChain
    from fstcrf.machines.topology import rest_of

    scores, states = weights.static_graph.score, weights.static_graph.n_states
    rest = rest_of(scores, states)
    assert rest is not None
    table = scores[None]
    axes = Axis(states, score=table), Axis(states, None, None, table, None, 1, *rest)
    few = Axis(5, score=np.random.default_rng(0).normal(size=(1, 25)))
    potentials, end = node[:, None, :], int(offsets[8])
    alone, composed = [], []
    for axis in axes:
        ends = np.zeros((1, states))
        machine = JointChain((axis,), (Factor(1, states),), None, ends, ends)
        alone.append(Bound(machine, offsets, (potentials,)))
        ends = np.zeros((5, states))
        machine = JointChain((few, axis), (Factor(1, states),), None, ends, ends)
        composed.append(Bound(machine, offsets[:9], (potentials[:end],)))
    return alone, composed


def throughput(
    task: Task, *, model: str, copies: Sequence[int], rounds: int, threads: int = 1
) -> dict[str, Any]:
    """Tag corpora in memory, sizes in turns; tokens per second of each."""
    tagger = CRF.load(model)
    corpora = [_corpus(task, k) for k in copies]
    tagger.tag_all(corpora[0], threads=threads)
    seconds: list[list[float]] = [[] for _ in copies]
    for _ in range(rounds):
        for measured, corpus in zip(seconds, corpora, strict=True):
            work = partial(tagger.tag_all, corpus, threads=threads)
            measured.append(seconds_of(work, time.perf_counter))
    tokens = [corpus.n_tokens for corpus in corpora]
    return {
        "tokens": tokens,
        "seconds": seconds,
        "tokens_per_second": [
            n / statistics.median(runs) for n, runs in zip(tokens, seconds, strict=True)
        ],
    }


def threads(
    task: Task, *, numbers: Sequence[int], max_iterations: int, model: str
) -> dict[str, Any]:
    """Train and tag with several numbers of threads; say what differs. Saves the first model."""
    corpus = _corpus(task)
    results = [_bits(corpus, task, n, max_iterations) for n in numbers]
    results[0][0].save(model)
    differing = [
        f"{what} with {n} threads"
        for n, (_, bits) in zip(numbers, results, strict=True)
        for what, value in bits.items()
        if value != results[0][1][what]
    ]
    return {"threads": list(numbers), "compared": list(results[0][1]), "differing": differing}


def _bits(corpus: Corpus, task: Task, n: int, iterations: int) -> tuple[CRF, dict[str, Any]]:
    tagger = fstcrf.CRF.train(
        corpus,
        task.target,
        Features(TEMPLATES[task.attributes], boundary="skip"),
        max_iterations=iterations,
        run=Run(threads=n),
    )
    marginals = b"".join(m.tobytes() for m in tagger.marginals_all(corpus, threads=n))
    return tagger, {
        "weights": tagger.theta.tobytes(),
        "labels": tagger.tag_all(corpus, threads=n),
        "marginals": marginals,
    }


def variants(task: Task, *, model: str) -> dict[str, Any]:
    """Evaluate and tag with every variant of the kernel; differences from the first.

    The gradient is a difference of counts, small beside them: its error is told relative to the
    expected counts, and as "cancelled" relative to itself.
    """
    import numpy as np

    from fstcrf import kernel
    from fstcrf.training import Likelihood
    from fstcrf.training.support import observed_counts

    tagger, corpus = CRF.load(model), _corpus(task)
    problem = _problem_of_model(tagger, corpus, task.target)
    theta = np.array(tagger.theta)
    found = []
    for name in kernel.variants():
        kernel.use(name)
        value, gradient = Likelihood(problem, tagger.space, l2=L2)(theta)
        marginals = np.concatenate(tagger.marginals_all(corpus))
        found.append((name, value, gradient, marginals, tagger.tag_all(corpus)))
    _, value, gradient, marginals, labels = found[0]
    expected = gradient + observed_counts(problem, tagger.space) - 2.0 * L2 * theta
    return {
        name: {
            "value": abs(v - value) / abs(value),
            "gradient": float(np.linalg.norm(g - gradient) / np.linalg.norm(expected)),
            "marginals": float(np.abs(m - marginals).max()),
            "labels": float(tags != labels),
            "cancelled": float(np.linalg.norm(g - gradient) / np.linalg.norm(gradient)),
        }
        for name, v, g, m, tags in found
    }


def prepare(task: Task, *, sources: Sequence[str]) -> dict[str, Any]:
    """Write the column file of a task from other corpora: CoNLL-2003 as IOB2, or CoNLL-U."""
    read = _morphology if sources[0].endswith(".conllu") else _entities
    corpora = [read(source) for source in sources]
    rows = [zip(*(s[c] for c in task.columns), strict=True) for part in corpora for s in part]
    corpus = fstcrf.Corpus.from_sentences([list(row) for row in rows], task.columns)
    fstcrf.write_columns(corpus, task.path, separator=task.separator or " ")
    return {"sentences": len(corpus), "tokens": corpus.n_tokens}


def _entities(source: str) -> Corpus:
    from fstcrf.text.corpus import convert_column

    corpus = fstcrf.read_columns(source, ("word", "pos", "chunk", "entity"))
    return convert_column(corpus, "entity", "iob1", "iob2")


def _morphology(source: str) -> Corpus:
    corpus = fstcrf.read_conllu(source)
    corpus = corpus.with_interned("label", corpus.column("upos+feats"))
    return corpus.with_interned("word", corpus.column("form"))


if __name__ == "__main__":
    answer(globals())
