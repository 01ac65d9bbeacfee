"""First calls from many threads: what one of them uses, no other replaces or frees."""

from __future__ import annotations

import contextlib
import pickle
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pytest

import fstcrf
from fstcrf import CRF, Corpus, kernel
from fstcrf.constraints import at_most, contiguous
from fstcrf.ext.compat.pycrfsuite import Tagger, Trainer
from fstcrf.ext.feedback import FeedbackLearner, untrained
from fstcrf.kernel import Conjunction
from fstcrf.kernel.native import Workers, mapped
from fstcrf.lattices import Lattice
from fstcrf.lazy import made_once, memoised
from tests.property.test_pickles import KINDS_OF_THINGS, alike
from tests.support.command import ROOT

pytestmark = pytest.mark.filterwarnings(  # threads are compared, whatever is proven
    "ignore::fstcrf.errors.InexactWarning"
)

T = TypeVar("T")

THREADS = 8
LABELS = tuple(f"F{k}" for k in range(6))
WORDS = tuple(f"w{k}" for k in range(12))
TEMPLATE = "U:%x[0,word]\nB\n"


@pytest.fixture(autouse=True)
def often() -> Iterator[None]:
    """Switch between threads as often as can be."""
    usual = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(usual)


def together(ask: Callable[[int], T], threads: int = THREADS) -> list[T]:
    """Return what threads that begin at the same moment are told."""
    gate = threading.Barrier(threads, timeout=60)

    def go(number: int) -> T:
        gate.wait()
        return ask(number)

    with ThreadPoolExecutor(threads) as pool:
        return list(pool.map(go, range(threads)))


def fresh(model: T) -> T:
    """Return a copy in which nothing is laid out yet."""
    found: T = pickle.loads(pickle.dumps(model))
    return found


def corpus(seed: int, n: int = 30) -> Corpus:
    rng = np.random.default_rng(seed)
    rows = []
    for length in rng.integers(2, 9, size=n).tolist():
        words = rng.integers(len(WORDS), size=length)
        rows.append(
            {
                "word": [WORDS[i] for i in words],
                "y": [LABELS[i // 2] for i in words],
                "z": [f"Z{i % 3}" for i in words],
            }
        )
    return Corpus.from_sentences(rows)


TRAIN, TEST = corpus(1), [{"word": s["word"]} for s in corpus(2, 12)]


@pytest.fixture(scope="module")
def tagger() -> CRF:
    return CRF.train(TRAIN, "y", TEMPLATE, max_iterations=4)


@pytest.fixture(scope="module")
def reader(tagger: CRF) -> CRF:
    template = "U:%x[0,word]\nU:%y[0,y]\nB\n"
    return CRF.train(TRAIN, "z", template, reads=[tagger], max_iterations=4)


def models(tagger: CRF, reader: CRF) -> dict[str, Any]:
    """Return one tagger of each kind."""
    return {
        "tagger": tagger,
        "lazy": tagger & contiguous(LABELS),
        "expanded": tagger & at_most(1, LABELS[0]),
        "product": fstcrf.compose(tagger, reader, normalize="product"),
        "chain": fstcrf.compose(tagger, reader, normalize="chain"),
        "chain under a grammar": fstcrf.compose(tagger, reader, normalize="chain")
        & at_most(2, "Z1", tape="z"),
    }


KINDS = ("tagger", "lazy", "expanded", "product", "chain", "chain under a grammar")


# --- What is made once ------------------------------------------------------------------------


class Slow:
    """What is made only when all who could make it at once are there, or none came for a while."""

    def __init__(self) -> None:
        self.made = 0
        self._several = threading.Barrier(2)

    def __call__(self) -> object:
        self.made += 1
        with contextlib.suppress(threading.BrokenBarrierError):
            self._several.wait(0.2)
        return object()


def test_a_property_is_computed_once() -> None:
    class Owner:
        def __init__(self) -> None:
            self.slow = Slow()

        @made_once
        def value(self) -> object:
            return self.slow()

    owner = Owner()
    found = together(lambda _: owner.value)
    assert owner.slow.made == 1
    assert len(set(map(id, found))) == 1
    assert owner.value is found[0]
    assert isinstance(Owner.value, made_once)


def test_a_function_is_computed_once_for_each_argument() -> None:
    slow = [Slow(), Slow()]

    @memoised(4)
    def value(number: int) -> object:
        return slow[number]()

    found = together(lambda k: value(k % 2))
    assert [s.made for s in slow] == [1, 1]
    assert len(set(map(id, found))) == 2


def test_what_fails_is_tried_again() -> None:
    class Owner:
        tries = 0

        @made_once
        def value(self) -> int:
            self.tries += 1
            if self.tries < 3:
                raise ValueError(self.tries)
            return self.tries

    owner = Owner()
    for number in (1, 2):
        with pytest.raises(ValueError, match=str(number)):
            _ = owner.value
    assert owner.value == 3


def test_a_view_that_is_searched_is_never_replaced(
    tagger: CRF, monkeypatch: pytest.MonkeyPatch
) -> None:
    grammar = fresh(tagger & contiguous(LABELS))._program.decoder.conjunction
    assert grammar is not None
    first, second, returned = threading.Event(), threading.Event(), threading.Event()
    made = Conjunction._made

    def slow(self: Conjunction, longest: int) -> Any:
        if first.is_set():  # the second to make one: ready when the first is in use
            second.set()
            returned.wait(10)
        else:
            first.set()
            second.wait(0.5)
        return made(self, longest)

    monkeypatch.setattr(Conjunction, "_made", slow)

    def early() -> Any:
        view = grammar.view(8)
        returned.set()
        return view

    with ThreadPoolExecutor(2) as pool:
        one = pool.submit(early)
        assert first.wait(10)
        other = pool.submit(grammar.view, 8)
        assert one.result() is other.result()
    assert not second.is_set()


def test_the_variants_are_named_without_being_used() -> None:
    used = kernel.variant()
    together(lambda _: [kernel.variants() for _ in range(200)])
    assert kernel.variant() == used


# --- Searches in flight -----------------------------------------------------------------------


@pytest.mark.parametrize("name", KINDS_OF_THINGS)
def test_first_calls_are_alike(name: str) -> None:
    """Of whatever is public: copies in which nothing is laid out yet."""
    make, ask = KINDS_OF_THINGS[name]
    value = make()
    wanted, new = ask(value), fresh(value)
    assert all(alike(found, wanted) for found in together(lambda _: ask(new)))


@pytest.mark.thorough
@pytest.mark.parametrize("kind", KINDS)
def test_first_calls_tag_alike(kind: str, tagger: CRF, reader: CRF) -> None:
    """Sentence by sentence, each thread in another order, and together."""
    model = models(tagger, reader)[kind]
    wanted, paths = [model.tag(sentence) for sentence in TEST], model.paths_all(TEST)
    new = fresh(model)

    def ask(k: int) -> tuple[list[Any], Any]:
        turns = [(i + k) % len(TEST) for i in range(len(TEST))]
        found = {i: new.tag(TEST[i]) for i in turns}
        return [found[i] for i in range(len(TEST))], new.paths_all(TEST, threads=2)

    assert all(found == (wanted, paths) for found in together(ask))


@pytest.mark.thorough
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("kind", KINDS[:3])
def test_first_answers_of_batches_are_alike(
    kind: str, threads: int, tagger: CRF, reader: CRF
) -> None:
    def answers(model: Any) -> list[Any]:
        lattices = [model.lattice(sentence) for sentence in TEST]
        return [
            list(fstcrf.best(lattices, threads=threads)),
            list(fstcrf.nbest(lattices, 3, threads=threads)),
            [m.tolist() for m in fstcrf.marginals(lattices, threads=threads)],
            fstcrf.sample(lattices, 2, threads=threads),
        ]

    model = models(tagger, reader)[kind]
    wanted, new = answers(model), fresh(model)
    assert all(found == wanted for found in together(lambda _: answers(new)))


def test_threads_may_ask_one_batch() -> None:
    """Each call has its own work space."""
    rng = np.random.default_rng(4)
    size, offsets = 20, np.arange(0, 1001, 100)
    ends, arcs = np.zeros((1, size)), rng.normal(size=(1, size * size))
    per_token = kernel.Factor(rows=1, width=size)
    machine = kernel.JointChain((kernel.Axis(size, score=arcs),), (per_token,), None, ends, ends)
    values = rng.normal(size=(1000, 1, size))

    def answers(batch: kernel.Bound) -> list[Any]:
        found = [
            *kernel.best_paths(batch),
            *kernel.nbest_paths(batch, 3),
            kernel.log_partitions(batch),
            kernel.axis_posterior(batch).node[0],
            kernel.axis_max_marginals(batch)[0],
        ]
        return [np.asarray(a).tolist() for a in found]

    batch = kernel.Bound(machine, offsets, (values,))
    wanted = answers(batch)
    assert all(found == wanted for found in together(lambda _: answers(batch)))


def test_one_program_for_one_grammar() -> None:
    rng = np.random.default_rng(5)
    base = Lattice.from_arrays(LABELS, rng.normal(size=(5, len(LABELS))))
    grammar = contiguous(LABELS)
    found = together(lambda _: base & grammar)
    assert len({id(lattice.dense.program) for lattice in found}) == 1
    assert len({id(scaled.dense.program) for scaled in together(lambda _: base.scale(2.0))}) == 1


def test_learners_take_turns(tmp_path: Path) -> None:
    start = untrained(TEST, LABELS, TEMPLATE, tape="y")
    with FeedbackLearner.create(tmp_path / "learner", start, sync="process") as learner:

        def ask(k: int) -> list[int]:
            numbers = []
            for i in range(6):
                made = learner.propose(TEST[(i + k) % len(TEST)])
                learner.model().tag(TEST[i])
                learner.feedback(made, (i + k) % 2)
                numbers.append(made.id)
            return numbers

        numbers = [n for found in together(ask) for n in found]
        assert sorted(numbers) == list(range(6 * THREADS))
        assert learner.rewards == 6 * THREADS
        assert not learner.pending
        theta = learner.model().theta
    with FeedbackLearner.open(tmp_path / "learner") as again:  # one thread, in the same order
        assert np.array_equal(again.model().theta, theta)


def test_a_drop_in_answers_each_thread_about_its_own_sequence(tmp_path: Path) -> None:
    trainer = Trainer(verbose=False)
    for sentence in TRAIN:
        trainer.append([[word] for word in sentence["word"]], sentence["y"])
    trainer.set_params({"max_iterations": 4})
    trainer.train(str(tmp_path / "model"))
    items, other = ([[word] for word in sentence["word"]] for sentence in TEST[:2])

    class Shared(Tagger):
        """Before each look at the model, another thread sets its sequence."""

        def __getattribute__(self, name: str) -> Any:
            found = super().__getattribute__(name)
            if name == "_model":
                self._sequence = theirs
            return found

    tagger = Tagger()
    tagger.open(str(tmp_path / "model"))
    tagger.set(other)
    theirs, wanted = tagger._sequence, tagger.tag(items)
    assert wanted != tagger.tag(other)
    shared = Shared()
    shared.open(str(tmp_path / "model"))
    assert shared.tag(items) == wanted


# --- Other things that are shared -----------------------------------------------------------------


def test_the_page_answers_threads_alike(tagger: CRF, reader: CRF) -> None:
    for name in ("starlette", "uvicorn"):
        pytest.importorskip(name, reason="the extra fstcrf[inspect] is not installed")
    pytest.importorskip("httpx2", reason="httpx2 is not installed: nothing can ask the page")
    from starlette.testclient import TestClient

    from fstcrf.ext.inspect import Workbench, application

    model = fstcrf.compose(tagger, reader)
    bodies = [{"question": {"rows": [[word] for word in s["word"]]}} for s in TEST[:4]]

    def answers(client: Any) -> list[Any]:
        return [client.post("/api/answer", json=body).json()["score"] for body in bodies]

    address = "http://127.0.0.1:8642"
    with TestClient(application(Workbench(model)), base_url=address) as client:
        wanted = answers(client)
    with TestClient(application(Workbench(fresh(model))), base_url=address) as client:
        assert all(found == wanted for found in together(lambda _: answers(client)))


def test_the_variant_is_chosen_before_there_are_threads() -> None:
    """At import, once: afterwards threads only read which one it is."""
    code = (
        "from fstcrf.kernel import native\n"
        "from concurrent.futures import ThreadPoolExecutor as Pool\n"
        "calls = []\n"
        "native.lib = type('Watched', (), {'__getattr__': lambda _, name: calls.append(name) or "
        "getattr(lib, name)})() if (lib := native.lib) else None\n"
        "import fstcrf\n"
        "lattice = fstcrf.Lattice.from_arrays(['a', 'b'], [[0.0, 1.0]] * 3)\n"
        "with Pool(8) as pool: list(pool.map(lambda _: lattice.best(), range(64)))\n"
        "assert 'fc_use' not in calls, calls\n"
        "print(native.variant())\n"
    )
    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=False
    )
    assert (run.returncode, run.stdout.strip()) == (0, kernel.variant()), run.stderr[-2000:]


# --- The runner of threads ------------------------------------------------------------------------


@pytest.mark.parametrize("most", [None, 2])
def test_parts_come_in_order_and_end_with_the_first_error(most: int | None) -> None:
    workers, gate, begun = Workers(2), threading.Event(), []
    assert list(workers.map(lambda k: k * k, range(50), most=most)) == [k * k for k in range(50)]
    assert mapped(str, range(3), 8) == ["0", "1", "2"]

    def work(number: int) -> int:
        begun.append(number)
        if number == 0:
            gate.wait(60)
            raise ValueError(number)
        gate.set()
        time.sleep(0.001)
        return number

    with pytest.raises(ValueError, match="0"):
        list(workers.map(work, range(10_000), most=most))
    assert len(begun) < 10_000
    seen = len(begun)
    assert list(workers.map(abs, [-1])) == [1]
    assert len(begun) == seen, "a part of the call before was still to come"
