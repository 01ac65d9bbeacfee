"""Ctrl-C ends a long call soon: a process is sent SIGINT while it is in one.

The kernel computes without looking for signals, so what takes long is several calls of it: these
give the same bits as one.
"""

from __future__ import annotations

import _thread
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

import numpy as np
import pytest

from fstcrf.kernel import Axis, Bound, Factor, JointChain, blocks, decoding, native
from fstcrf.kernel.native import Workers, patiently
from tests.support.command import ROOT

_PATIENCE = 5
"""Seconds that a busy machine may take; calls that do not look for signals took up to 40."""

_BEGIN = """
import warnings
import numpy as np
import fstcrf
from fstcrf import CRF, Corpus, Grammar, Lattice, Transducer
from fstcrf.training import Gold, Run
from fstcrf.errors import TooLargeError
warnings.simplefilter("ignore")
rng = np.random.default_rng(0)

def corpus(sentences, labels):
    rows = []
    for row in rng.integers(2000, size=(sentences, 25)):
        rows.append({"word": [f"w{i}" for i in row], "tag": [f"T{i % labels}" for i in row]})
    return Corpus.from_sentences(rows)

def names(n):
    return [f"l{k}" for k in range(n)]

def trained(labels):
    return CRF.train(corpus(60, labels), "tag", "U:%x[0,word]\\nB", max_iterations=2)

"""

CALLS: dict[str, str] = {
    "training": """
text = corpus(2000, 300)
begin()
CRF.train(text, "tag", "U:%x[0,word]\\nU:%x[-1,word]\\nB")
""",
    "training by threads": """
text = corpus(2000, 300)
begin()
CRF.train(text, "tag", "U:%x[0,word]\\nU:%x[-1,word]\\nB", run=Run(threads=2))
""",
    "tagging": """
model, text = trained(300), corpus(30000, 300)
begin()
while True:
    model.decode(text)
""",
    "tagging by threads": """
model, text = trained(300), corpus(30000, 300)
begin()
while True:
    model.decode(text, threads=2)
""",
    "marginals": """
model, text = trained(300), corpus(20000, 300)
begin()
while True:
    model.marginals_all(text)
""",
    "a chain search": """
cases = [f"Case={c}|X={x}" for c in range(24) for x in range(8)]
rows = []
for row in rng.integers(600, size=(300, 12)):
    labels = [["ADJ", "NOUN", "VERB"][i % 3] for i in row]
    feats = ["_" if one == "VERB" else cases[i % 192] for one, i in zip(labels, row)]
    rows.append({"word": [f"w{i}" for i in row], "pos": labels, "feats": feats})
text = Corpus.from_sentences(rows)
pos = CRF.train(text, "pos", "U:%x[0,word]\\nB", max_iterations=3)
feats = CRF.train(
    text, Gold("feats", partial=False), "U:%x[0,word]\\nU:%y[0,pos]\\nB", reads=[pos],
    max_iterations=3
)
rule = Grammar.from_text('''
tape pos, feats;
A = label["pos=ADJ feats=.*Case=.*"];
N = label["pos=NOUN feats=.*Case=.*"];
SAME = each c in values["feats", "Case=([^|]*)"] {
  label["pos=ADJ feats=.*Case={c}[|].*"] label["pos=NOUN feats=.*Case={c}[|].*"]
};
export AGREE = any* - (any* ((A N) - SAME) any*);
''')
both = fstcrf.compose(pos, feats, normalize="chain", grammar=rule)
begin()
while True:
    both.tag_all([{"word": row["word"]} for row in rows] * 7)
""",
    "a lattice search": """
labels = names(40)
scores, table = rng.normal(size=(400, 40)) / 9, rng.normal(size=(40, 40)) / 9
lattice = Lattice.from_arrays(labels, scores, table)
rules = " & ".join(f'at_most[3, "l{k}"]' for k in range(12))
rule = Grammar.from_text(f"export X = {rules};", labels)
begin()
while True:
    (lattice & rule).nbest(100)
""",
    "many paths of one sentence": """
lattice = Lattice.from_arrays(names(300), rng.normal(size=(3000, 300)), rng.normal(size=(300, 300)))
begin()
while True:
    lattice.nbest(20000)
""",
    "one long sentence": """
scores, table = rng.normal(size=(4000, 2500)), rng.normal(size=(2500, 2500))
lattice = Lattice.from_arrays(names(2500), scores, table)
begin()
while True:
    Lattice.from_arrays(names(2500), scores, table).marginals()
""",
    "arrays": """
scores, table = rng.normal(size=(200, 600, 400)), rng.normal(size=(400, 400))
begin()
while True:
    fstcrf.decode(scores, transitions=table, labels=names(400))
""",
    "a composition of transducers": """
n = 1_000_000
s, t, x = rng.integers(0, 50_000, n), rng.integers(0, 50_000, n), rng.integers(0, 99, n)
first = Transducer.from_arrays(s, x, x, t, None, np.zeros(50_000),
                               input_symbols=names(99), output_symbols=names(99), tape=None)
second = Transducer.from_table({name: [name, name + "y"] for name in names(99)})
begin()
while True:
    first @ second
""",
    "determinizing": """
rows = [f"0 0 l{k}" for k in range(3000)] + ["0 1 l0"]
rows += [f"{s} {s + 1} l{k}" for s in range(1, 12) for k in range(3000)] + ["12"]
machine = Transducer.from_text("\\n".join(rows), tape=None)
begin()
while True:
    try:
        machine.determinize()
    except TooLargeError:
        pass
""",
    "ways without symbols": """
n = 400
source, target = np.divmod(np.arange(n * n), n)
label = np.where(target == source + 1, 0, -1)
machine = Transducer.from_arrays(source, label, label, target, np.full(n * n, -9.0), np.zeros(n),
                                 input_symbols=["a"], output_symbols=["a"], tape=None)
begin()
while True:
    try:
        machine.remove_epsilon()
    except TooLargeError:
        pass
""",
    "text of a machine": """
text = "".join(f"{k} {k + 1} l{k % 99}\\n" for k in range(2_000_000))
begin()
while True:
    Transducer.from_text(text, tape=None)
""",
    "a grammar": """
text = 'export X = all t in parts["B-(.*)"] { at_most[1, t] };'
begin()
for n in range(100, 10_000):
    labels = ["O", *(f"B-{k}" for k in range(n))]
    Grammar.from_text(text, labels).accepts(["O"])
""",
}


@pytest.mark.thorough
@pytest.mark.skipif(sys.platform == "win32", reason="SIGINT is no signal there")
@pytest.mark.parametrize("name", CALLS)
def test_ctrl_c_ends_a_long_call(name: str) -> None:
    assert seconds(name) < _PATIENCE


def seconds(name: str) -> float:
    """Return how long it takes from SIGINT until a process in a long call has ended."""
    code = _BEGIN + "def begin():\n    print('begun', flush=True)\n" + CALLS[name]
    with subprocess.Popen(
        [sys.executable, "-c", code], stdout=-1, stderr=-1, text=True, cwd=ROOT
    ) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "begun\n", process.communicate()[1]
            time.sleep(2.5)  # it is in the call by now
            assert process.poll() is None, process.communicate()[1]
            process.send_signal(signal.SIGINT)
            begun = time.monotonic()
            assert "KeyboardInterrupt" in process.communicate(timeout=_PATIENCE)[1]
            return time.monotonic() - begun
        finally:
            process.kill()


# --- Several calls of the kernel ------------------------------------------------------------------


def batch(rng: Any) -> Bound:
    size, offsets = 7, np.concatenate([[0], np.cumsum(rng.integers(0, 9, size=30))])
    ends, arcs = np.zeros((1, size)), rng.normal(size=(1, size * size))
    factor = Factor(rows=1, width=size)
    machine = JointChain((Axis(size, score=arcs),), (factor,), None, ends, ends)
    return Bound(machine, offsets, (rng.normal(size=(int(offsets[-1]), 1, size)),))


def variants(one: Bound, rng: Any) -> decoding.Variants:
    lengths = np.diff(one.bounds)
    sentence = np.sort(rng.choice(np.flatnonzero(lengths), size=40))
    token = [np.flatnonzero(rng.random(lengths[s]) < 0.5) for s in sentence]
    ptr = np.concatenate([[0], np.cumsum([len(t) for t in token])])
    flat = np.concatenate(token).astype(np.int32)
    node = rng.normal(size=(len(flat), one.machine.width))
    place = np.arange(len(flat), dtype=np.int32)
    return decoding.Variants(sentence, ptr, flat, place, node)


QUESTIONS: dict[str, Callable[[Bound], Any]] = {
    "best": decoding.best_paths,
    "n best": lambda one: decoding.nbest_paths(one, 5),
    "n best above": lambda one: decoding.nbest_paths(one, 5, above=np.full(one.n_sentences, 3.0)),
    "log Z": decoding.log_partitions,
    "marginals": lambda one: decoding.axis_posterior(one, arcs=(0,), entropy=True),
    "max-marginals": decoding.axis_max_marginals,
    "samples": lambda one: decoding.sample_paths(
        one, np.random.default_rng(3).random((4, one.n_tokens))
    ),
    "variants": lambda one: decoding.rescored(
        one, variants(one, np.random.default_rng(5)), best=False
    ),
}


def flat(found: Any) -> list[Any]:
    if isinstance(found, tuple):
        return [x for part in found for x in flat(part)]
    return [] if found is None else [found]


@pytest.mark.parametrize("steps", [1, 400, 2000])
@pytest.mark.parametrize("question", QUESTIONS)
def test_several_calls_answer_as_one(
    question: str, steps: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, ask = batch(np.random.default_rng(1)), QUESTIONS[question]
    wanted = flat(ask(one))
    calls: list[tuple[int, int]] = []
    part = Bound.part

    def counted(self: Bound, first: int, end: int) -> Bound:
        calls.append((first, end))
        return part(self, first, end)

    monkeypatch.setattr(Bound, "part", counted)
    for module in (blocks, decoding, native):
        monkeypatch.setattr(module, "CALL_STEPS", steps)
    found = flat(ask(one))
    assert len(calls) > 3
    assert len(found) == len(wanted)
    assert all(np.array_equal(a, b) for a, b in zip(found, wanted, strict=True))


def test_a_patient_call_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native, "CALL_STEPS", 1)
    assert patiently(2, abs, -3) == 3
    assert patiently(0, abs, -3) == 3


@pytest.fixture
def interrupted() -> Iterator[None]:
    """Send SIGINT to this process in a moment."""
    usual = signal.signal(signal.SIGALRM, lambda *_: signal.raise_signal(signal.SIGINT))
    signal.setitimer(signal.ITIMER_REAL, 0.3)
    yield
    signal.signal(signal.SIGALRM, usual)


@pytest.mark.usefixtures("interrupted")
def test_what_other_threads_do_ends_behind_their_call() -> None:
    """Of parts that would never end by themselves."""

    def endless(_: int) -> None:
        while True:
            native.check(native.lib.FC_OK, "nothing")

    with pytest.raises(KeyboardInterrupt):
        list(Workers(2).map(endless, [1, 2, 3]))


def ask(way: str, part: Callable[[int], int]) -> list[int]:
    """Call a function for 0, 1, 2 on other threads."""
    if way == "begun":
        take = Workers(2).begun(lambda: [part(k) for k in range(3)])
        return [] if take is None else take()
    return list(getattr(Workers(2), way)(part, range(3)))


def interrupted_at(moment: int, way: str, part: Callable[[int], int]) -> bool:
    """Raise KeyboardInterrupt where Python would look for the signal for the nth time."""
    seen = 0

    def look(_: FrameType, event: str, __: Any) -> None:
        nonlocal seen
        seen += event in {"call", "c_return"}
        if seen == moment:
            sys.setprofile(None)
            raise KeyboardInterrupt

    sys.setprofile(look)
    try:
        ask(way, part)
    except KeyboardInterrupt:
        return True
    finally:
        sys.setprofile(None)
    return False


@pytest.mark.parametrize("way", ["map", "stream", "begun"])
def test_ctrl_c_at_any_moment_leaves_no_thread_waiting(way: str) -> None:
    def part(number: int) -> int:
        time.sleep(1e-3)
        return number

    def at(moment: int) -> None:
        ended.append(interrupted_at(moment, way, part))
        ended.append(ask(way, part) == [0, 1, 2])

    before, moment = _thread._count(), 1
    while True:
        ended: list[bool] = []
        thread = threading.Thread(target=at, args=(moment,), daemon=True)
        thread.start()
        thread.join(10)
        assert not thread.is_alive(), f"waits for ever after moment {moment}"
        assert ended[1]
        if not ended[0]:
            break
        moment += 1
    assert moment > 5
    # threads without work are kept; Ctrl-C while one is taken loses it
    assert _thread._count() <= before + 12


def test_a_thread_serves_again_after_its_map_has_ended() -> None:
    for _ in range(3):
        list(Workers(2).map(abs, [1, 2, 3]))
        take = Workers(2).begun(native.check, native.lib.FC_OK, "nothing")
        assert take is not None
        assert take() is None


if __name__ == "__main__":  # the figure in docs/reference/reliability.md
    for case in CALLS:
        sys.stdout.write(f"{seconds(case):6.2f} s  {case}\n")
        sys.stdout.flush()
