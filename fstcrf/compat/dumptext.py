"""The text form of a CRFsuite model: ``crfsuite dump``."""

from __future__ import annotations

import re

from fstcrf.errors import DataError

__all__ = ["CRFsuiteDumpParser", "ParsedDump"]

_BEGIN = re.compile(r"(FILEHEADER|LABELS|ATTRIBUTES|TRANSITIONS|STATE_FEATURES) = \{")
_ENTRY = re.compile(r"(\w+): (.*)", re.DOTALL)
# Names may hold anything, arrows too: what is certain is the number at the end.
_WEIGHT = re.compile(r"\(\d+\) (.*) --> (.*): ([+-]?\d+\.\d+)", re.DOTALL)


class ParsedDump:
    """What is in a model.

    Attributes
    ----------
    header : dict of str to str
        Fields of the file's header.
    labels, attributes : dict of str to str
        Name → number.
    transitions : dict of (str, str) to float
        (label, next label) → weight, natural-log score.
    state_features : dict of (str, str) to float
        (attribute, label) → weight, natural-log score.
    """

    def __init__(self) -> None:
        self.header: dict[str, str] = {}
        self.labels: dict[str, str] = {}
        self.attributes: dict[str, str] = {}
        self.transitions: dict[tuple[str, str], float] = {}
        self.state_features: dict[tuple[str, str], float] = {}


class CRFsuiteDumpParser:
    """Reads a dump line by line; `result` is what it has found.

    Attributes
    ----------
    state : str or None
        The part that it is in.
    result : ParsedDump
    """

    def __init__(self) -> None:
        self.state: str | None = None
        self.result = ParsedDump()

    def feed(self, line: str) -> None:
        """Read one line.

        Raises
        ------
        DataError
            A line that does not belong where it is; an attribute with a line break in it makes
            such lines.
        """
        text = line.lstrip().rstrip("\r\n")
        begin = _BEGIN.match(text)
        if begin:
            self.state = begin[1]
        elif text == "}":
            self.state = None
        elif text:
            self._entry(text)

    def _entry(self, text: str) -> None:
        found = self.result
        named = {
            "FILEHEADER": found.header,
            "LABELS": found.labels,
            "ATTRIBUTES": found.attributes,
        }
        weighted = {
            "TRANSITIONS": (found.labels, found.transitions),
            "STATE_FEATURES": (found.attributes, found.state_features),
        }
        if self.state in named and (entry := _ENTRY.fullmatch(text)):
            if self.state == "FILEHEADER":
                found.header[entry[1]] = entry[2]
            else:
                named[self.state][entry[2]] = entry[1]
            return
        if self.state in weighted and (entry := _WEIGHT.fullmatch(text)):
            sources, weights = weighted[self.state]
            source, label = _names(entry[1], entry[2], sources, found.labels)
            weights[source, label] = float(entry[3])
            return
        raise DataError(f"a dump of CRFsuite has no line {text!r} in {self.state or 'no part'}")


def _names(
    source: str, label: str, sources: dict[str, str], labels: dict[str, str]
) -> tuple[str, str]:
    """Divide two names at the arrow that makes both of them known."""
    parts = f"{source} --> {label}".split(" --> ")
    for i in range(1, len(parts)):
        first, second = " --> ".join(parts[:i]), " --> ".join(parts[i:])
        if first in sources and second in labels:
            return first, second
    raise DataError(f"a weight of {source!r} and {label!r}, which the dump does not list")
