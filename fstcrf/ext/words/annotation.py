"""Annotations of texts: all of their words, some words, or some boundaries."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from fstcrf.arrays import Array, Bools, Ragged
from fstcrf.errors import DataError

_BEGINS, _NONE, _OPEN = "|", "-", " "
_ABSENT = ("*", "")


def label_of(fields: Sequence[str], chosen: Sequence[int]) -> str:
    """Return the label of a word: some fields of its feature, those there, joined by "-"."""
    found = [fields[k] for k in chosen if k < len(fields)]
    return "-".join(text for text in found if text not in _ABSENT)


class KnownWord(NamedTuple):
    """A word at characters ``start`` to ``end − 1``; its label is `None` if unknown."""

    start: int
    end: int
    label: str | None = None


@dataclass(frozen=True)
class Annotation:
    """A text with an annotation of its words.

    Parameters
    ----------
    text : str
    words : sequence of KnownWord
        The known words of the text, in order; the text between them is unknown.
    boundaries : mapping of int to bool
        Characters at which a word begins (True), or no word begins (False).

    Raises
    ------
    DataError
        A word or boundary outside the text, words that overlap, or one across a known boundary.
    """

    text: str
    words: Sequence[KnownWord] = ()
    boundaries: Mapping[int, bool] = field(default_factory=dict)

    def __post_init__(self) -> None:
        at, size = 0, len(self.text)
        object.__setattr__(self, "words", tuple(KnownWord(*word) for word in self.words))
        for word in self.words:
            if not at <= word.start < word.end <= size:
                raise DataError(
                    f"word {word.start} to {word.end} of {self._name}: outside, empty, or before "
                    "the end of the word before it"
                )
            at = word.end
        for place, begins in self.boundaries.items():
            if not 0 <= place <= size:
                raise DataError(f"boundary {place} of {self._name}, a text of {size} characters")
            known = next((w for w in self.words if w.start <= place <= w.end), None)
            if known is not None and begins != (place in (known.start, known.end)):
                raise DataError(f"boundary {place} of {self._name} contradicts a known word")

    @property
    def _name(self) -> str:
        return repr(self.text[:20])

    @classmethod
    def of_words(
        cls, words: Iterable[str | tuple[str, str | None]], text: str | None = None
    ) -> Annotation:
        """Return the annotation of a text all of whose words are known.

        Parameters
        ----------
        words : iterable of str or (str, label)
            The label `None` is unknown.
        text : str, optional
            The text with these words, which may be separated by blanks; by default, the words are
            joined.

        Raises
        ------
        DataError
            The words do not occur in the text.
        """
        pairs = [(word, None) if isinstance(word, str) else word for word in words]
        whole = "".join(word for word, _ in pairs) if text is None else text
        found, at = [], 0
        for word, label in pairs:
            start = whole.find(word, at)
            if start < 0 or whole[at:start].strip():
                raise DataError(f"the word {word!r} is not at character {at} of {whole[:20]!r}")
            at = start + len(word)
            found.append(KnownWord(start, at, label))
        if whole[at:].strip():
            raise DataError(f"no word at character {at} of {whole[:20]!r}")
        return cls(whole, found)

    @classmethod
    def of_marks(cls, line: str) -> Annotation:
        """Return the annotation of characters with a mark between each two.

        ``|`` begins a word, ``-`` begins no word, and after a blank this is unknown. In
        ``"東-京|都 に"``, no word begins at 京, and a word begins at 都.

        Raises
        ------
        DataError
            Another mark between two characters.
        """
        text, marks = line[::2], line[1::2]
        if set(marks) - {_BEGINS, _NONE, _OPEN} or (line and len(marks) != len(text) - 1):
            raise DataError(
                f"{line[:20]!r}: expected characters with {_BEGINS!r}, {_NONE!r} or a blank "
                "between each two"
            )
        pairs = enumerate(marks, start=1)
        return cls(text, (), {k: m == _BEGINS for k, m in pairs if m != _OPEN})

    @property
    def complete(self) -> bool:
        """All of the text is words that are known."""
        at = 0
        for word in self.words:
            if self.text[at : word.start].strip():
                return False
            at = word.end
        return not self.text[at:].strip()

    def agrees(self, start: Array, end: Array, label: Callable[[int], str]) -> Bools:
        """Return whether words at some characters, with these labels, agree with it, bool [n]."""
        begins = np.zeros(len(self.text) + 1, dtype=np.int64)
        none = np.zeros(len(self.text) + 1, dtype=bool)
        known = [w.start for w in self.words] + [w.end for w in self.words]
        begins[[*known, *(k for k, there in self.boundaries.items() if there)]] = 1
        none[[k for k, there in self.boundaries.items() if not there]] = True
        for word in self.words:
            none[word.start + 1 : word.end] = True
        before = Ragged.from_lengths(begins).offsets
        inside = before[np.maximum(end, start + 1)] - before[start + 1]
        found: Bools = (inside == 0) & ~none[start] & ~none[end]
        names = {(w.start, w.end): w.label for w in self.words if w.label is not None}
        if names:
            for k in np.flatnonzero(found).tolist():
                wanted = names.get((int(start[k]), int(end[k])))
                found[k] = wanted is None or wanted == label(k)
        return found
