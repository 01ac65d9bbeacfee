"""Counting and ordering constraints over random classes, in Python and in files.

Against plain predicates over all label sequences of up to six tokens, or four of many labels.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import cast

import numpy as np
import pytest

from fstcrf import constraints as c
from fstcrf.arrays import Floats
from fstcrf.machines.grammar import Acceptor, Grammar, equivalent
from fstcrf.machines.grammar.labels import Names
from fstcrf.text.corpus import spans

SETS = [
    ("O", "B-X", "I-X"),
    ("a", "b", "c"),
    ("O", "S-X", "B-X"),
    ("B-X", "I-X", "B-Y"),
    ("B-X", "E-X", "I-X", "S-X", "O"),
    ("O", "I-X", "I-Y", "B-X"),
    ("O", "B-X", "L-X", "U-X"),
    ("O", "B", "I"),
    ("A", "B", "I", "C"),
    ("A", "a-b", "x-c"),
    ("B", "-LRB-", "A"),
]
Positions = Sequence[int]
Broken = Callable[..., int]


@dataclass(frozen=True)
class Named:
    """Names, as they are written in Python and in files, and what they mean among the labels."""

    names: Names
    text: str
    labels: frozenset[str]
    types: frozenset[str]
    known: tuple[str, ...]

    def kind(self, label: str) -> str | None:
        return label.partition("-")[2] if is_span_label(label, self.known) else None

    def tokens(self, sentence: Sequence[str]) -> list[int]:
        """Where a token has one of the labels, those of types included."""
        return [
            i
            for i, label in enumerate(sentence)
            if label in self.labels or self.kind(label) in self.types
        ]

    def places(self, sentence: Sequence[str]) -> list[int]:
        """Where one of the labels is, or a span of one of the types begins, as conlleval reads."""
        read = tuple(label if self.kind(label) is not None else "O" for label in sentence)
        begins = {start for start, kind in begun(read) if kind in self.types}
        return [i for i, label in enumerate(sentence) if label in self.labels or i in begins]


@cache
def begun(labels: tuple[str, ...]) -> list[tuple[int, str]]:
    """Start and type of each span, as conlleval reads them."""
    return [(span.start, span.type) for span in spans(labels, "conlleval")]


@cache
def is_span_label(label: str, labels: tuple[str, ...]) -> bool:
    letter, hyphen, _ = label.partition("-")
    bare = all(each.partition("-")[0] in tuple("OBIESLU") for each in labels)
    return letter in tuple("BIESLU") and (bool(hyphen) or bare)


def random_names(rng: np.random.Generator, labels: tuple[str, ...]) -> Named:
    """Labels, a class by regular expression, types, or several of them."""
    types = sorted(
        {label.partition("-")[2] for label in labels if is_span_label(label, labels)} - {""}
    )
    parts: list[tuple[Names, str, list[str], list[str]]] = []
    for _ in range(int(rng.integers(1, 3))):
        chosen = [label for label in labels if rng.random() < 0.5] or [labels[0]]
        kind = rng.choice(["label", "class", "any", "type", "spans"][: 5 if types else 3])
        if kind == "label":
            parts.append((chosen[0], f'"[{chosen[0]}]"', chosen[:1], []))
        elif kind == "class":
            pattern = "|".join(chosen)
            parts.append((c.label(pattern), f'label["{pattern}"]', chosen, []))
        elif kind == "any":
            parts.append((c.ANY, "any", list(labels), []))
        else:
            name = str(rng.choice(types))
            names = c.span(name) if kind == "spans" else name
            parts.append(
                (names, f'spans["{name}"]' if kind == "spans" else f'"{name}"', [], [name])
            )
    alone = parts[0][0] if len(parts) == 1 else [cast("str", part[0]) for part in parts]
    return Named(
        alone,
        " | ".join(text for _, text, _, _ in parts),
        frozenset(label for _, _, its, _ in parts for label in its),
        frozenset(kind for *_, its in parts for kind in its),
        labels,
    )


def before(first: Positions, second: Positions) -> int:
    return sum(any(j < i for j in second) for i in first)


# Constructor; whether it takes a count; how many names; violations from the places of each.
COUNTING: list[tuple[str, int, Broken]] = [
    ("at_most", 1, lambda k, a: max(0, len(a) - k)),
    ("at_least", 1, lambda k, a: max(0, k - len(a))),
    ("exactly", 1, lambda k, a: abs(len(a) - k)),
    ("before", 2, lambda _, a, b: before(a, b)),
    ("requires", 2, lambda _, a, b: int(bool(a) and not b)),
    ("if_present", 2, lambda _, a, b: int(bool(a) and not b)),
]
ABOUT_TOKENS: list[tuple[str, Callable[[Positions, int], int]]] = [
    ("never", lambda a, _: len(a)),
    ("start_with", lambda a, _: int(0 not in a)),
    ("end_with", lambda a, n: int(n - 1 not in a)),
]


def sequences(labels: Sequence[str]) -> list[list[tuple[str, ...]]]:
    longest = 6 if len(labels) == 3 else 4
    return [list(itertools.product(labels, repeat=n)) for n in range(1, longest + 1)]


def walked(acceptor: Acceptor, tokens: int) -> Floats:
    """Scores of all sequences of so many tokens."""
    size = len(acceptor.labels[0])
    read = np.indices([size] * tokens).reshape(tokens, -1)
    state, total = np.zeros(read.shape[1], dtype=np.int64), np.zeros(read.shape[1])
    for label in read:
        alive = state >= 0
        if acceptor.score is not None:
            total += np.where(alive, acceptor.score[state, label], 0.0)
        state = np.where(alive, acceptor.target[state, label], -1)
    return np.where(state >= 0, total + acceptor.final[state], -np.inf)


def check(
    make: Callable[..., Grammar],
    text: str,
    labels: tuple[str, ...],
    broken: Callable[[tuple[str, ...]], int],
) -> None:
    """Compare a constraint of Python and one of a file, soft and hard, with a predicate."""
    counts = [np.asarray([broken(s) for s in some]) for some in sequences(labels)]
    possible = any((count == 0).any() for count in counts)
    for weight, cost in ((-1.5, ", <1.5>"), (None, "")):
        if weight is None and not possible:
            continue
        found = make(weight=weight).bind(labels)
        written = Grammar.from_text(f"export X = {text.replace('@', cost)};").bind(labels)
        assert len(found) == len(written)
        assert all(itertools.starmap(equivalent, zip(found, written, strict=True)))
        for tokens, count in enumerate(counts, 1):
            total = sum(walked(acceptor, tokens) for acceptor in found)
            hard = np.where(count > 0, -np.inf, 0.0)
            assert np.array_equal(total, hard if weight is None else weight * count)


@pytest.mark.thorough
@pytest.mark.parametrize(("name", "n_names", "broken"), COUNTING, ids=[n for n, _, _ in COUNTING])
def test_occurrences(name: str, n_names: int, broken: Broken) -> None:
    for seed in range(33):
        rng = np.random.default_rng(seed)
        labels = SETS[seed % len(SETS)]
        given = [random_names(rng, labels) for _ in range(n_names)]
        k = int(rng.integers(0, 5))
        counts = [k] if name in ("at_most", "at_least", "exactly") else []

        def count(s: tuple[str, ...], given: list[Named] = given, k: int = k) -> int:
            places = [g.places(s) for g in given]
            if name == "if_present":  # the first name is asked of tokens
                places[0] = given[0].tokens(s)
            return broken(k, *places)

        make = partial(getattr(c, name), *counts, *(g.names for g in given))
        arguments = ", ".join([*map(str, counts), *(g.text for g in given)])
        check(make, f"{name}[{arguments}@]", labels, count)


@pytest.mark.thorough
@pytest.mark.parametrize(("name", "broken"), ABOUT_TOKENS, ids=[n for n, _ in ABOUT_TOKENS])
def test_tokens(name: str, broken: Callable[[Positions, int], int]) -> None:
    for seed in range(33):
        labels = SETS[seed % len(SETS)]
        given = random_names(np.random.default_rng(seed), labels)

        def count(s: tuple[str, ...], given: Named = given) -> int:
            return broken(given.tokens(s), len(s))

        check(partial(getattr(c, name), given.names), f"{name}[{given.text}@]", labels, count)


@pytest.mark.parametrize("seed", range(33))
def test_contiguous(seed: int) -> None:
    labels = SETS[seed % len(SETS)]
    given = random_names(np.random.default_rng(seed), labels)
    types = given.types | {kind for kind in map(given.kind, given.labels) if kind is not None}
    plain = {label for label in given.labels if given.kind(label) is None and label != "O"}

    def broken(s: tuple[str, ...]) -> int:
        again = 0
        for kind in types:
            alone = Named("", "", frozenset(), frozenset([kind]), labels)
            again += max(0, len(alone.places(s)) - 1)
        runs = [label for label, _ in itertools.groupby(s)]
        return again + sum(max(0, runs.count(label) - 1) for label in plain)

    if not types and not plain:
        assert c.contiguous(given.names).bind(labels) == ()
        return
    found = c.contiguous(given.names).bind(labels)
    assert len(found) == len(types) + len(plain)
    assert all(acceptor.n_states <= 3 for acceptor in found)
    check(partial(c.contiguous, given.names), f"contiguous[{given.text}@]", labels, broken)


@pytest.mark.thorough
@pytest.mark.parametrize("k", [100, 300, 1000])
def test_counts_of_hundreds(k: int) -> None:
    labels = ("O", "B-X", "I-X")
    for name, legal in (("at_most", (0, k)), ("at_least", (k, k + 3)), ("exactly", (k, k))):
        (found,) = getattr(c, name)(k, "X").bind(labels)
        (written,) = Grammar.from_text(f'export N = {name}[{k}, "X"];').bind(labels)
        assert equivalent(found, written)
        assert k + 1 <= found.n_states <= 2 * k + 3
        for n in (0, 1, k - 1, k, k + 1, k + 3):
            sentence = ["O", *["B-X", "I-X"] * n]
            assert (found.walk(sentence) == 0.0) == (legal[0] <= n <= legal[1]), (name, n)
        (soft,) = getattr(c, name)(k, "X", weight=-0.5).bind(labels)
        wrong = max(legal[0] - (k - 7), 0)
        assert soft.walk(["B-X"] * (k - 7)) == -0.5 * wrong
