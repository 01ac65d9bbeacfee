"""`WordTagger`: the words of a lexicon as a tagger of characters, which composes with others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, cast

import numpy as np

from fstcrf.arguments import whole_number
from fstcrf.arrays import Array, Ints
from fstcrf.errors import DataError, OptionError
from fstcrf.ext.lexicon import Lexicon
from fstcrf.ext.words import files
from fstcrf.ext.words.candidates import CandidateLabels
from fstcrf.ext.words.crf import LatticeCRF
from fstcrf.ext.words.files import SavedWordTagger
from fstcrf.lattices import Lattice
from fstcrf.lattices.answer import Answer
from fstcrf.lattices.engine import Tape
from fstcrf.lazy import given_state, made_once
from fstcrf.storage import WORDS
from fstcrf.taggers.evidence import Evidence, Request, biases, mask
from fstcrf.taggers.product import Product
from fstcrf.taggers.spanencoding import SpanEncoding
from fstcrf.taggers.tagger import Composable
from fstcrf.text.corpus import Sentence, named_scheme
from fstcrf.text.sentences import Data, as_sentences

if TYPE_CHECKING:
    from fstcrf.kernel import Budget
    from fstcrf.lattices.arcrow import ArcRow
    from fstcrf.machines.grammar import Grammar
    from fstcrf.machines.plans import Search


class _Labels(CandidateLabels):
    """Labels of the words of a lexicon, of which every text has all."""

    @made_once
    def all(self) -> tuple[tuple[str, ...], Ints]:
        """Return the labels, sorted, and the label number of each word, int32."""
        return super().of(np.arange(self.lexicon.n_words, dtype=np.int32))

    def of(self, words: Ints) -> tuple[tuple[str, ...], Ints]:
        """Return all labels, and which of them each of some words has, int32 [n]."""
        names, number = self.all
        return names, number[words]


@dataclass(frozen=True, eq=False)
class WordTagger(Composable[list[str]]):
    """A tagger of characters whose segments are words of a lexicon; ``words @ crf`` composes it.

    A path is words that cover a text. Its score is the score of the words: costs of a `Lexicon`, as
    natural logs, or the learnt scores of a `LatticeCRF`. Several words with the same place and
    label are one answer: its score is the best of their scores, its probability the sum of their
    probabilities.

    Parameters
    ----------
    words : Lexicon or LatticeCRF
    label : tuple of int, optional
        Fields of a word's feature, from 0, that form its label; by default, the fields of the
        `LatticeCRF`, or the first field of a `Lexicon`.
    tape : str
        Name of the tape that it writes.
    column : str, optional
        The column of sentences whose tokens are characters; the first one when absent.
    scheme : str
        In which `tag` writes the labels of words as labels of characters.

    Raises
    ------
    OptionError
        A scheme that only reads labels; numbers of fields below 0.

    Examples
    --------
    >>> import fstcrf
    >>> from fstcrf.ext.words import WordTagger
    >>> words = WordTagger(fstcrf.Lexicon.from_words({"so": -1.0, "the": -1.0}))
    >>> words.tag({"character": list("sothe")})
    ['B', 'I', 'B', 'I', 'I']
    """

    words: Lexicon | LatticeCRF
    label: tuple[int, ...] | None = None
    tape: str = "word"
    column: str | None = None
    scheme: str = "iob2"

    __getstate__ = given_state

    def __post_init__(self) -> None:
        if self.label is None:
            own = self.words.label if isinstance(self.words, LatticeCRF) else (0,)
            object.__setattr__(self, "label", own)
        for field in self.fields:
            whole_number(field, "a field of label", least=0)
        if not named_scheme(self.scheme).strict:
            raise OptionError(f"scheme {self.scheme!r} only reads labels; name one to write")

    def __repr__(self) -> str:
        return f"<WordTagger: {self.tape}, {self.words!r}>"

    @property
    def fields(self) -> tuple[int, ...]:
        """Fields of a word's feature that make its label."""
        return self.label or ()

    @property
    def lexicon(self) -> Lexicon:
        """The lexicon of the words."""
        return self.words.lexicon if isinstance(self.words, LatticeCRF) else self.words

    # --- As a tagger --------------------------------------------------------------------------

    @property
    def tapes(self) -> tuple[str, ...]:
        """The tape that it writes."""
        return (self.tape,)

    @property
    def _ambiguous(self) -> bool:
        """Several paths may have the same labels: words of one place and label."""
        return True

    @property
    def label_sets(self) -> dict[str, tuple[str, ...]]:
        """The labels of its tape, in the scheme that it writes."""
        return {self.tape: self._encoding.labels}

    @property
    def _lattice_tapes(self) -> tuple[Tape, ...]:
        """The tape of its lattices: labels of words."""
        return (Tape(self.tape, self._labels.all[0], segments=True),)

    def _span_encoding(self, tape: str) -> SpanEncoding | None:
        """Return the notation of words as labels of characters."""
        return self._encoding if tape == self.tape else None

    def _decode(self, asked: Request) -> Answer:
        """Return the result of `decode`; see `Tagger._decode`."""
        return Product[list[str]]((self,))._decode(asked)

    def constrained(
        self, grammar: Grammar, *, search: Search | None = None, budget: Budget | None = None
    ) -> Product[list[str]]:
        """Return the tagger under a grammar, which reads the label of each word.

        See `CRF.constrained`; all words are enumerated, without a search.
        """
        return Product[list[str]]((self,)).constrained(grammar, search=search, budget=budget)

    def _lattices(self, sentences: Data, known: Evidence | None) -> list[Lattice]:
        """Return the lattice of each sentence, restricted to the known labels.

        Raises
        ------
        DataError
            A sentence without the column, or a token that is no character.
        """
        rows = as_sentences(list(sentences), (self.column or "character",))
        texts = [self._text(row, number) for number, row in enumerate(rows)]
        return [self._transducer(text, number, known) for number, text in enumerate(texts)]

    def _text(self, sentence: Sentence, number: int) -> str:
        if not len(sentence):
            return ""
        column = sentence.columns[0] if self.column is None else self.column
        if column not in sentence:
            raise DataError(f"no column {column!r}: name the column of characters with column=")
        tokens: Sequence[str] = sentence[column]
        for token, character in enumerate(tokens):
            if len(character) != 1:
                raise DataError(
                    f"sentence {number + 1}, {character!r} in column {column!r} is no character: "
                    "words are found in characters; lattice @ transducer composes other tokens",
                    token=token,
                )
        return "".join(tokens)

    def _transducer(self, text: str, number: int, known: Evidence | None) -> Lattice:
        words = self.lexicon.candidates(text)
        row = cast("ArcRow", self.words.ways(words, self._labels).row)
        if known is not None:
            topology, forced = self._encoding.topology, known.forced.get(self.tape)
            labels = None if forced is None else forced[number]
            table = np.where(
                mask(topology, labels, len(text)),
                biases(topology, known.bias.get(self.tape, {})),
                -np.inf,
            )
            end = np.where(words.end == words.last, len(text), words.end)
            kind = self._labels.of(words.word)[1].astype(np.int64)
            places = words.first.astype(np.int64), end.astype(np.int64)
            added = self._encoding.added(table, *places, kind)[row.unconstrained.origin]
            kept = np.isfinite(added)
            free = row.unconstrained.with_arcs(kept)
            row = replace(row, unconstrained=replace(free, score=free.score + added[kept]))
        return Lattice(replace(row, on=self._lattice_tapes))

    @made_once
    def _labels(self) -> _Labels:
        return _Labels(self.lexicon, self.fields)

    @made_once
    def _encoding(self) -> SpanEncoding:
        return SpanEncoding(self._labels.all[0], self.scheme)

    # --- Files --------------------------------------------------------------------------------

    def _encoded(self) -> tuple[str, dict[str, Array], dict[str, str]]:
        """Return the kind of its file, arrays and metadata: as a part of a composition."""
        model = self.words if isinstance(self.words, LatticeCRF) else None
        parts = self.fields, self.tape, self.column, self.scheme
        kept = SavedWordTagger(*parts, self.lexicon, None if model is None else model.saved)
        return WORDS, *files.encoded_tagger(kept)


def decoded(arrays: Mapping[str, Array], metadata: Mapping[str, str], name: str) -> WordTagger:
    """Return the tagger that arrays and metadata describe; `name` is the file's."""
    kept = files.decoded_tagger(arrays, metadata, name)
    words = kept.lexicon if kept.model is None else LatticeCRF(*kept.model)
    return WordTagger(words, kept.label, kept.tape, kept.column, kept.scheme)
