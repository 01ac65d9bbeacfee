"""Print how much of the laws' tables is answered: ``python -m tests.laws``."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import product

from tests.laws import gaps
from tests.laws.asking import QUESTIONS
from tests.laws.kinds import KINDS
from tests.laws.test_algebra import BESIDE, OPERATIONS
from tests.laws.test_questions import STATES


def show(title: str, known: Sequence[gaps.Gap], *sides: Iterable[str]) -> None:
    """Print a table: of each row and column, how many of the third side are answered."""
    columns, rows, depth = map(list, sides)
    answered = {c: gaps.gap_of(known, *c) is None for c in product(columns, rows, depth)}
    print(f"{title}: {sum(answered.values()):,} of {len(answered):,} answered\n")
    print(" " * 28, *(name[:7].ljust(7) for name in columns))
    for row in rows:
        counts = [sum(answered[column, row, one] for one in depth) for column in columns]
        print(row.ljust(28), *(f"{count}/{len(depth)}".ljust(7) for count in counts))
    print()


if __name__ == "__main__":
    show("Questions by kinds, in states", gaps.QUESTIONS, KINDS, QUESTIONS, STATES)
    show("Kinds (across) beside kinds, by operations", gaps.ALGEBRA, BESIDE, BESIDE, OPERATIONS)
