"""Answers as columns of Arrow: labels, spans, probabilities, each a list a sentence."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias, get_args

import numpy as np

from fstcrf.arrays import Bools, Floats, Ints, Longs, Ragged
from fstcrf.errors import OptionError
from fstcrf.ext.arrow.columns import pyarrow
from fstcrf.ext.calibration.curves import Calibration
from fstcrf.lattices import Answer
from fstcrf.taggers.tagger import Tagger
from fstcrf.text.corpus.schemes import OUTSIDE, SpanArrays, has_spans

if TYPE_CHECKING:
    import pyarrow as pa

Output: TypeAlias = Literal["labels", "spans", "probability", "probabilities"]
"""labels: for each token; spans: with their probabilities; probability: of all labels of a sentence
together; probabilities: of the label at each token."""

_USUAL: tuple[Output, ...] = ("labels", "spans", "probability")


# --- What is asked for ----------------------------------------------------------------------------


def is_conditional(tagger: Tagger) -> bool:
    """Return whether a tagger lacks probabilities of single labels and spans."""
    joint = tagger._joint()
    return joint is not None and joint._conditional


def outputs_of(tagger: Tagger, outputs: Sequence[Output] | None) -> tuple[Output, ...]:
    """Return the output columns: the given ones, or a tagger's usual ones."""
    if outputs is None:
        spans = any(map(has_spans, tagger.label_sets.values()))
        return tuple(name for name in _USUAL if spans or name != "spans")
    odd = [name for name in outputs if name not in get_args(Output)]
    if odd or isinstance(outputs, str) or not outputs:
        shown = ", ".join(get_args(Output))
        raise OptionError(f"outputs is {outputs!r}, expected some of {shown}")
    if "probabilities" in outputs and is_conditional(tagger):
        raise OptionError(
            "normalize='chain' has no probabilities of single labels: remove them from outputs"
        )
    return tuple(outputs)


def check_least(tagger: Tagger, least: float) -> None:
    """Refuse a least probability of spans that cannot be asked for."""
    if not 0.0 <= least <= 1.0:
        raise OptionError(f"min_confidence is {least}, expected a probability, 0 to 1")
    if is_conditional(tagger):
        raise OptionError("normalize='chain' has no probabilities of spans for min_confidence")


def fields_of(
    tagger: Tagger, outputs: Sequence[Output], prefix: str, *, is_text: bool
) -> list[pa.Field]:
    """Return the fields that are added, in the order in which a table gets them."""
    arrow = pyarrow()
    fields = []
    if is_text:
        fields.append(arrow.field(f"{prefix}tokens", arrow.list_(arrow.string())))
    several = len(tagger.tapes) > 1
    for tape, labels in tagger.label_sets.items():
        start = f"{prefix}{tape}_" if several else prefix
        kinds = {"labels": arrow.string(), "probabilities": arrow.float64()}
        fields += [
            arrow.field(f"{start}{name}", arrow.list_(kind))
            for name, kind in kinds.items()
            if name in outputs
        ]
        if "spans" in outputs and has_spans(labels):
            fields.append(arrow.field(f"{start}spans", arrow.list_(_span_type(is_text=is_text))))
    if "probability" in outputs:
        fields.append(arrow.field(f"{prefix}probability", arrow.float64()))
    return fields


def _span_type(*, is_text: bool) -> pa.DataType:
    arrow = pyarrow()
    text = [("start_char", arrow.int32()), ("end_char", arrow.int32())] if is_text else []
    tokens = [("start", arrow.int32()), ("end", arrow.int32()), ("type", arrow.string())]
    return arrow.struct([*tokens, ("probability", arrow.float64()), *text])


# --- What is found --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class TapeColumns:
    """The labels and spans of a tape of B sentences with N tokens together, and M spans."""

    tape: str
    ids: Ints  # [N]; −1: none
    spans: SpanArrays | None  # `None` if its labels are not labels of spans
    chances: Floats | None  # [M]; `None` if not requested or not available


def labels_found(
    tagger: Tagger,
    answer: Answer,
    tape: str,
    outputs: Sequence[Output],
    least: float | None,
    known: Calibration | None,
) -> TapeColumns:
    """Return the labels of a tape and its spans, without spans of low probability."""
    names, ids = answer.label_sets[tape], answer[tape].flat[0]
    if not has_spans(names):
        if least is not None:
            chosen = np.maximum(ids, 0)
            p = _marginals(answer, tape)[np.arange(len(ids)), chosen]
            if known is not None:
                p = known(np.minimum(p, 1.0), [names[i] for i in chosen.tolist()])
            ids = np.where(p < least, np.int32(-1), ids)
        return TapeColumns(tape, ids, None, None)
    spans, chances = answer[tape].span_arrays(), None
    if not is_conditional(tagger) and ("spans" in outputs or least is not None):
        chances = np.concatenate([np.empty(0), *answer.span_probabilities(tape)])
        if known is not None:
            types = [spans.types[i] for i in spans.type.tolist()]
            chances = known(np.minimum(chances, 1.0), types)
    if least is not None and chances is not None:
        ids, spans, chances = _sure(ids, names, spans, chances, least)
    return TapeColumns(tape, ids, spans, chances)


def _lists(offsets: Longs, values: pa.Array, silent: Bools) -> pa.Array:
    """Return lists of values; null for sentences without an answer."""
    arrow = pyarrow()
    bounds = arrow.array(offsets.astype(np.int32))
    mask = arrow.array(silent) if silent.any() else None
    return arrow.ListArray.from_arrays(bounds, values, mask=mask)


def label_lists(answer: Answer, found: TapeColumns, silent: Bools) -> pa.Array:
    """Return the labels of sentences; null for sentences without an answer."""
    arrow = pyarrow()
    names = arrow.array(answer.label_sets[found.tape], type=arrow.string())
    nothing = found.ids < 0
    mask = nothing if nothing.any() else None
    values = names.take(arrow.array(np.maximum(found.ids, 0), mask=mask))
    return _lists(answer.offsets, values, silent)


def _marginals(answer: Answer, tape: str) -> Floats:
    """Return the probability of each label at each token of all sentences, [N, L]."""
    sizes = (0, len(answer.label_sets[tape]))
    return np.concatenate([np.empty(sizes), *answer.marginals(tape)])


def probability_lists(answer: Answer, found: TapeColumns, silent: Bools) -> pa.Array:
    """Return the probability of each of these labels."""
    flat, nothing = np.maximum(found.ids, 0), found.ids < 0
    chosen: Floats = _marginals(answer, found.tape)[np.arange(len(flat)), flat]
    mask = nothing if nothing.any() else None
    return _lists(answer.offsets, pyarrow().array(chosen, mask=mask), silent)


def _sure(
    ids: Ints, names: tuple[str, ...], spans: SpanArrays, chances: Floats, least: float
) -> tuple[Ints, SpanArrays, Floats]:
    """Return labels and spans without the spans that are less probable than `least`."""
    kept = chances >= least
    outside = np.int32(names.index(OUTSIDE) if OUTSIDE in names else -1)
    edge = np.zeros(len(ids) + 1, dtype=np.int64)
    edge[spans.start[~kept]] += 1
    np.subtract.at(edge, spans.end[~kept], 1)
    ids = np.where(np.cumsum(edge[:-1]) > 0, outside, ids)
    return (
        ids,
        SpanArrays(spans.start[kept], spans.end[kept], spans.type[kept], spans.types),
        chances[kept],
    )


def span_lists(answer: Answer, found: TapeColumns, silent: Bools, places: Ints | None) -> pa.Array:
    """Return spans as structs; `places`, int32 [N, 2], has the places of tokens in the text."""
    arrow, spans = pyarrow(), found.spans
    assert spans is not None  # noqa: S101 (asked for)
    bounds = np.searchsorted(spans.start, answer.offsets)
    first = Ragged(bounds).repeat(answer.offsets[:-1])
    types = arrow.array(spans.types, type=arrow.string())
    parts = [
        arrow.array((spans.start - first).astype(np.int32)),
        arrow.array((spans.end - first).astype(np.int32)),
        types.take(arrow.array(spans.type)),
    ]
    if found.chances is not None:
        parts.append(arrow.array(found.chances))
    else:
        parts.append(arrow.nulls(len(spans.start), arrow.float64()))
    if places is not None:
        parts += [arrow.array(places[spans.start, 0]), arrow.array(places[spans.end - 1, 1])]
    kind = _span_type(is_text=places is not None)
    return _lists(bounds, arrow.StructArray.from_arrays(parts, fields=list(kind)), silent)
