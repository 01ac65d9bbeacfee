"""Machines of arrays, pairs of strings and tables of labels; failure arcs and ARPA language models.

An ARPA model is a machine with failure arcs. A state reads a label by its own arcs if any of them
has this label. Otherwise it takes its failure arc, adds the arc's score, and reads the label in the
arc's target. The same holds for ending. This holds in every semiring: the arcs of a state hide arcs
with the same label that its failure arc leads to. Here such machines are expanded, to at most
states × labels arcs.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from fstcrf.arguments import (
    LabelSet,
    check_scores,
    check_strings,
    integer_array,
    items_of,
    label_tuple,
    real_array,
    real_number,
)
from fstcrf.arrays import Ints
from fstcrf.errors import DataError, LabelError, OptionError, ShapeError, TooLargeError
from fstcrf.machines.machine import M, Machine, Semiring
from fstcrf.text.lines import read_text, text_fields, text_lines

MOST_ARCS = 20_000_000
"""Largest number of arcs after expansion."""

_HIGHEST = 100
"""The highest order: finding the contexts of an n-gram takes the square of its length."""


def expanded(machine: M, target: ArrayLike, score: ArrayLike) -> M:
    """Return a machine without its failure arcs; see `Transducer.with_failures`."""
    states = len(machine.final)
    ahead, price = np.asarray(target), real_array(score, "failure score")
    check_scores("transducer", "failure score", price)
    if ahead.shape != (states,) or price.shape != (states,):
        shapes = list(ahead.shape), list(price.shape)
        raise ShapeError(
            f"failure arcs are {shapes[0]}, their scores {shapes[1]}, expected [{states}]"
        )
    if ahead.dtype.kind not in "iu" or ahead.min() < -1 or ahead.max() >= states:
        raise ShapeError(
            "a failure arc leads to no state of the machine: expected 0 to "
            f"{states - 1}, or -1 for a state without a failure arc"
        )
    if (machine.input < 0).any():
        state = int(machine.source[machine.input < 0][0])
        raise OptionError(
            f"state {state} has an arc that reads epsilon: with failure arcs, every arc "
            "must read a symbol"
        )
    order = np.argsort(machine.source, kind="stable")
    cuts = np.searchsorted(machine.source[order], np.arange(states + 1))
    arcs: list[Ints] = [np.zeros(0, dtype=np.int32)] * states
    added: list[np.ndarray[tuple[int], np.dtype[np.float64]]] = [np.zeros(0)] * states
    final, total = machine.final.copy(), 0
    for state in _nearest_first(ahead.tolist()):
        state_arcs = order[cuts[state] : cuts[state + 1]].astype(np.int32)
        more = np.zeros(len(state_arcs))
        backoff = int(ahead[state])
        if backoff >= 0:
            new = ~np.isin(machine.input[arcs[backoff]], machine.input[state_arcs])
            more = np.append(more, added[backoff][new] + price[state])
            state_arcs = np.append(state_arcs, arcs[backoff][new])
            if final[state] == -np.inf:
                final[state] = final[backoff] + price[state]
        arcs[state], added[state] = state_arcs, more
        total += len(state_arcs)
        if total > MOST_ARCS:
            raise TooLargeError(
                f"a machine of {states:,} states over {len(machine.input_symbols):,} labels has "
                f"more than {MOST_ARCS:,} arcs without failure arcs: give fewer labels"
            )
    taken = np.concatenate(arcs) if arcs else np.zeros(0, dtype=np.int32)
    ends = np.arange(states)
    for state in _nearest_first(ahead.tolist()):
        if machine.final[state] == -np.inf and ahead[state] >= 0:
            ends[state] = ends[ahead[state]]
    used = np.append(taken, len(machine.source) + ends)
    return replace(
        machine,
        source=np.repeat(np.arange(states, dtype=np.int32), [len(x) for x in arcs]),
        input=machine.input[taken],
        output=machine.output[taken],
        target=machine.target[taken],
        score=machine.score[taken] + np.concatenate(added),
        final=final,
        named={name: uses[used] for name, uses in machine.named.items()},
    )


def _nearest_first(ahead: list[int]) -> list[int]:
    """Return the states, each after the target of its failure arc."""
    order: list[int] = []
    done = [False] * len(ahead)
    for state in range(len(ahead)):
        way: list[int] = []
        there = set()
        while state >= 0 and not done[state]:
            if state in there:
                names = " → ".join(map(str, [*way[way.index(state) :], state]))
                raise OptionError(f"failure arcs form a cycle: {names}")
            way.append(state)
            there.add(state)
            state = ahead[state]  # noqa: PLW2901
        for one in reversed(way):
            done[one] = True
        order += reversed(way)
    return order


# --- ARPA files -----------------------------------------------------------------------------------

_BEGIN, _END, _UNKNOWN = "<s>", "</s>", "<unk>"
_LN10 = math.log(10.0)
_ZERO = -99.0  # value of log 0 in such files


class _Gram(NamedTuple):
    words: tuple[str, ...]
    score: float
    backoff: float


def read_arpa(path: str | Path, labels: LabelSet | None = None) -> Machine:
    """Return the language model of an ARPA file as an acceptor; see `Transducer.lm`."""
    text = read_text(path)
    try:
        grams = list(_grams(text))
    except DataError as error:
        raise DataError(error.message, path=str(path), line=error.line) from None
    return _model(grams, labels)


class _Lines:
    """The nonblank lines of a file, with their numbers."""

    def __init__(self, text: str) -> None:
        lines = [(number, line.strip(" \t")) for number, line in enumerate(text_lines(text), 1)]
        self.last = max(len(lines), 1)
        self.left = iter([line for line in lines if line[1]])
        self.number, self.line = 1, ""

    def following(self) -> str:
        """Return the next line; an empty one after the last."""
        self.number, self.line = next(self.left, (self.last, ""))
        return self.line

    def error(self, problem: str) -> DataError:
        return DataError(problem, line=self.number)


def _grams(text: str) -> Iterator[_Gram]:
    lines = _Lines(text)
    while lines.following() != "\\data\\":
        if not lines.line:
            raise lines.error("no line \\data\\, expected the language model of an ARPA file")
    counts = _counts(lines)
    seen: dict[tuple[str, ...], int] = {}  # the line of each n-gram
    for order, count in counts.items():
        if lines.line != f"\\{order}-grams:":
            raise lines.error(f"{lines.line!r}, expected \\{order}-grams:")
        head = lines.number
        for k in range(count):
            line = lines.following()
            if line.startswith("\\") or not line:
                raise lines.error(
                    f"{k} {order}-grams, but {count} were announced: the file is cut short"
                )
            gram = _gram(line, order, lines.number, highest=order == len(counts))
            _check_new(gram.words, seen, lines.number)
            yield gram
        if order == 1 and (_END,) not in seen:
            problem = f"no {_END} among the 1-grams, expected the probability that a sentence ends"
            raise DataError(problem, line=head)
        _ = lines.following()
    if lines.line != "\\end\\":
        raise lines.error(f"{lines.line!r}, expected \\end\\: the file is cut short")


def _check_new(words: tuple[str, ...], seen: dict[tuple[str, ...], int], line: int) -> None:
    """Refuse an n-gram that repeats an earlier one, or has a word that is not a 1-gram."""
    if words in seen:
        problem = f"{' '.join(words)!r} is there twice, in line {seen[words]}, too"
        raise DataError(problem, line=line)
    missing = [word for word in words if (word,) not in seen]
    if missing and len(words) > 1:
        raise DataError(f"the word {missing[0]!r} is not among the 1-grams", line=line)
    seen[words] = line


def _counts(lines: _Lines) -> dict[int, int]:
    """Return the announced number of n-grams of each order."""
    counts: dict[int, int] = {}
    while (line := lines.following()).startswith("ngram "):
        order, _, count = line[6:].partition("=")
        if not all(re.fullmatch("[0-9]{1,18}", part.strip()) for part in (order, count)):
            raise lines.error(f"{line!r}, expected ngram ORDER=COUNT")
        counts[int(order)] = int(count)
    if not counts or list(counts) != list(range(1, len(counts) + 1)):
        raise lines.error(f"counts of orders {list(counts)}, expected 1, 2, …")
    if len(counts) > _HIGHEST:
        raise lines.error(f"n-grams of order {len(counts)}, expected {_HIGHEST} at most")
    return counts


def _gram(line: str, order: int, number: int, *, highest: bool) -> _Gram:
    fields = text_fields(line)
    if len(fields) not in ({order + 1} if highest else {order + 1, order + 2}):
        last = ", of the highest order without a back-off" if highest else ""
        raise DataError(
            f"{len(fields)} fields, expected a score and {order} words{last}", line=number
        )
    try:
        score = float(fields[0])
        backoff = float(fields[order + 1]) if len(fields) > order + 1 else 0.0
    except ValueError:
        raise DataError(f"{line[:60]!r}: a score is no number", line=number) from None
    if not (score < math.inf and backoff < math.inf):
        raise DataError(f"{line[:60]!r}: a score is NaN or infinite", line=number)
    if score > 0:
        raise DataError(
            f"{line[:60]!r}: the log10 of a probability is {fields[0]}, expected 0 or less",
            line=number,
        )
    return _Gram(
        tuple(fields[1 : order + 1]),
        score * _LN10 if score > _ZERO else -math.inf,
        backoff * _LN10 if backoff > _ZERO else -math.inf,
    )


def _model(grams: list[_Gram], labels: LabelSet | None) -> Machine:
    """Return the acceptor of a back-off model: states are contexts, failure arcs shorten them."""
    vocabulary = dict.fromkeys(gram.words[0] for gram in grams if len(gram.words) == 1)
    symbols = tuple(word for word in vocabulary if word not in {_BEGIN, _END})
    if labels is not None:
        symbols = label_tuple(labels, error=LabelError)
    reads: dict[str, list[int]] = {}
    for k, label in enumerate(symbols):
        reads.setdefault(label if label in vocabulary else _UNKNOWN, []).append(k)
    contexts = {(): 0.0} | {gram.words[:-1]: 0.0 for gram in grams}
    contexts |= {gram.words: gram.backoff for gram in grams if gram.backoff}
    contexts |= {gram.words: gram.backoff for gram in grams if gram.words in contexts}
    start = max((c for c in ((), (_BEGIN,)) if c in contexts), key=len)
    order = [start, *(context for context in contexts if context != start)]
    number = {context: k for k, context in enumerate(order)}

    def longest(words: tuple[str, ...]) -> int:
        return next(number[words[k:]] for k in range(len(words) + 1) if words[k:] in number)

    final = np.full(len(order), -np.inf)
    rows: list[tuple[int, int, int, float]] = []
    for words, score, _ in grams:
        state, last = number[words[:-1]], words[-1]
        if last == _END:
            final[state] = score
        elif last != _BEGIN:
            to = longest(words)
            rows += [(state, k, to, score) for k in reads.get(last, ())]
    table = np.asarray([row[:3] for row in rows], dtype=np.int32).reshape(-1, 3)
    source, read, target = np.ascontiguousarray(table.T)
    machine = Machine(
        source=source,
        input=read,
        output=read,
        target=target,
        score=np.asarray([row[3] for row in rows], dtype=np.float64),
        final=final,
        input_symbols=symbols,
        output_symbols=symbols,
        tape=None,
    )
    ahead = [longest(context[1:]) if context else -1 for context in order]
    price = [contexts[context] if context else 0.0 for context in order]
    return expanded(machine, ahead, price)


# --- Arrays, pairs of strings, tables of labels ---------------------------------------------------


def columns(
    arcs: Mapping[str, ArrayLike],
    score: ArrayLike | None,
    final: ArrayLike | None,
    named: Mapping[str, ArrayLike],
) -> dict[str, Any]:
    """Return the arrays of `Transducer.from_arrays` as the fields of a `Transducer`."""
    arrays: dict[str, Any] = {
        name: integer_array(values, f"transducer: {name}", np.int32, unit="arcs")
        for name, values in arcs.items()
    }
    count = len(arrays["source"])
    states = int(max(arrays[name].max(initial=0) for name in ("source", "target"))) + 1
    if final is None and states > 1_000_000 + 16 * count:
        raise TooLargeError(
            f"transducer: {states:,} states for {count:,} arcs: number them without gaps"
        )
    scores = np.zeros(count) if score is None else real_array(score, "transducer: score")
    ends = np.zeros(states) if final is None else real_array(final, "transducer: final")
    uses = {name: real_array(of, f"transducer: named[{name!r}]") for name, of in named.items()}
    return {**arrays, "score": scores, "final": ends, "named": uses}


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
