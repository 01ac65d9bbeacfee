"""Transducers of arrays, of pairs of strings, and of tables of labels."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from fstcrf.arguments import check_strings, integer_array, items_of, real_array, real_number
from fstcrf.errors import OptionError, ShapeError, TooLargeError
from fstcrf.machines.machine import Machine, Semiring
from fstcrf.text.lines import text_fields


def columns(
    given: Mapping[str, ArrayLike],
    score: ArrayLike | None,
    final: ArrayLike | None,
    named: Mapping[str, ArrayLike],
) -> dict[str, Any]:
    """Return the arrays of `Transducer.from_arrays` as the fields of a `Transducer`."""
    found: dict[str, Any] = {
        name: integer_array(values, f"transducer: {name}", np.int32, unit="arcs")
        for name, values in given.items()
    }
    count = len(found["source"])
    states = int(max(found[name].max(initial=0) for name in ("source", "target"))) + 1
    if final is None and states > 1_000_000 + 16 * count:
        raise TooLargeError(
            f"transducer: {states:,} states for {count:,} arcs: number them without gaps"
        )
    scores = np.zeros(count) if score is None else real_array(score, "transducer: score")
    ends = np.zeros(states) if final is None else real_array(final, "transducer: final")
    uses = {name: real_array(of, f"transducer: named[{name!r}]") for name, of in named.items()}
    return {**found, "score": scores, "final": ends, "named": uses}


def of_pairs(
    pairs: Iterable[tuple[str | Sequence[str], str | Sequence[str]]],
    scores: ArrayLike | None,
    semiring: Semiring,
    tape: str | None,
) -> Machine:
    """Return the transducer of pairs of strings; see `Transducer.from_pairs`."""
    try:
        both = [(_labels(a), _labels(b)) for a, b in pairs]
    except (TypeError, ValueError):
        raise OptionError(
            "each pair must be (inputs, outputs): two sequences of labels, or two strings of labels"
        ) from None
    check_strings((x for pair in both for side in pair for x in side), "a label")
    values = np.zeros(len(both)) if scores is None else real_array(scores, "scores")
    if values.shape != (len(both),):
        raise ShapeError(f"scores are {list(values.shape)}, expected [{len(both)}], one a pair")
    symbols = [dict.fromkeys(x for pair in both for x in pair[side]) for side in (0, 1)]
    numbers = [{x: k for k, x in enumerate(table)} for table in symbols]
    arcs: dict[tuple[int, int, int], int] = {}
    final = [-np.inf]
    for pair, score in zip(both, values.tolist(), strict=True):
        state = 0
        columns = [[n[x] for x in side] for n, side in zip(numbers, pair, strict=True)]
        for k in range(max(map(len, columns))):
            read, write = (column[k] if k < len(column) else -1 for column in columns)
            state = arcs.setdefault((state, read, write), len(arcs) + 1)
            final += [-np.inf] * (state + 1 - len(final))
        total = np.logaddexp if semiring == "log" else np.maximum
        final[state] = float(total(final[state], real_number(score, "a score")))
    table = np.asarray([(*key, to) for key, to in arcs.items()], dtype=np.int32).reshape(-1, 4)
    starts, reads, writes, ends = np.ascontiguousarray(table.T)
    return Machine(
        source=starts,
        input=reads,
        output=writes,
        target=ends,
        score=np.zeros(len(table)),
        final=np.asarray(final),
        input_symbols=tuple(symbols[0]),
        output_symbols=tuple(symbols[1]),
        semiring=semiring,
        tape=tape,
    )


def _labels(labels: str | Sequence[str]) -> list[str]:
    return text_fields(labels) if isinstance(labels, str) else list(labels)


def of_table(
    table: Mapping[str, str | Sequence[str] | Mapping[str, float] | None],
    semiring: Semiring,
    tape: str,
) -> Machine:
    """Return the transducer that rewrites label by label; see `Transducer.from_table`."""
    if not isinstance(table, Mapping):
        raise OptionError(f"the table is {table!r}, expected a mapping of labels to labels")
    check_strings(table, "a label")
    rows: list[tuple[str, str | None, float]] = []
    for label, written in table.items():
        if isinstance(written, Mapping):
            rows += [(label, x, real_number(score, "a score")) for x, score in written.items()]
        elif written is None or isinstance(written, str):
            rows.append((label, written, 0.0))
        else:
            expected = "a label, a list of them, a mapping of labels to scores, or None"
            rows += [(label, x, 0.0) for x in items_of(written, f"{label!r} becomes", expected)]
    new = [x for _, x, _ in rows if x is not None]
    check_strings(new, "a label")
    symbols = list(dict.fromkeys(new))
    number = {label: k for k, label in enumerate(table)}
    output: dict[str | None, int] = {None: -1, **{x: k for k, x in enumerate(symbols)}}
    none = np.zeros(len(rows), dtype=np.int32)
    return Machine(
        source=none,
        input=np.asarray([number[a] for a, _, _ in rows], dtype=np.int32),
        output=np.asarray([output[b] for _, b, _ in rows], dtype=np.int32),
        target=none,
        score=np.asarray([score for *_, score in rows], dtype=np.float64),
        final=np.zeros(1),
        input_symbols=tuple(table),
        output_symbols=tuple(symbols),
        semiring=semiring,
        tape=tape,
    )
