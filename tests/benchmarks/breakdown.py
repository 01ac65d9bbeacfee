"""Where the time goes: of one training evaluation, and of decoding two taggers together.

``python -m tests.benchmarks.breakdown --data DIR [--joint]``: milliseconds of each part, the best
of many runs on one thread, beside how much it touches. Training is CoNLL-2000 with CRFsuite's
tutorial template; ``--joint`` is the product of a POS tagger and a chunker on test sentences.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

from fstcrf import best as best_paths
from fstcrf import compose, kernel, log_partition, marginals
from fstcrf.kernel import SparseRows, SweepWorkspace
from fstcrf.machines.topology import chain_topology
from fstcrf.taggers.model.reading import allowed_labels, label_set
from fstcrf.text.corpus import read_columns
from fstcrf.text.features import FeatureIndex, parse_template
from fstcrf.training import Likelihood, Problem, parameter_space, tied
from fstcrf.training.lbfgs import Pairs
from fstcrf.training.shards import attribute_layout, compiled_shards
from tests.benchmarks.accuracy import CHUNKS
from tests.benchmarks.machine import commit, this
from tests.benchmarks.report import table
from tests.benchmarks.taggers import COLUMNS, chunker, pos_tagger, words_of

RUNS = 15
SENTENCES = 500


def best(function: Callable[[], object]) -> float:
    """Return milliseconds of the fastest of some runs."""
    fastest = np.inf
    for _ in range(RUNS):
        started = time.perf_counter()
        function()
        fastest = min(fastest, time.perf_counter() - started)
    return 1e3 * fastest


def problem(data: Path) -> Problem:
    """Read the training part."""
    corpus = read_columns(data / "conll2000" / "train.txt", ("word", "pos", "chunk"))
    _, design = FeatureIndex.build(corpus, parse_template(CHUNKS), boundary="skip")
    column = corpus.column("chunk")
    labels = label_set(column.values)
    return Problem(
        chain_topology(labels, 1),
        corpus.offsets,
        design.node,
        None,
        allowed_labels(column, labels),
        np.ones(len(corpus)),
    )


def without_attributes(whole: Problem) -> Problem:
    """Return the same sentences with nothing to look at."""
    empty = SparseRows(
        np.zeros(len(whole.node) + 1, dtype=np.int64),
        np.empty(0, dtype=np.int32),
        None,
        whole.node.n_columns,
    )
    return Problem(
        whole.topology, whole.offsets, empty, None, whole.allowed, np.ones(len(whole.offsets) - 1)
    )


def parts(whole: Problem) -> list[list[str]]:
    """Measure every part; return the rows of a table."""
    ties = tied(whole, parameter_space(whole))
    rng = np.random.default_rng(0)
    theta = 0.3 * rng.normal(size=ties.space.size)
    likelihood = Likelihood(ties.problem, ties.space, l2=0.5, members=ties.members)
    graph = whole.topology.graph(np.zeros(whole.topology.n_arc_slots))
    weights = ties.space.parts(theta)[0].astype(np.float32)
    space = SweepWorkspace()
    out = np.zeros(len(weights))
    layout = attribute_layout(ties.space)
    shards = list(compiled_shards(ties.problem, layout, graph))
    bare = list(compiled_shards(without_attributes(ties.problem), layout, graph))
    pairs = Pairs(10, ties.space.size)
    _, gradient = likelihood(theta)
    for _ in range(11):
        pairs.add(theta + rng.normal(size=len(theta)), theta, gradient + theta, gradient)

    def collected() -> None:
        for shard in shards:
            shard.collect(space, out)

    sweeps = best(lambda: [s.sweep(graph, weights, space) for s in shards])
    chains = best(lambda: [s.sweep(graph, weights, space) for s in bare])
    vectors = best(lambda: pairs.add(theta, 0.9 * theta, gradient, 0.9 * gradient))
    direction = best(lambda: pairs.direction(gradient))
    tokens, entries = int(whole.offsets[-1]), len(whole.node.index)
    tied_entries = len(ties.problem.node.index)
    rows = [
        ("one evaluation: objective and gradient", best(lambda: likelihood(theta))),
        ("its sweeps over the 16 shards", sweeps),
        ("of these, forward-backward and expectations alone", chains),
        ("of these, potentials, gradient, weights in and out of the shards", sweeps - chains),
        ("gradients of the shards into one vector", best(collected)),
        ("L-BFGS: inner products with 10 pairs", vectors),
        ("L-BFGS: direction", direction),
    ]
    sizes = f"{tokens:,} tokens, {entries:,} attribute occurrences, {tied_entries:,} once tied"
    return [[name, f"{ms:.1f}"] for name, ms in rows] + [["sizes", sizes]]


def joint_parts(data: Path) -> list[list[str]]:
    """Measure the parts of a product; return the rows of a table.

    A few iterations of training are enough: the tables have their size from the start.
    """
    corpora = {n: read_columns(data / "conll2000" / f"{n}.txt", COLUMNS) for n in ("train", "test")}
    pos = pos_tagger(corpora["train"], max_iterations=10)
    chunks = chunker(corpora["train"], pos, max_iterations=10)
    joint = compose(pos, chunks, normalize="product")
    words = words_of(corpora["test"].select(np.arange(SENTENCES)))
    lattices = joint.lattices(words)
    rows = [
        ("cascade, from words to labels", lambda: joint.cascade(words)),
        ("product, from words to labels", lambda: joint.tag_columns(words)),
        ("of this, potentials of POS", lambda: pos.potentials(words)),
        ("of this, potentials of chunks for each POS label", lambda: chunks.potentials(words)),
        ("of this, best paths of lattices that are there", lambda: best_paths(lattices)),
        ("for comparison, log Z of these", lambda: log_partition(lattices)),
        ("for comparison, marginals of these", lambda: marginals(lattices)),
    ]
    timed = [[name, f"{best(work):.1f}"] for name, work in rows]
    operations = lattices[0].plan().operations
    sizes = (
        f"{len(words):,} sentences, {words.n_tokens:,} tokens, {operations:,} operations a token"
    )
    return [*timed, ["sizes", sizes]]


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--joint", action="store_true", help="Decoding of two taggers.")
    options = parser.parse_args()
    rows = joint_parts(options.data) if options.joint else parts(problem(options.data))
    print(table(["part", "milliseconds"], rows))
    print(
        f"\n`python -m tests.benchmarks.breakdown --data DIR{' --joint' * options.joint}`, "
        f"{this().processor}, kernel {kernel.variant()}, one thread, commit {commit()}, "
        f"{datetime.now(UTC):%Y-%m-%d}."
    )


if __name__ == "__main__":
    main()
