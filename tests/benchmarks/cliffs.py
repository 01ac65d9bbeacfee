"""Ordinary inputs beside the benchmark's own, and how much the default loses on the worst of them.

``python -m tests.benchmarks.cliffs WORK JSON`` does one piece of work in a process of its own and
prints a JSON object.
"""

from __future__ import annotations

import statistics
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial, reduce
from itertools import pairwise
from operator import and_
from typing import Any, Literal

import numpy as np

import fstcrf
from fstcrf import Budget, Grammar, Lattice, constraints
from fstcrf.arrays import Floats
from fstcrf.errors import InexactWarning, NoPathError, TooLargeError
from tests.benchmarks.running import in_turns
from tests.benchmarks.work import answer, seconds_of

SEED = 20_26
"""Of the family that is reported; another one draws another family."""

MOST_CELLS = 1 << 14
"""Joint states of the tapes of a case, without a grammar."""

SECONDS = 0.05
"""Of the processor, that a measurement goes on for at least; one answer at least."""

SLOW = 0.5
"""Seconds of a first answer from which one measurement is enough."""

SUSPECT = 1.4
"""A case that looks worse is measured again, three times as often: other programs disturb some."""

ONCE = 4.0
"""... from which it is the measurement: what the grammar takes to compile is little beside it."""

TOKENS = 512
"""Best paths are asked for in lists of about so many tokens, as taggers do."""

SAME = 1e-9  # relative, of scores

Way = Literal["auto", "lazy", "expanded"]
WAYS: tuple[Way, ...] = ("auto", "expanded", "lazy")

LONGER = 4
"""A search that takes so many times as long as the product, and so many seconds, has lost to it: it
is ended."""
LEAST = 0.5


@dataclass(frozen=True, slots=True)
class Case:
    """One sentence under one grammar.

    Parameters
    ----------
    number, seed : int
        Of its scores and of the family.
    types : tuple of int
        Types of span of each tape.
    scheme : {"bio", "bioes"}
    tokens, spans : int
    margin : float or None
        What a gold label scores more than the others, whose scores are standard normal; None:
        there is no gold labelling.
    rules : tuple of (str, int, int, int)
        Conjuncts beside the scheme: a constraint, the tape that it is on, what it is about.
    n : int
        Paths that are asked for.
    """

    number: int
    types: tuple[int, ...]
    scheme: str
    tokens: int
    spans: int
    margin: float | None
    rules: tuple[tuple[str, int, int, int], ...]
    n: int = 1
    seed: int = SEED

    def __str__(self) -> str:
        margin = "noise" if self.margin is None else f"margin {self.margin:g}"
        rules = " & ".join(
            f"{name}({', '.join(map(str, numbers))}) on tape {tape}"
            for name, tape, *numbers in self.rules
        )
        types = " × ".join(map(str, self.types))
        best = f"{self.n} best paths, " if self.n > 1 else ""
        return (
            f"{best}{types} types, {self.scheme}, {self.tokens:,} tokens, {self.spans} spans, "
            f"{margin}: {rules}"
        )

    def labels(self, tape: int) -> list[str]:
        parts = "BI" if self.scheme == "bio" else "BIES"
        return ["O", *(f"{part}-{_type(k)}" for k in range(self.types[tape]) for part in parts)]

    def lattice(self) -> Lattice:
        """Return the sentence, without its grammar."""
        rng = np.random.default_rng([self.seed, self.number])
        tapes = []
        for tape in range(len(self.types)):
            scores = rng.normal(size=(self.tokens, len(self.labels(tape))))
            if self.margin is not None:
                scores[range(self.tokens), self._gold(rng, tape)] += self.margin
            tapes.append(Lattice.from_arrays(self.labels(tape), scores, tape=f"tape{tape}"))
        return fstcrf.compose(*tapes) if len(tapes) > 1 else tapes[0]

    def _gold(self, rng: np.random.Generator, tape: int) -> list[int]:
        """Return labels with so many spans, of types that come again."""
        names = {label: i for i, label in enumerate(self.labels(tape))}
        places = sorted(rng.choice(self.tokens, size=self.spans, replace=False).tolist())
        gold = ["O"] * self.tokens
        for start, end in pairwise([*places, self.tokens]):
            name, length = _type(int(rng.integers(self.types[tape]))), int(rng.integers(1, 5))
            stop = min(start + length, end)
            gold[start:stop] = [f"I-{name}"] * (stop - start)
            gold[start] = f"B-{name}"
            if self.scheme == "bioes":
                gold[stop - 1] = f"E-{name}" if stop - start > 1 else f"S-{name}"
        return [names[label] for label in gold]

    def grammar(self) -> Grammar:
        schemes = [
            constraints.tagging_scheme(self.scheme, tape=f"tape{tape}")
            for tape in range(len(self.types))
        ]
        return reduce(and_, [*schemes, *(_rule(*rule) for rule in self.rules)])


def _type(number: int) -> str:
    return f"T{number}"


def _rule(name: str, tape: int, a: int, b: int) -> Grammar:
    where = f"tape{tape}"
    if name == "contiguous":
        return constraints.contiguous([_type(k) for k in range(a)], tape=where)
    if name == "at_most":
        return constraints.at_most(b, _type(a), tape=where)
    if name == "before":
        return constraints.before(_type(a), _type(b), tape=where)
    return constraints.if_present(_type(a), _type(b), tape=where)


def drawn(number: int, seed: int = SEED) -> Case:
    """Return one of the cases; the same for the same number and seed."""
    rng = np.random.default_rng([seed, number, 1])
    tapes = int(rng.choice([1, 2, 3], p=[0.6, 0.25, 0.15]))
    scheme = str(rng.choice(["bio", "bioes"]))
    most = {1: 30, 2: 12, 3: 4}[tapes]
    types = tuple(_between(rng, 2, most) for _ in range(tapes))
    tokens = _between(rng, 5, 2000)
    spans = int(rng.integers(0, min(40, tokens // 2) + 1))
    margin = None if rng.random() < 0.25 else round(float(rng.uniform(0, 12)), 1)
    rules = tuple(_drawn_rule(rng, types) for _ in range(int(rng.integers(1, 5))))
    n = int(rng.choice([1, 3, 10], p=[0.8, 0.1, 0.1]))
    case = Case(number, types, scheme, tokens, spans, margin, rules, n, seed)
    while np.prod([len(case.labels(k)) for k in range(tapes)]) > MOST_CELLS:
        case = replace(case, types=tuple(max(2, n - 1) for n in case.types))
        case = replace(case, rules=tuple(_within(rule, case.types) for rule in case.rules))
    return case


def _between(rng: np.random.Generator, low: int, high: int) -> int:
    """Draw a whole number whose logarithm is uniform."""
    return int(np.floor(np.exp(rng.uniform(np.log(low), np.log(high + 1)))))


def _drawn_rule(rng: np.random.Generator, types: Sequence[int]) -> tuple[str, int, int, int]:
    name = str(rng.choice(["contiguous", "at_most", "before", "if_present"]))
    tape = int(rng.integers(len(types)))
    a, b = rng.permutation(types[tape])[:2].tolist()
    if name == "contiguous":
        whole = rng.random() < 0.5
        return name, tape, types[tape] if whole else int(rng.integers(2, types[tape] + 1)), 0
    if name == "at_most":
        return name, tape, a, int(rng.integers(1, 4))
    return name, tape, a, b


def _within(rule: tuple[str, int, int, int], types: Sequence[int]) -> tuple[str, int, int, int]:
    name, tape, a, b = rule
    most = types[tape]
    if name == "contiguous":
        return name, tape, min(a, most), b
    if name == "at_most":
        return name, tape, min(a, most - 1), b
    a = min(a, most - 1)
    return name, tape, a, min(b, most - 1) if min(b, most - 1) != a else (a + 1) % most


# --- Measuring ------------------------------------------------------------------------------------


def measured(case: Case, rounds: int = 3) -> dict[str, Any]:
    """Return what each way takes and finds, and what the default loses against the better one."""
    lattice, grammar, n = case.lattice(), case.grammar(), case.n
    grammar.bind({tape: lattice.dense.program.labels(tape) for tape in lattice.tapes})
    ways: dict[str, dict[str, Any]] = {}
    answers: dict[str, Lattice] = {}
    for way in WAYS:
        product = ways.get("expanded", {}).get("first") if way == "lazy" else None
        limit = None if product is None else Budget(seconds=max(LEAST, LONGER * product))
        begun = time.process_time()
        try:
            answers[way] = lattice.constrained(grammar, search=way, budget=limit)
            found = _answer(answers[way], n)
        except (TooLargeError, NoPathError) as error:
            ways[way] = {"error": str(error)}
            answers.pop(way, None)
            continue
        ways[way] = {"first": time.process_time() - begun, **found}
    slow = max(found.get("first", 0.0) for found in ways.values()) > SLOW
    again = {way: lattice for way, lattice in answers.items() if ways[way]["first"] < ONCE}
    for found in ways.values():
        if found.get("first", 0.0) >= ONCE:
            found["seconds"] = found["alone"] = found["first"]
    taken = _Times(again, n)
    taken.measure(1 if slow else rounds, ways)
    if (_compared(ways)["ratio"] or 0.0) > SUSPECT:
        taken.measure(2 if slow else 3 * rounds, ways)
    return {"case": asdict(case), "text": str(case), "ways": ways, **_compared(ways)}


def _answer(lattice: Lattice, n: int) -> dict[str, Any]:
    if n == 1:
        paths = fstcrf.best([lattice])
        if paths[0] is None:
            raise NoPathError("no path")
        return {
            "score": paths.scores.tolist(),
            "exact": bool(paths.exact[0]),
            "popped": int(paths.states_expanded[0]),
        }
    several = lattice.nbest(n)
    return {"score": [p.score for p in several], "exact": all(p.exact for p in several)}


class _Times:
    """Seconds of answers, each way in turn."""

    def __init__(self, lattices: dict[str, Lattice], n: int) -> None:
        self._lattices, self._n = lattices, n
        names = ("seconds", "alone")
        self._taken: dict[str, dict[str, list[float]]] = {
            way: {name: [] for name in names} for way in lattices
        }

    def measure(self, rounds: int, ways: dict[str, dict[str, Any]]) -> None:
        """Measure so many times more; write medians down: in lists, and of one sentence a call."""
        for _ in range(rounds):
            for way, lattice in self._lattices.items():
                size = max(1, TOKENS // len(lattice))
                taken = self._taken[way]
                taken["seconds"].append(_seconds(lattice, self._n, size))
                if size > 1:
                    taken["alone"].append(_seconds(lattice, self._n, 1))
        for way, taken in self._taken.items():
            for name in taken:
                ways[way][name] = statistics.median(taken[name] or taken["seconds"])


def _seconds(lattice: Lattice, n: int, size: int) -> float:
    several = [lattice] * size
    begun, answers = time.process_time(), 0
    while True:
        if n == 1:
            fstcrf.best(several)
        else:
            fstcrf.nbest(several, n)
        answers += len(several)
        if (taken := time.process_time() - begun) >= SECONDS:
            return taken / answers


def _compared(ways: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """Return the ratio to the better way, and whether the answer is worse than it could be."""
    default = ways["auto"]
    others = [ways[way] for way in WAYS[1:] if "score" in ways[way]]
    exact = [other for other in others if other["exact"]]
    if "score" not in default:
        return {"ratio": None, "lost": bool(others)}
    ratio, alone, first = (
        default[name] / min(other[name] for other in exact or others)
        for name in ("seconds", "alone", "first")
    )
    lost = bool(exact) and not (
        default["exact"] and np.allclose(default["score"], exact[0]["score"], rtol=SAME, atol=SAME)
    )
    return {
        "ratio": ratio,
        "alone_ratio": alone,
        "first_ratio": first,
        "lost": lost,
        "provable": bool(exact),
    }


def searches(cases: int, seed: int = SEED, rounds: int = 3) -> dict[str, Any]:
    """Best paths of drawn cases, in three ways; the worst first."""
    warnings.simplefilter("ignore", InexactWarning)
    found = [measured(drawn(number, seed), rounds) for number in range(cases)]
    found.sort(key=lambda one: (one["lost"], one["ratio"] or 0.0), reverse=True)
    return {"cases": found}


def grammars(lattices: int, rounds: int = 5) -> dict[str, Any]:
    """A grammar object for each lattice against one for all; seconds a lattice."""
    labels = ["O", *(f"{part}-{_type(k)}" for k in range(8) for part in "BIES")]
    rng = np.random.default_rng(SEED)
    plain: list[Floats] = [rng.normal(size=(24, len(labels))) for _ in range(lattices)]
    one = constraints.bioes()
    given = [Lattice.from_arrays(labels, scores) for scores in plain]
    works: dict[str, Callable[[], object]] = {
        "one": lambda: fstcrf.best([lattice & one for lattice in given]),
        "each": lambda: fstcrf.best([lattice & constraints.bioes() for lattice in given]),
    }
    taken = in_turns(rounds + 1, *(partial(seconds_of, work) for work in works.values()))
    return {
        name: statistics.median(seconds[1:]) / lattices
        for name, seconds in zip(works, taken, strict=True)
    }


if __name__ == "__main__":
    answer(globals())
