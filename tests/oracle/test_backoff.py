"""Failure arcs and ARPA files: against the definition, string by string."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest

from fstcrf import Lattice, Transducer
from fstcrf.errors import DataError, FstcrfError, OptionError, ShapeError, TooLargeError
from fstcrf.machines import sources

WORDS = ("a", "b", "c")
GRAMS: dict[tuple[str, ...], tuple[float, float]] = {
    ("<unk>",): (-2.0, 0.0),
    ("<s>",): (-99.0, -0.3),
    ("</s>",): (-0.7, 0.0),
    ("a",): (-0.6, -0.2),
    ("b",): (-0.9, -0.4),
    ("<s>", "a"): (-0.2, -0.1),
    ("a", "a"): (-0.8, 0.0),
    ("a", "b"): (-0.4, -0.25),
    ("b", "</s>"): (-0.3, 0.0),
    ("<s>", "a", "b"): (-0.15, 0.0),
    ("a", "b", "a"): (-0.5, 0.0),
}


def arpa(grams: dict[tuple[str, ...], tuple[float, float]]) -> str:
    lines = ["some words before", "", "\\data\\"]
    orders = range(1, 4)
    lines += [f"ngram {n}={sum(len(words) == n for words in grams)}" for n in orders]
    for n in orders:
        lines += ["", f"\\{n}-grams:"]
        for words, (score, weight) in grams.items():
            if len(words) == n:
                more = f"\t{weight}" if n < 3 and weight else ""
                lines.append(f"{score}\t{' '.join(words)}{more}")
    return "\n".join([*lines, "", "\\end\\", ""])


def probability(history: tuple[str, ...], word: str) -> float:
    """Return log10 p(word | history) by the definition of such files."""
    history = history[-2:]
    if (*history, word) in GRAMS:
        return GRAMS[(*history, word)][0]
    if not history:
        return -math.inf
    return GRAMS.get(history, (0.0, 0.0))[1] + probability(history[1:], word)


def score(labels: Sequence[str]) -> float:
    words = [x if (x,) in GRAMS else "<unk>" for x in labels]
    history: tuple[str, ...] = ("<s>",)
    total = 0.0
    for word in (*words, "</s>"):
        total += probability(history, word)
        history = (*history, word)
    return total * math.log(10)


def strings(most: int = 4) -> list[tuple[str, ...]]:
    return [s for n in range(most + 1) for s in itertools.product(WORDS, repeat=n)]


def of(machine: Transducer, labels: Sequence[str], alphabet: Sequence[str] = WORDS) -> float:
    return (Lattice.from_paths([[*labels]], [0.0], alphabet) @ machine).log_partition()


def test_a_model_says_what_the_definition_says(tmp_path: Path) -> None:
    (tmp_path / "model.lm").write_text(arpa(GRAMS))
    machine = Transducer.lm(tmp_path / "model.lm", labels=WORDS)
    for labels in strings():
        assert of(machine, labels) == pytest.approx(score(labels), abs=1e-9)
    whole = Transducer.lm(tmp_path / "model.lm")
    assert whole.input_symbols == ("<unk>", "a", "b")
    assert of(whole, "ab") == pytest.approx(score("ab"))
    assert of(whole, "ac") == -math.inf
    lattice = Lattice.from_arrays(WORDS, np.random.default_rng(0).normal(size=(3, 3)))
    scores = [lattice.score(s) + score(s) for s in itertools.product(WORDS, repeat=3)]
    assert (lattice @ machine).log_partition() == pytest.approx(np.logaddexp.reduce(scores))
    assert (lattice @ machine).tapes == lattice.tapes


@pytest.mark.parametrize("seed", range(60))
def test_failure_arcs_are_followed_where_a_state_has_none_of_its_own(seed: int) -> None:
    """Against a walk over sets of states with their scores, in both semirings."""
    rng = np.random.default_rng(seed)
    states, arcs = int(rng.integers(1, 6)), int(rng.integers(0, 12))
    source, target = rng.integers(states, size=(2, arcs))
    read = rng.integers(3, size=arcs)
    final = np.where(rng.random(states) < 0.4, rng.normal(size=states), -np.inf)
    ahead = np.asarray([int(rng.integers(-1, k)) if k else -1 for k in range(states)])[::1]
    price, weight = rng.normal(size=states), rng.normal(size=arcs)
    for semiring, total in (("log", np.logaddexp), ("tropical", np.maximum)):
        machine = Transducer.from_arrays(
            source, read, read, target, weight, final,
            input_symbols=WORDS, output_symbols=WORDS, tape=None,
            semiring="log" if semiring == "log" else "tropical",
        )  # fmt: skip
        found = machine.with_failures(ahead, price)
        for labels in strings(3):
            at = {0: 0.0}
            for label in labels:
                after: dict[int, float] = {}
                for state, value in at.items():
                    own = np.flatnonzero((source == state) & (read == WORDS.index(label)))
                    while not len(own) and ahead[state] >= 0:
                        value, state = value + price[state], int(ahead[state])  # noqa: PLW2901
                        own = np.flatnonzero((source == state) & (read == WORDS.index(label)))
                    for arc in own.tolist():
                        to, new = int(target[arc]), value + weight[arc]
                        after[to] = float(total(after.get(to, -np.inf), new))
                at = after
            wanted = -np.inf
            for state, value in at.items():
                while final[state] == -np.inf and ahead[state] >= 0:
                    value, state = value + price[state], int(ahead[state])  # noqa: PLW2901
                wanted = float(total(wanted, value + final[state]))
            assert of(found, labels) == pytest.approx(wanted, abs=1e-9)


def test_own_arcs_hide_those_behind() -> None:
    """The law above notices a machine in which both may be taken."""
    text = "0 0 a\n1 0 a\n0\n1"
    machine = Transducer.from_text(text, tape=None)
    both = Transducer.from_text(f"{text}\n0 0 a", tape=None)
    assert of(machine.with_failures([1, -1], [0.5, 0.0]), "a") == 0.0
    assert of(both, "a") > 0.5


FILES: dict[str, tuple[str, str]] = {
    "nothing": ("", r"no line \\data\\"),
    "cut short": (arpa(GRAMS)[:200], "announced|cut short|expected"),
    "without its end": (arpa(GRAMS).replace("\\end\\", ""), "cut short"),
    "another count": (arpa(GRAMS).replace("ngram 2=4", "ngram 2=5"), "4 2-grams, but 5"),
    "another order": (arpa(GRAMS).replace("\\2-grams:", "\\4-grams:"), "expected .2-grams"),
    "no number": (arpa(GRAMS).replace("-0.6", "x"), "a score is no number"),
    "NaN": (arpa(GRAMS).replace("-0.6", "nan"), "NaN"),
    "a back-off at the end": (
        arpa(GRAMS).replace("-0.5\ta b a", "-0.5\ta b a\t-0.1"),
        "5 fields, .* 3 words, of the highest order without a back-off",
    ),
    "no end of sentences": (
        arpa({w: x for w, x in GRAMS.items() if w != ("</s>",)}),
        "no </s> among the 1-grams",
    ),
    "an n-gram twice": (
        arpa(GRAMS).replace("ngram 2=4", "ngram 2=5").replace("\n-0.4\ta b", 2 * "\n-0.4\ta b"),
        "'a b' is there twice, in line",
    ),
    "a word twice": (
        arpa(GRAMS).replace("ngram 1=5", "ngram 1=6").replace("\n-0.6\ta", "\n-0.6\ta\n-0.6\ta"),
        "'a' is there twice, in line",
    ),
    "a probability above 1": (
        arpa(GRAMS).replace("-0.4\ta b", "0.4\ta b"),
        "0.4, expected 0 or less",
    ),
    "a word that is no 1-gram": (arpa(GRAMS).replace("-0.4\ta b", "-0.4\ta c"), "the word 'c'"),
    "too many words": (arpa(GRAMS).replace("-0.6\ta", "-0.6\ta b c d"), "6 fields|fields, expect"),
}


@pytest.mark.parametrize("name", FILES)
def test_files_that_are_none_are_refused_with_their_line(name: str, tmp_path: Path) -> None:
    text, message = FILES[name]
    (tmp_path / "bad.lm").write_text(text)
    with pytest.raises(DataError, match=message) as caught:
        Transducer.lm(tmp_path / "bad.lm")
    assert caught.value.line
    assert "bad.lm" in str(caught.value)
    assert "\n" not in str(caught.value)


ONE = "0 1 a\n1"


@pytest.mark.parametrize(
    ("ask", "error", "text"),
    [
        (lambda m: m.with_failures([1, 0], [0, 0]), OptionError, "form a cycle: 0 → 1 → 0"),
        (lambda m: m.with_failures([1], [0]), ShapeError, r"expected \[2\]"),
        (lambda m: m.with_failures([2, -1], [0, 0]), ShapeError, "expected 0 to 1"),
        (lambda m: m.with_failures([1, -1], [0, np.nan]), FstcrfError, "NaN"),
    ],
)
def test_failure_arcs_that_are_none_are_refused(
    ask: Callable[[Transducer], object], error: type[FstcrfError], text: str
) -> None:
    with pytest.raises(error, match=text):
        ask(Transducer.from_text(ONE, tape=None))


def test_what_is_too_large_to_expand_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "MOST_ARCS", 1)
    machine = Transducer.from_text("0 1 a\n0 1 b\n1", tape=None)
    with pytest.raises(TooLargeError, match="2 states over 2 labels has more than 1 arcs"):
        machine.with_failures([1, -1], [0.0, 0.0])
    silent = Transducer.from_text("0 1 <eps> x\n1")
    with pytest.raises(OptionError, match="state 0 has an arc that reads epsilon"):
        silent.with_failures([-1, -1], [0.0, 0.0])
