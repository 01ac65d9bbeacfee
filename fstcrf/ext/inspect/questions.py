"""The inspector's questions and answers: plain data, sent as JSON.

Labels are numbers into the label set of their tape, tokens numbers into the sentence, probabilities
numbers from 0 to 1, scores natural logs. A window is a run of tokens: answers for single tokens
cover only this run, so that a text of thousands of tokens stays small.
"""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

import msgspec

from fstcrf.ext.pipelines.trained import Decode

MAX_TOKENS, MAX_COLUMNS, MAX_EDITS, MAX_PATHS, MAX_WINDOW = 20_000, 200, 2_000, 100, 500
"""The limits of a question; exceeding them is an error that names them."""

MAX_CHARACTERS = 2_000_000
"""Characters of a text that the page reads."""

Count: TypeAlias = Annotated[int, msgspec.Meta(ge=0)]
Text: TypeAlias = Annotated[str, msgspec.Meta(max_length=10_000)]
Row: TypeAlias = Annotated[tuple[Text, ...], msgspec.Meta(max_length=MAX_COLUMNS)]


class Edit(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A label that a token must have, or must not have."""

    tape: str
    token: Count
    label: Count
    kind: Literal["force", "forbid"]


class LatticeQuestion(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A sentence, and the way to decide it."""

    rows: Annotated[tuple[Row, ...], msgspec.Meta(max_length=MAX_TOKENS)]  # the columns of tokens
    # the way to decide tapes together; `None` for the way of the model
    decode: Decode | None = None
    rules: tuple[Count, ...] | None = None  # the active rules; `None` for all
    weights: tuple[Annotated[float, msgspec.Meta(ge=0)], ...] | None = None  # of taggers
    edits: Annotated[tuple[Edit, ...], msgspec.Meta(max_length=MAX_EDITS)] = ()


class Asked(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A question, and the requested part of its answer."""

    question: LatticeQuestion
    first: Count = 0  # of the window
    width: Annotated[int, msgspec.Meta(ge=1, le=MAX_WINDOW)] = 60
    paths: Annotated[int, msgspec.Meta(ge=1, le=MAX_PATHS)] = 5


class CellAsked(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A question about the features of a cell."""

    question: LatticeQuestion
    tape: str
    token: Count
    label: Count


# --- Answers --------------------------------------------------------------------------------------


class TapeShown(msgspec.Struct, frozen=True):
    """One tape within the window."""

    name: str
    best: list[int]  # label of each token; −1 without a path
    marginals: list[list[float]]  # for each token and label
    given: list[str]  # tapes whose best labels the marginals take as given


class SpanShown(msgspec.Struct, frozen=True):
    """A span of the best path that overlaps the window."""

    tape: str
    start: int
    end: int  # one past its last token
    type: str
    probability: float | None


class PathShown(msgspec.Struct, frozen=True):
    """One of the best paths within the window."""

    labels: list[list[int]]  # of each tape
    score: float
    probability: float | None  # `None` if it has no closed form
    exact: bool
    differs: int  # tokens at which it is not the best path


class Shown(msgspec.Struct, frozen=True):
    """The answer to a question, within its window."""

    tokens: int
    first: int
    rows: list[Row]
    decode: Decode
    tapes: list[TapeShown]
    spans: list[SpanShown]
    score: float | None
    note: str  # a remark that readers of these numbers need
    dead: str  # the reason why no path exists; otherwise empty


class Compared(msgspec.Struct, frozen=True):
    """A way to decide, within the window."""

    decode: Decode
    labels: list[list[int]]  # of each tape
    score: float | None  # in the model's way to decide; `None` if its grammar forbids these labels
    exact: bool
    differs: list[int]  # all tokens at which the labels differ from the question's way to decide
    dead: str


class RuleShown(msgspec.Struct, frozen=True):
    """A rule of the grammar, and its verdict on the best labels without rules."""

    number: int
    name: str
    tapes: list[str]
    forbids: bool
    token: int | None  # the token of the rejection; `None` at the end, or without rejection
    found: str  # the labels there


class PushShown(msgspec.Struct, frozen=True):
    """The contribution of one feature to a label."""

    tagger: str
    attribute: str
    value: float
    given: list[tuple[str, str]]  # tapes that it reads, and their labels


class CellShown(msgspec.Struct, frozen=True):
    """Why a label, at a token."""

    probability: float
    emission: float
    best: str
    best_emission: float
    pushes: list[PushShown]
    best_pushes: list[PushShown]  # for the best label, if it is another one


class SentenceShown(msgspec.Struct, frozen=True):
    """A sentence of the data file in the list."""

    number: int
    text: str
    tokens: int
    errors: int | None  # tokens with wrong labels; `None` without gold labels


class SentenceOpened(msgspec.Struct, frozen=True):
    """A sentence of the data file."""

    rows: list[Row]
    gold: dict[str, list[str]]  # of tapes that have gold labels


class ModelShown(msgspec.Struct, frozen=True):
    """The inspected model."""

    name: str
    columns: list[str]
    literal: bool  # tokens are lists of attributes
    tapes: dict[str, list[str]]
    taggers: list[str]
    weights: list[float]
    rules: list[str]
    decodes: list[Decode]
    decode: Decode
    sentences: int  # of the data file
    gold: list[str]  # tapes whose gold labels it has
    limits: dict[str, int]
