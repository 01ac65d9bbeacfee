"""Our side of composition: lattices of random potentials, and taggers decided together.

``python -m tests.benchmarks.composed WORK JSON`` does one piece of work in a process of its own and
prints a JSON object.

Lattices are queried through ``fstcrf.best`` and its kin, on one thread; answers are looked at after
the clock has stopped. The first call of each kind is not measured.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import fstcrf
from fstcrf import Corpus, Lattice, constraints
from tests.benchmarks.running import in_turns
from tests.benchmarks.synthetic import ONCE, Chain, Pair, labels_22
from tests.benchmarks.taggers import COLUMNS, chunker, pos_tagger, words_of
from tests.benchmarks.work import answer

REPEATS = 5


def _seconds(work: Callable[[], object]) -> tuple[float, float]:
    """Return seconds of the processor and by the clock."""
    begun, clock = time.process_time(), time.perf_counter()
    work()
    return time.process_time() - begun, time.perf_counter() - clock


def _measured(
    sentences: int, works: Mapping[str, Callable[[], object]], repeats: int = REPEATS
) -> dict[str, Any]:
    """Do works in turns; medians of seconds a sentence."""
    for work in works.values():
        work()
    runs = in_turns(repeats, *(lambda work=work: _seconds(work) for work in works.values()))
    return {
        name: {
            clock: statistics.median(run[k] for run in of_work) / sentences
            for k, clock in enumerate(("cpu", "wall"))
        }
        for name, of_work in zip(works, runs, strict=True)
    }


# --- Random potentials ----------------------------------------------------------------------------


def _lattices(chain: Chain, labels: Sequence[str], tape: str = "label") -> list[Lattice]:
    return [Lattice.from_arrays(labels, node, chain.arc, tape=tape) for node in chain.node]


def once_lattices(chain: Chain) -> list[Lattice]:
    """Return lattices of 22 labels under BIO, one type at most once."""
    grammar = constraints.bio() & constraints.at_most(1, ONCE)
    return [lattice & grammar for lattice in _lattices(chain, labels_22())]


def pair_lattices(pair: Pair) -> list[Lattice]:
    """Return the products of two coupled tapes."""
    tapes = (
        _lattices(chain, [f"{tape}{k}" for k in range(len(chain.arc))], tape)
        for chain, tape in ((pair.first, "a"), (pair.second, "b"))
    )
    coupling = {(0, 1): pair.coupling}
    return [fstcrf.compose(a, b, coupling=coupling) for a, b in zip(*tapes, strict=True)]


def constrained(sentences: int) -> dict[str, Any]:
    """22 labels under BIO, one type at most once."""
    chain = Chain.random(sentences, len(labels_22()))
    lattices = once_lattices(chain)
    works = {
        "best": lambda: fstcrf.best(lattices),
        "built": lambda: fstcrf.best(once_lattices(chain)),
    }
    return {
        **_measured(sentences, works),
        "scores": fstcrf.best(lattices).scores.tolist(),
        "residual": lattices[0].dense.program.n_residual,
    }


def joint(sentences: int, labels: tuple[int, int]) -> dict[str, Any]:
    """Two tapes with a coupling: the product, unpruned."""
    pair = Pair.random(sentences, labels)
    lattices = pair_lattices(pair)
    works = {
        "best": lambda: fstcrf.best(lattices),
        "built": lambda: fstcrf.best(pair_lattices(pair)),
        "marginals": lambda: fstcrf.marginals(lattices),
        "log_z": lambda: fstcrf.log_partition(lattices),
    }
    return {**_measured(sentences, works), "scores": fstcrf.best(lattices).scores.tolist()}


def ranked(sentences: int) -> dict[str, Any]:
    """N best paths of 22 labels."""
    labels = labels_22()
    chain = Chain.random(sentences, len(labels))
    lattices = _lattices(chain, labels)
    works = {
        "best": lambda: fstcrf.best(lattices),
        "log_z": lambda: fstcrf.log_partition(lattices),
        "marginals": lambda: fstcrf.marginals(lattices),
        "nbest-10": lambda: fstcrf.nbest(lattices, 10),
        "nbest-100": lambda: fstcrf.nbest(lattices, 100),
        "nbest-10-built": lambda: fstcrf.nbest(_lattices(chain, labels), 10),
    }
    return _measured(sentences, works)


# --- Taggers --------------------------------------------------------------------------------------


def train(
    path: str, models: Sequence[str], jackknife: int, max_iterations: int | None
) -> dict[str, Any]:
    """Train both taggers on a column file, on two threads, and save them."""
    corpus = fstcrf.read_columns(path, COLUMNS)
    begun = time.perf_counter()
    first = pos_tagger(corpus, max_iterations=max_iterations)
    second = chunker(corpus, first, jackknife=jackknife, max_iterations=max_iterations)
    for tagger, model in zip((first, second), models, strict=True):
        tagger.save(model)
    return {"seconds": time.perf_counter() - begun}


def decoders(path: str, models: Sequence[str], rounds: int) -> dict[str, Any]:
    """Cascade, product and chain in turns, one thread; seconds of each round."""
    taggers = [fstcrf.load(model) for model in models]
    product = fstcrf.compose(*taggers, normalize="product")
    chain = fstcrf.compose(*taggers, normalize="chain")
    corpus = fstcrf.read_columns(path, COLUMNS)
    inexact: list[int] = []

    def chained(words: Corpus) -> None:
        inexact.append(chain.decode(words).unproven)

    works: dict[str, Callable[[Corpus], object]] = {
        "cascade": product.cascade,
        "product": product.tag_columns,
        "chain": chained,
    }

    def timed(work: Callable[[Corpus], object]) -> tuple[float, float]:
        words = words_of(corpus)
        return _seconds(lambda: work(words))

    runs = in_turns(rounds + 1, *(lambda work=work: timed(work) for work in works.values()))
    return {
        "sentences": len(corpus),
        "tokens": corpus.n_tokens,
        "inexact": inexact[0],
        "seconds": {name: of[1:] for name, of in zip(works, runs, strict=True)},
    }


if __name__ == "__main__":
    answer(globals())
