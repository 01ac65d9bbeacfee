"""Tasks of seconds that only a right trainer solves, and only with the right model."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from fstcrf import CRF, evaluate_tokens

Sentences = list[dict[str, list[str]]]
Task = Callable[[np.random.Generator, int], tuple[list[str], list[str]]]


def sample(task: Task, seed: int, n: int) -> Sentences:
    rng = np.random.default_rng(seed)
    pairs = [task(rng, int(rng.integers(4, 12))) for _ in range(n)]
    return [{"x": x, "y": y} for x, y in pairs]


def accuracy(task: Task, template: str, *, n: int = 150, **options: Any) -> float:
    if options.get("method") not in UNPENALISED:
        options.setdefault("l2", 0.01)
    model = CRF.train(sample(task, 1, n), "y", template, **options)
    test = sample(task, 2, 60)
    return evaluate_tokens([s["y"] for s in test], model.tag_all(test)).accuracy


def letters(rng: np.random.Generator, length: int, alphabet: str = "abc") -> list[str]:
    return [alphabet[i] for i in rng.integers(len(alphabet), size=length)]


UNPENALISED = {"ap", "pa", "arow", "perceptron"}
METHODS = ["lbfgs", "l2sgd", *sorted(UNPENALISED)]
WORD = "U:%x[0,x]\nB\n"


def copy(rng: np.random.Generator, length: int) -> tuple[list[str], list[str]]:
    x = letters(rng, length)
    return x, [letter.upper() for letter in x]


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("method", "order"), [*((method, 1) for method in METHODS), ("lbfgs", 0), ("lbfgs", 2)]
)
def test_copy(method: str, order: int) -> None:
    assert accuracy(copy, WORD, method=method, order=order, max_iterations=30) == 1.0


def previous(rng: np.random.Generator, length: int) -> tuple[list[str], list[str]]:
    """The label is the letter before; the letter itself says nothing."""
    x = letters(rng, length)
    return x, [letter.upper() for letter in ["a", *x[:-1]]]


@pytest.mark.parametrize("method", METHODS)
def test_previous_letter(method: str) -> None:
    options: dict[str, Any] = {"method": method, "max_iterations": 30}
    assert accuracy(previous, "U:%x[-1,x]\n", **options) == 1.0
    assert accuracy(previous, "U:%x[0,x]\n", **options) < 0.6


def alternate(rng: np.random.Generator, length: int) -> tuple[list[str], list[str]]:
    """X starts a run that alternates with Y; only the first letter tells which begins."""
    first = int(rng.integers(2))
    x = ["ab"[first]] + ["c"] * (length - 1)
    return x, ["XY"[(first + t) % 2] for t in range(length)]


@pytest.mark.parametrize("method", METHODS)
def test_previous_label(method: str) -> None:
    options: dict[str, Any] = {"method": method, "max_iterations": 60}
    assert accuracy(alternate, WORD, **options) == 1.0
    assert accuracy(alternate, WORD, order=0, **options) < 0.8
    assert accuracy(alternate, "U:%x[0,x]\n", **options) < 0.8, "no B, no transitions"


def bigram(rng: np.random.Generator, length: int) -> tuple[list[str], list[str]]:
    """A ? is X, unless the label before is X: two X never follow each other."""
    x: list[str] = []
    y: list[str] = []
    for _ in range(length):
        after_x = y[-1:] == ["X"]
        letter = str(rng.choice(list("b" if x[-1:] == ["?"] else "b?") + ["a"] * (not after_x)))
        x.append(letter)
        y.append({"a": "X", "b": "Y", "?": "Z" if after_x else "X"}[letter])
    return x, y


@pytest.mark.parametrize("method", METHODS)
def test_forbidden_bigram(method: str) -> None:
    options: dict[str, Any] = {"method": method, "max_iterations": 60}
    assert accuracy(bigram, WORD, **options) == 1.0
    assert accuracy(bigram, WORD, order=0, **options) < 0.95


def test_a_forbidden_bigram_is_not_there() -> None:
    """Successions that the data does not show are left out of the model: no path has one."""
    model = CRF.train(sample(bigram, 1, 50), "y", WORD, scheme="observed")
    assert model.lattice({"x": ["a", "a"]}).score(["X", "X"]) == -np.inf
    tags = model.tag({"x": ["a"] * 50})
    assert not any(a == b == "X" for a, b in itertools.pairwise(tags))


def period_three(rng: np.random.Generator, length: int) -> tuple[list[str], list[str]]:
    """P P Q P P Q ...: after a P comes what the label before it decides."""
    phase = int(rng.integers(3))
    y = ["PPQ"[(phase + t) % 3] for t in range(length)]
    return [f"s{phase}", *["c"] * (length - 1)], y


@pytest.mark.parametrize("method", METHODS)
def test_a_pattern_of_second_order(method: str) -> None:
    options: dict[str, Any] = {"method": method, "max_iterations": 100}
    chain = {**options, "transitions": "all"}
    # With s0 and s1 alike the first label is P: the history says which P it is.
    assert accuracy(period_three, WORD + "U2:%x[-1,x]\n", order=2, **chain) == 1.0
    assert accuracy(period_three, WORD + "U2:%x[-1,x]\n", order=1, **chain) < 0.9
    assert accuracy(period_three, WORD + "U2:%x[-1,x]\n", order=0, **options) < 0.9


def exclusive(rng: np.random.Generator, length: int) -> tuple[list[str], list[str]]:
    """Equal to its neighbour or not: a conjunction tells, its parts do not."""
    x = letters(rng, length, "ab")
    return x, ["E" if a == b else "D" for a, b in zip(["a", *x], x, strict=False)]


def test_conjunction() -> None:
    assert accuracy(exclusive, "U1:%x[-1,x]/%x[0,x]\nU2:%x[0,x]\n") > 0.97
    assert accuracy(exclusive, "U1:%x[-1,x]\nU2:%x[0,x]\nB\n") < 0.8


def switched(rng: np.random.Generator, length: int) -> tuple[list[str], list[str]]:
    """A letter says whether the label stays or changes: an attribute of label pairs."""
    x = letters(rng, length, "sc")
    y = ["X"]
    for letter in x[1:]:
        y.append(y[-1] if letter == "s" else "XY"[y[-1] == "X"])
    return x, y


def test_attributes_of_label_pairs() -> None:
    assert accuracy(switched, "B:%x[0,x]\nBOS\n") == 1.0
    assert accuracy(switched, WORD + "BOS\n") < 0.8


def test_first_and_last_label() -> None:
    """Nothing but the ends tells them: potentials of beginning and ending do."""

    def ends(rng: np.random.Generator, length: int) -> tuple[list[str], list[str]]:
        return ["c"] * length, ["F", *["M"] * (length - 2), "L"]

    assert accuracy(ends, "U:%x[0,x]\nB\n", ends=True, transitions="all") == 1.0
    assert accuracy(ends, "U:%x[0,x]\n") < 0.9


def test_real_values() -> None:
    """The label is the sign of a number."""
    rng = np.random.default_rng(0)
    numbers = [rng.normal(size=6) for _ in range(80)]
    data = [[{"n": float(v)} for v in row] for row in numbers]
    target = [["P" if v > 0 else "N" for v in row] for row in numbers]
    model = CRF.train(data[:60], target[:60], l2=0.001, transitions="observed")
    assert evaluate_tokens(target[60:], model.tag_all(data[60:])).accuracy > 0.97


def test_partial_labels_teach() -> None:
    """Every second label unknown, one in four given as one of two."""
    rng = np.random.default_rng(3)
    data = sample(copy, 1, 100)
    for sentence in data:
        for t, label in enumerate(sentence["y"]):
            draw = rng.random()
            if draw < 0.5:
                sentence["y"][t] = "_"
            elif draw < 0.75:
                sentence["y"][t] = "|".join(sorted({label, "ABC"[int(rng.integers(3))]}))
    model = CRF.train(data, "y", WORD, l2=0.01, partial=True)
    test = sample(copy, 2, 30)
    assert model.tag_all(test) == [s["y"] for s in test]
