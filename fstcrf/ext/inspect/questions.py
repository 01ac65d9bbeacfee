"""What the inspector is asked and what it answers: plain data, JSON on the wire.

Labels are numbers into the label set of their tape, tokens numbers into the sentence, probabilities
numbers from 0 to 1, scores natural logs. A window is a run of tokens: what is asked for token by
token is answered for that run alone, so that a text of thousands of tokens stays light.
"""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

import msgspec

from fstcrf.ext.pipelines.trained import Decode

MAX_TOKENS, MAX_COLUMNS, MAX_EDITS, MAX_PATHS, MAX_WINDOW = 20_000, 200, 2_000, 100, 500
"""What a question may ask for; more is an error that says so."""

MAX_CHARACTERS = 2_000_000
"""Of a text that the page reads."""

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
    """A sentence, and how it is to be decided."""

    rows: Annotated[tuple[Row, ...], msgspec.Meta(max_length=MAX_TOKENS)]  # the columns of tokens
    decode: Decode | None = None  # how tapes are decided together; None: as the model says
    rules: tuple[Count, ...] | None = None  # those that count; None: all
    weights: tuple[Annotated[float, msgspec.Meta(ge=0)], ...] | None = None  # of taggers
    edits: Annotated[tuple[Edit, ...], msgspec.Meta(max_length=MAX_EDITS)] = ()


class Asked(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A question, and which part of its answer is wanted."""

    question: LatticeQuestion
    first: Count = 0  # of the window
    width: Annotated[int, msgspec.Meta(ge=1, le=MAX_WINDOW)] = 60
    paths: Annotated[int, msgspec.Meta(ge=1, le=MAX_PATHS)] = 5


class CellAsked(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A question, and a cell whose features are wanted."""

    question: LatticeQuestion
    tape: str
    token: Count
    label: Count


# --- Answers --------------------------------------------------------------------------------------


class TapeShown(msgspec.Struct, frozen=True):
    """One tape within the window."""

    name: str
    best: list[int]  # label of each token; −1 where there is no path
    marginals: list[list[float]]  # of each token, of each label
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
    probability: float | None  # None: has no closed form
    exact: bool
    differs: int  # tokens at which it is not the best path


class Shown(msgspec.Struct, frozen=True):
    """The answer to a question, as far as the window goes."""

    tokens: int
    first: int
    rows: list[Row]
    decode: Decode
    tapes: list[TapeShown]
    spans: list[SpanShown]
    score: float | None
    note: str  # what a reader of these numbers must know
    dead: str  # why there is no path; empty where there is one


class Compared(msgspec.Struct, frozen=True):
    """A way to decide, within the window."""

    decode: Decode
    labels: list[list[int]]  # of each tape
    score: float | None  # of these labels in the model's own way; None: its grammar forbids them
    exact: bool
    differs: list[int]  # all tokens at which it is not what the question's way decides
    dead: str


class RuleShown(msgspec.Struct, frozen=True):
    """A rule of the grammar, and what it forbids of the best labels without any rule."""

    number: int
    name: str
    tapes: list[str]
    forbids: bool
    token: int | None  # where these labels die; None: only at the end, or nowhere
    found: str  # the labels there


class PushShown(msgspec.Struct, frozen=True):
    """What one feature adds to a label."""

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
    best_pushes: list[PushShown]  # of the best label, where it is another


class SentenceShown(msgspec.Struct, frozen=True):
    """A sentence of the data file in the list."""

    number: int
    text: str
    tokens: int
    errors: int | None  # tokens that are tagged otherwise than their gold; None without gold


class SentenceOpened(msgspec.Struct, frozen=True):
    """A sentence of the data file."""

    rows: list[Row]
    gold: dict[str, list[str]]  # of tapes that have gold labels


class ModelShown(msgspec.Struct, frozen=True):
    """What is looked at."""

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
