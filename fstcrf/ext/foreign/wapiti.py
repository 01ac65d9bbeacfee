"""Models of Wapiti (Lavergne, Cappé and Yvon): text files that begin with ``#mdl#``."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from fstcrf.arrays import Floats, Longs, Ragged
from fstcrf.errors import ModelFileError, TemplateError
from fstcrf.ext.foreign.formats import (
    TAPE,
    Format,
    ModelSource,
    ReadOptions,
    check_tape,
    load_from,
    text_encoding,
)
from fstcrf.ext.foreign.patterns import (
    Hole,
    PatternModel,
    SparseWeights,
    TextPattern,
    check_labels,
    decoded,
    shown,
    tagger,
)
from fstcrf.ext.foreign.rendering import Dialect, rendered
from fstcrf.files import BOM
from fstcrf.kernel import padded
from fstcrf.machines.topology import chain_topology
from fstcrf.taggers import CRF
from fstcrf.text.features import FeatureFunction, LiteralIndex
from fstcrf.text.features.bytewise import misjudges
from fstcrf.text.features.derive import Derived, Plain, Source, derived, root
from fstcrf.training.problem import ParameterSpace

# --- The file -------------------------------------------------------------------------------------

# #mdl#2#1234         kind of model (0 maxent, 1 MEMM, 2 CRF) and number of weights
# #rdr#2/1/0          number of patterns, highest column, whether each line is a sequence
# 12:u02:%x[-1,0],    the patterns: length, colon, bytes, comma
# #qrk#3              number of labels, and the labels in the same form
# #qrk#6              number of observations, the texts that patterns gave; and the texts
# 14=0x1.8p+1         weights that are not zero: number = value
#
# The weights are numbered by observation: one for each label if it begins with u, one for each pair
# of labels (the later one faster) if it begins with b, both if it begins with an asterisk.

_MODEL = re.compile(rb"#mdl#(?:([0-9]{1,9})#)?([0-9]{1,18})\n")
_READER = re.compile(rb"#rdr#([0-9]{1,9})/([0-9]{1,9})(?:/([0-9]{1,9}))?\n")
_QUARKS = re.compile(rb"#qrk#([0-9]{1,18})\n")
_SIZE = re.compile(rb"([0-9]{1,9}):")
_DIGITS = 18
_BLOCK = 1 << 24


@dataclass(frozen=True, slots=True, eq=False)
class _Contents:
    """The contents of a file."""

    kind: int
    single: bool
    patterns: list[bytes]
    labels: list[bytes]
    observations: list[bytes]
    weights: SparseWeights
    size: int


def _read_contents(data: bytes, where: str) -> _Contents:
    """Read a file."""
    data = data.removeprefix(BOM)
    if data[: data.find(b"\n") + 1].endswith(b"\r\n"):  # then each of its texts is also one line
        data = data.replace(b"\r\n", b"\n")
    reader = _Reader(data, where)
    kind, n_weights = reader.line(_MODEL, "#mdl#")
    n_patterns, _, single = reader.line(_READER, "#rdr#")
    patterns = reader.texts(n_patterns or 0, "pattern")
    labels = reader.texts(reader.line(_QUARKS, "#qrk#")[0] or 0, "label")
    observations = reader.texts(reader.line(_QUARKS, "#qrk#")[0] or 0, "observation")
    weights = reader.weights(n_weights or 0)
    return _Contents(kind or 0, bool(single), patterns, labels, observations, weights, len(data))


class _Reader:
    """Reads a file from its beginning to its end."""

    def __init__(self, data: bytes, where: str) -> None:
        self._data, self._where, self._place = data, where, 0

    def line(self, form: re.Pattern[bytes], name: str) -> list[int | None]:
        """Return the numbers of a header line; `None` for an omitted number."""
        found = form.match(self._data, self._place)
        if found is None:
            raise self._error(f"expected a line {name}")
        self._place = found.end()
        return [None if text is None else int(text) for text in found.groups()]

    def texts(self, count: int, what: str) -> list[bytes]:
        """Return `count` texts."""
        data, place = self._data, self._place
        texts: list[bytes] = []
        for number in range(count):
            size = _SIZE.match(data, place)
            begin = place if size is None else size.end()
            end = begin if size is None else begin + int(size[1])
            if size is None or end == begin or data[end : end + 2] != b",\n":
                self._place = place
                raise self._error(f"expected {what} {number} of {count} as 'length:text,'")
            texts.append(data[begin:end])
            place = end + 2
        self._place = place
        return texts

    def weights(self, count: int) -> SparseWeights:
        """Return the weights, which end the file."""
        if not self._data.endswith(b"\n"):  # a truncated number may be a number, too
            raise ModelFileError(f"{self._where}: cut short: its last line has no end")
        numbers = [np.empty(0, dtype=np.int64)]
        values = [np.empty(0)]
        while self._place < len(self._data):
            end = self._data.find(b"\n", min(self._place + _BLOCK, len(self._data) - 1))
            end = len(self._data) if end < 0 else end + 1
            found = _parsed(self._data[self._place : end])
            if found is None:
                raise self._wrong_weight(end)
            numbers.append(found[0])
            values.append(found[1])
            self._place = end
        weights = SparseWeights(np.concatenate(numbers), np.concatenate(values))
        if len(weights) != count:
            raise ModelFileError(
                f"{self._where}: {len(weights)} weights, but the #mdl# line announces {count}"
            )
        if np.any(weights.numbers[1:] <= weights.numbers[:-1]):
            raise ModelFileError(f"{self._where}: the numbers of the weights do not rise")
        return weights

    def _wrong_weight(self, end: int) -> ModelFileError:
        """Return the error of the first line up to `end` that is no weight."""
        for line in self._data[self._place : end].splitlines(keepends=True):
            if _parsed(line) is None:
                break
            self._place += len(line)
        return self._error("expected a weight as 'number=value'")

    def _error(self, expected: str) -> ModelFileError:
        found = shown(self._data[self._place : self._place + 30] or b"the end")
        return ModelFileError(f"{self._where}: byte {self._place}: {found}, {expected}")


def _parsed(block: bytes) -> tuple[Longs, Floats] | None:
    """Return the numbers and values of whole lines of weights; `None` if a line is invalid."""
    try:
        lines = block.decode("ascii").split("\n")
    except UnicodeDecodeError:
        return None
    if not lines[-1]:
        del lines[-1]
    pairs = [line.partition("=") for line in lines]
    if not all(digits.isdecimal() and len(digits) <= _DIGITS for digits, _, _ in pairs):
        return None
    try:
        values = np.array([_value(text) for _, _, text in pairs], dtype=np.float64)
    except (ValueError, OverflowError):
        return None
    return np.array([int(digits) for digits, _, _ in pairs], dtype=np.int64), values


def _value(text: str) -> float:
    return float.fromhex(text) if "x" in text else float(text)


# --- Patterns -------------------------------------------------------------------------------------

# u02:%x[-1,0]/%X[0,0]     attributes of labels; a capital letter: without case
# b11:%t[0,0,"^\u"]        of label pairs; true or false, whether it matches
# *12:%m[0,0,"^.?.?"]      of both; what matches
# u13:%x[@1,0]             the first token of the sequence; @-1 the last

_COMMAND = re.compile(
    rb"%(?P<letter>[xXtTmM])"
    rb"\[(?P<absolute>@?)[ \t]*(?P<offset>[+-]?(?:0|[1-9][0-9]{0,8}))"
    rb",[ \t]*(?P<column>[0-9]{1,9})"
    rb'(?:,"(?P<expression>(?:[^"\\]|\\[\s\S])*)")?\]'
)
_FUNCTION = {"t": "wapiti_test", "m": "wapiti_find"}
_KINDS: dict[bytes, tuple[Literal["node", "arc"], ...]] = {
    b"u": ("node",),
    b"b": ("arc",),
    b"*": ("node", "arc"),
}


def _read_pattern(data: bytes, encoding: str, where: str, *, single: bool) -> list[TextPattern]:
    """Read a pattern."""
    text = decoded(data, encoding, where, "pattern")
    try:
        literals, holes = _parts(data, encoding, where)
        kinds = _kinds(data, holes, single=single)
    except TemplateError as error:
        raise ModelFileError(f"{where}: pattern {text!r}: {error}") from None
    if single:
        literals = (b"u" + literals[0], *literals[1:])
    return [TextPattern(kind, text, literals, holes) for kind in kinds]


def _kinds(
    data: bytes, holes: tuple[Hole, ...], *, single: bool
) -> tuple[Literal["node", "arc"], ...]:
    """Return the kinds of a pattern: labels, label pairs, or both."""
    kinds = _KINDS.get(data[:1])
    if kinds is None:
        raise TemplateError("must begin with u, b or *")
    if single and (kinds != ("node",) or any(hole.offset or hole.absolute for hole in holes)):
        raise TemplateError("reads other tokens, but the model takes each for itself (--me)")
    return kinds


def _parts(data: bytes, encoding: str, where: str) -> tuple[tuple[bytes, ...], tuple[Hole, ...]]:
    """Return the literals and the holes of a pattern."""
    literals: list[bytes] = []
    holes: list[Hole] = []
    place = 0
    while (percent := data.find(b"%", place)) >= 0:
        found = _COMMAND.match(data, percent)
        if found is None:
            raise TemplateError(f"no command: {shown(data[percent:])}")
        literals.append(data[place:percent])
        place = found.end()
        source = _source(found, encoding, where, is_last=place == len(data))
        holes.append(Hole(source, int(found["offset"]), absolute=bool(found["absolute"])))
    return (*literals, data[place:]), tuple(holes)


def _source(found: re.Match[bytes], encoding: str, where: str, *, is_last: bool) -> Source:
    """Return the source that a command reads."""
    letter = found["letter"].decode()
    source: Source = Plain(int(found["column"]))
    if (letter in "xX") != (found["expression"] is None):
        raise TemplateError(f"{letter} takes {'no' if letter in 'xX' else 'an'} expression")
    if letter in "xX":
        return source if letter == "x" else derived("lower_ascii", source)
    if encoding.lower() not in ("utf-8", "utf8", "ascii"):
        raise TemplateError(f"an expression looks at bytes, and those here are {encoding}")
    expression = decoded(found["expression"], "utf-8", where, "expression")
    if letter in "mM" and misjudges(expression) and not is_last:
        raise TemplateError(
            f"{expression!r}: Wapiti may match too much here and drop the rest of the template"
        )
    source = derived(_FUNCTION[letter.lower()], source, [expression])
    return derived("lower_ascii", source) if letter == "M" else source


# --- The tagger -----------------------------------------------------------------------------------

_MEMM, _LAST_KIND = 1, 2
_MOST_COLUMNS = 1000
_HAS_NODE, _HAS_ARC = b"u*", b"b*"


def load_wapiti(
    source: ModelSource,
    *,
    columns: Sequence[str] | None = None,
    tape: str = TAPE,
    encoding: str = "utf-8",
    features: FeatureFunction | None = None,
) -> CRF:
    """Read a model of Wapiti as a tagger with the same answers.

    See `load_crfpp` for arguments and errors. The tagger reads columns, or, for a model without
    patterns, lists of attributes; such a model takes `features` as in `load_crfsuite`.

    Raises
    ------
    ModelFileError
        Also for a model that no CRF equals: a MEMM with label pairs, or attributes of label pairs
        without patterns.
    """
    found = load_from(source, _read, ReadOptions("", tape, columns, encoding))
    return found.with_features(features)


def _read(data: bytes, options: ReadOptions) -> CRF:
    where, encoding = options.where, text_encoding(options)
    contents = _read_contents(data, where)
    labels = tuple(decoded(label, encoding, where, "label") for label in contents.labels)
    check_labels(labels, contents.size, where)
    node_first, arc_first = _numbering(contents, len(labels), where)
    if contents.kind > _LAST_KIND:
        raise ModelFileError(f"{where}: a model of kind {contents.kind}, expected 0, 1 or 2")
    pairs = arc_first[arc_first >= 0]
    has_pairs = bool(np.any(contents.weights.counts(pairs, len(labels) ** 2)))
    if contents.kind == _MEMM and has_pairs:
        raise ModelFileError(
            f"{where}: a MEMM, which is normalised at every token: no CRF equals it"
        )
    if not contents.patterns:
        if has_pairs:
            raise ModelFileError(
                f"{where}: no patterns, but weights of attributes of label pairs: those cannot be "
                "given token by token"
            )
        return _literal(contents, labels, node_first, options.tape, encoding, where)
    patterns = [
        pattern
        for text in contents.patterns
        for pattern in _read_pattern(text, encoding, where, single=contents.single)
    ]
    order = sorted(range(len(contents.observations)), key=contents.observations.__getitem__)
    read = [root(hole.source) for pattern in patterns for hole in pattern.holes]
    model = PatternModel(
        labels=labels,
        patterns=tuple(patterns),
        attributes=[contents.observations[i] for i in order],
        node_first=node_first[order],
        arc_first=arc_first[order],
        weights=contents.weights,
        n_columns=_columns(read, where),
        boundary="wapiti",
        encoding=encoding,
        size=contents.size,
        where=where,
    )
    return tagger(model, options.columns, options.tape)


def _numbering(contents: _Contents, n_labels: int, where: str) -> tuple[Longs, Longs]:
    """Return the number of each observation's first weight on labels and on pairs, or −1."""
    texts = contents.observations
    if len(set(texts)) < len(texts):
        raise ModelFileError(f"{where}: an observation is there twice")
    odd = next((text for text in texts if text[:1] not in (b"u", b"b", b"*")), None)
    if odd is not None:
        raise ModelFileError(f"{where}: observation {shown(odd)} must begin with u, b or *")
    has_node = np.array([text[0] in _HAS_NODE for text in texts], dtype=bool)
    has_arc = np.array([text[0] in _HAS_ARC for text in texts], dtype=bool)
    sizes = has_node * np.int64(n_labels) + has_arc * np.int64(n_labels**2)
    weights = Ragged.from_lengths(sizes)
    first, total, numbers = weights.offsets[:-1], weights.total, contents.weights.numbers
    if len(numbers) and numbers[-1] >= total:
        raise ModelFileError(f"{where}: weight {numbers[-1]}, the observations have {total}")
    return np.where(has_node, first, -1), np.where(has_arc, first + has_node * n_labels, -1)


def _columns(read: Sequence[object], where: str) -> int:
    """Return the required number of columns."""
    last = max((column for column in read if isinstance(column, int)), default=0)
    if last >= _MOST_COLUMNS:
        raise ModelFileError(f"{where}: column {last}, expected one below {_MOST_COLUMNS}")
    return last + 1


def _literal(
    contents: _Contents,
    labels: tuple[str, ...],
    node_first: Longs,
    tape: str,
    encoding: str,
    where: str,
) -> CRF:
    """Return a model without patterns: callers provide the attributes of a token."""
    check_tape(tape)
    size, weights = len(labels), contents.weights
    if not np.isfinite(weights.values).all():
        raise ModelFileError(f"{where}: a weight is not finite")
    used = np.flatnonzero((node_first >= 0) & (weights.counts(node_first, size) > 0))
    names = [
        decoded(contents.observations[i][contents.single :], encoding, where, "observation")
        for i in used.tolist()
    ]
    cells, theta = weights.cells(node_first[used], size, stride=padded(size))
    space = ParameterSpace(chain_topology(labels, 0), len(names), node_cells=cells)
    return CRF(space.topology, LiteralIndex(names), space, theta, tape, ())


def _recognised(head: bytes) -> bool:
    return head.removeprefix(BOM).startswith(b"#mdl#")


# --- Taggers as models ----------------------------------------------------------------------------

_LETTERS = {"wapiti_test": "t", "wapiti_find": "m"}


def _hole(source: Source, place: str, column: int) -> str | None:
    """Return a command; capital letters go without case."""
    if isinstance(source, Plain):
        return f"%x[{place},{column}]"
    lowered = source.function == "lower_ascii"
    within = source.source if lowered else source
    letter, text = "x", ""
    if isinstance(within, Derived):
        if within.function not in _LETTERS or not isinstance(within.source, Plain):
            return None
        letter, text = _LETTERS[within.function], f',"{within.arguments[0]}"'
    return f"%{letter.upper() if lowered else letter}[{place},{column}{text}]"


_DIALECT = Dialect("Wapiti's format", ("u", "b"), "wapiti", None, _hole, absolute=True)


def _written(crf: CRF) -> bytes:
    """Return a tagger as a model of Wapiti."""
    model = rendered(crf, _DIALECT)
    labels = [label.encode() for label in model.labels]
    weights = model.weights
    head = [b"#mdl#2#%d\n" % len(weights)]
    head.append(b"#rdr#%d/%d/0\n" % (len(model.patterns), model.n_columns - 1))
    parts = [*head, *map(_netstring, model.patterns)]
    for texts in (labels, model.attributes):
        parts += [b"#qrk#%d\n" % len(texts), *map(_netstring, texts)]
    pairs = zip(weights.numbers.tolist(), weights.values.tolist(), strict=True)
    parts += [f"{number}={value.hex()}\n".encode() for number, value in pairs]
    return b"".join(parts)


def _netstring(text: bytes) -> bytes:
    if b"\0" in text or b"\n" in text:
        raise _DIALECT.refused(f"{shown(text)} is not one line of text")
    return b"%d:%s,\n" % (len(text), text)


WAPITI = Format(
    "wapiti", "a Wapiti model", recognises=_recognised, read=_read, suffix=".wapiti", write=_written
)
