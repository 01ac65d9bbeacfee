"""A lexicon composed with a tagger of characters: words and labels decided together."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import ArrayLike

from fstcrf.arrays import Bools, Ints
from fstcrf.errors import OptionError
from fstcrf.ext.lexicon.words import Word, WordLattice
from fstcrf.lattices import Lattice
from fstcrf.lattices.constructors import from_words


class _Tagger(Protocol):
    """What tags characters."""

    @property
    def tapes(self) -> tuple[str, ...]: ...

    def lattice(self, sentence: Any) -> Any:
        """Return the lattice of a sentence."""


class _Lexicon(Protocol):
    """What finds words."""

    def lattice(self, text: str, *, boundaries: Mapping[int, bool] | None = None) -> WordLattice:
        """Return all words of a text."""


class TaggedWords(NamedTuple):
    """Words of a text, and the labels of its characters, decided together."""

    words: list[Word]
    labels: list[str]
    score: float
    probability: float


def first_field(feature: str) -> str:
    """Return what stands before the first comma of a feature: of most dictionaries, the class."""
    return feature.partition(",")[0]


class LexiconTagger:
    """A lexicon and a tagger of characters as one; ``lexicon @ tagger`` for short.

    A path is words that cover a text and a label for each of its characters; it scores what the
    words cost in the lexicon, as natural logs, and what the tagger gives the labels.

    Parameters
    ----------
    lexicon : Lexicon
    tagger : CRF or Composition of one tape
        Its tokens are characters.
    agree : bool
        Words begin where labels begin: at ``B-``, ``S-``, ``U-`` or plain ``B``, ``S``, ``U``, and
        nowhere else. Without, only `coupling` connects the two.
    coupling : mapping of (str, str) to float, optional
        Natural-log scores of a word's class and the label of each of its characters; −inf forbids.
    word_class : callable
        Feature of a word in the dictionary to its class: the label of its segment.
    column : str
        The column of characters that the tagger reads.

    Raises
    ------
    OptionError
        A tagger of several tapes.
    """

    def __init__(
        self,
        lexicon: _Lexicon,
        tagger: _Tagger,
        *,
        agree: bool = True,
        coupling: Mapping[tuple[str, str], float] | None = None,
        word_class: Callable[[str], str] = first_field,
        column: str | None = None,
    ) -> None:
        if len(tagger.tapes) != 1:
            raise OptionError(f"a tagger of {', '.join(tagger.tapes)}: expected one tape")
        self.lexicon, self.tagger, self.agree = lexicon, tagger, agree
        self.coupling, self.word_class = dict(coupling or {}), word_class
        self.column = column

    def __repr__(self) -> str:
        return f"<LexiconTagger: {self.lexicon!r} @ {self.tagger!r}>"

    def lattice(self, text: str, *, boundaries: Mapping[int, bool] | None = None) -> Lattice:
        """Return all words of a text with all labels of its characters, weighted.

        It answers what every `Lattice` does: n best, probabilities, samples, grammars. The
        segments are words, labelled by their classes; `Path.arcs` numbers the words of
        ``lexicon.lattice(text)``.

        Parameters
        ----------
        text : str
        boundaries : mapping of int to bool, optional
            As for `Lexicon.tag`.
        """
        return self._composed(self.lexicon.lattice(text, boundaries=boundaries))

    def tag(self, text: str, *, boundaries: Mapping[int, bool] | None = None) -> TaggedWords:
        """Return the best words of a text, and the labels of its characters.

        Raises
        ------
        NoPathError
            No words cover the text, or none with labels that go with them.
        """
        return self.nbest(text, 1, boundaries=boundaries)[0]

    def nbest(
        self, text: str, n: int, *, boundaries: Mapping[int, bool] | None = None
    ) -> list[TaggedWords]:
        """Return the n best ways, best first; arguments and errors as for `tag`."""
        if not text:
            return [TaggedWords([], [], 0.0, 1.0)]
        words = self.lexicon.lattice(text, boundaries=boundaries)
        lattice, all_words = self._composed(words), words.words()
        paths = [lattice.best()] if n == 1 else lattice.nbest(n)
        if not paths:
            raise lattice.row.no_path()
        return [
            TaggedWords(
                [all_words[k] for k in path.arcs.tolist()],
                list(path.labels[1]),
                path.score,
                path.probability,
            )
            for path in paths
        ]

    def _composed(self, words: WordLattice) -> Lattice:
        segments = word_segments(words, self.word_class)
        names = self.tagger.tapes
        tokens = self.tagger.lattice(self._sentence(words.text))
        known = tokens.on[0].labels
        classes = segments.labels
        table = np.zeros((len(classes), len(known)))
        for (kind, label), score in self.coupling.items():
            if label not in known:
                raise OptionError(f"coupling of a label {label!r} that the tagger does not have")
            if kind in classes:
                table[classes.index(kind), known.index(label)] = score
        tied: Mapping[tuple[str, str], ArrayLike] = {("segment", names[0]): table}
        found = segments.with_tokens(tokens, coupling=tied)
        return Lattice(found.row.arcs().beginning_where(begins)) if self.agree else found

    def _sentence(self, text: str) -> dict[str, list[str]]:
        column = self.column
        if column is None:
            index = getattr(getattr(self.tagger, "taggers", [self.tagger])[0], "index", None)
            columns = tuple(getattr(index, "columns", ()))
            if len(columns) != 1:
                listed = ", ".join(map(repr, columns)) or "none"
                raise OptionError(
                    f"the tagger reads the columns {listed}: say which is that of characters, "
                    "LexiconTagger(..., column=)"
                )
            column = columns[0]
        return {column: list(text)}


def begins(label: str) -> bool:
    """Tell whether a unit begins at a label: B, S or U, alone or before a hyphen."""
    return label.partition("-")[0] in ("B", "S", "U")


def word_segments(words: WordLattice, word_class: Callable[[str], str]) -> Lattice:
    """Return the words that may stand in a text as segments; blanks before a word belong to it."""
    text, lexicon = words.text, words.lexicon
    length = len(text)
    kinds = [word_class(lexicon.feature(number)) for number in words.word.tolist()]
    labels = tuple(dict.fromkeys(kinds)) or ("",)
    number = {label: k for k, label in enumerate(labels)}
    label = np.asarray([number[kind] for kind in kinds], dtype=np.int32)
    start = _from(text, words.start.astype(np.int32), words.end.astype(np.int32))
    end = _ends(text, words.end.astype(np.int32))
    entries = lexicon.entries(words.word)
    left, left_class = np.unique(np.append(0, entries["left"]), return_inverse=True)
    right, right_class = np.unique(np.append(0, entries["right"]), return_inverse=True)
    matrix = lexicon.matrix[np.ix_(left, np.append(right, 0))].T.astype(np.float64)
    final = -lexicon.matrix[0, right].astype(np.float64) / lexicon.unit
    cost = entries["cost"].astype(np.float64)
    row = from_words(
        length,
        start,
        end,
        label,
        -cost / lexicon.unit,
        labels,
        (
            left_class.reshape(-1)[1:].astype(np.int32),
            right_class.reshape(-1)[1:].astype(np.int32),
        ),
        -matrix / lexicon.unit,
        np.append(final, 0.0),
    )
    return Lattice(row)


def _blanks(text: str) -> Bools:
    return np.asarray([c.isspace() for c in text], dtype=bool)


def _from(text: str, start: Ints, end: Ints) -> Ints:
    """Return where words begin with the blanks before them: where another one ends."""
    ended = np.zeros(len(text) + 1, dtype=bool)
    ended[0] = ended[end] = True
    blank = np.append(_blanks(text), False)
    place = np.arange(len(text) + 1, dtype=np.int32)
    for at in range(1, len(text) + 1):
        if not ended[at] and blank[at - 1]:
            place[at] = place[at - 1]
    return place[start]


def _ends(text: str, end: Ints) -> Ints:
    """Return where words end: at the end of the text where blanks follow and nothing else."""
    content = len(text) - int(np.cumprod(_blanks(text)[::-1]).sum())
    return np.where(end == content, np.int32(len(text)), end).astype(np.int32)
