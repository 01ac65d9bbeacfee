"""A lexicon composed with a tagger of characters: words and labels decided together."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import ArrayLike

from fstcrf.errors import OptionError
from fstcrf.ext.lexicon.words import Candidates, Word, first_field
from fstcrf.lattices import AnyLattice, Lattice


class _Tagger(Protocol):
    """A tagger of characters."""

    @property
    def tapes(self) -> tuple[str, ...]: ...

    def lattice(self, sentence: Any) -> Any:
        """Return the lattice of a sentence."""


class _Lexicon(Protocol):
    """A source of words."""

    def lattice(
        self, text: str, *, boundaries: Mapping[int, bool] | None, word_class: Callable[[str], str]
    ) -> AnyLattice:
        """Return all words of a text as segments."""

    def candidates(self, text: str, *, boundaries: Mapping[int, bool] | None) -> Candidates:
        """Return all words of a text."""


class TaggedWords(NamedTuple):
    """Words of a text, and the labels of its characters, decided together."""

    words: list[Word]
    labels: list[str]
    score: float
    probability: float


class LexiconTagger:
    """A lexicon and a tagger of characters as one; ``lexicon @ tagger`` for short.

    A path is words that cover a text, and a label for each of its characters; its score is the
    score of the words in the lexicon, as natural logs, plus the tagger's score of the labels.

    Parameters
    ----------
    lexicon : Lexicon
    tagger : CRF or JointCRF of one tape
        Its tokens are characters.
    agree : bool
        Words begin exactly at the labels ``B-``, ``S-``, ``U-`` or plain ``B``, ``S``, ``U``. If
        false, only `coupling` connects words and labels.
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

        It offers all methods of a `Lattice`: n best, probabilities, samples, grammars. The segments
        are words, labelled by their classes; `Path.arcs` numbers the words of
        ``lexicon.candidates(text)``.

        Parameters
        ----------
        text : str
        boundaries : mapping of int to bool, optional
            As for `Lexicon.tag`.
        """
        segments = self.lexicon.lattice(text, boundaries=boundaries, word_class=self.word_class)
        names = self.tagger.tapes
        tokens = self.tagger.lattice(self._sentence(text))
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

    def tag(self, text: str, *, boundaries: Mapping[int, bool] | None = None) -> TaggedWords:
        """Return the best words of a text, and the labels of its characters.

        Raises
        ------
        NoPathError
            No words cover the text, or no labels fit the words.
        """
        return self.nbest(text, 1, boundaries=boundaries)[0]

    def nbest(
        self, text: str, n: int, *, boundaries: Mapping[int, bool] | None = None
    ) -> list[TaggedWords]:
        """Return the n best ways, best first; arguments and errors as for `tag`."""
        words = self.lexicon.candidates(text, boundaries=boundaries)
        lattice = self.lattice(text, boundaries=boundaries)
        paths = [lattice.best()] if n == 1 else lattice.nbest(n)
        if not paths:
            raise lattice.row.no_path()
        return [
            TaggedWords(words.chosen(path.arcs), list(path.labels[1]), path.score, path.probability)
            for path in paths
        ]

    def _sentence(self, text: str) -> dict[str, list[str]]:
        column = self.column
        if column is None:
            index = getattr(getattr(self.tagger, "taggers", [self.tagger])[0], "index", None)
            columns = tuple(getattr(index, "columns", ()))
            if len(columns) != 1:
                listed = ", ".join(map(repr, columns)) or "none"
                raise OptionError(
                    f"the tagger reads the columns {listed}: name the column of characters, "
                    "LexiconTagger(..., column=)"
                )
            column = columns[0]
        return {column: list(text)}


def begins(label: str) -> bool:
    """Return whether a unit begins at a label: B, S, U or W, or one of them before a hyphen."""
    return label.partition("-")[0] in ("B", "S", "U", "W")
