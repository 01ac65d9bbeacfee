"""A lexicon: words and their costs as a tagger of unspaced text.

A text's words form a lattice; the cost of a way through it is

    sum of the costs of its words + sum of matrix[left context, right context] of neighbours

with context 0 at both ends of the text. A score in natural logs is −cost / `unit`.
"""

from __future__ import annotations

import errno
import os
from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, cast

import numpy as np
from numpy.typing import NDArray

from fstcrf.arguments import check_strings, items_of
from fstcrf.arrays import Bytes, Floats, Ints, Longs, Ragged
from fstcrf.errors import DataError, ModelFileError, OptionError
from fstcrf.ext.lexicon import sources
from fstcrf.ext.lexicon.characters import Characters, Kind
from fstcrf.ext.lexicon.dictionary import UNKNOWN, Dictionary, Entry
from fstcrf.ext.lexicon.kernel import (
    CHEAPEST_NONE,
    LexiconTables,
    WordList,
    best_words,
    find_prefixes,
    find_words,
)
from fstcrf.ext.lexicon.words import Candidates, Word, WordAnswer, WordLabels, first_field
from fstcrf.files import atomic_write, opening, path_name
from fstcrf.kernel.strings import pack_strings
from fstcrf.lattices import AnyLattice, Lattice
from fstcrf.lattices.constructors import from_words
from fstcrf.lazy import LazyModule, given_state, made_once, memoised
from fstcrf.taggers import Tagger
from fstcrf.text.lines import text_lines

if TYPE_CHECKING:
    from fstcrf.ext.lexicon import tagging
    from fstcrf.ext.lexicon.tagging import LexiconTagger
    from fstcrf.taggers import CRF
else:  # who finds words without a tagger does not wait for it
    tagging = LazyModule("fstcrf.ext.lexicon.tagging")

_UNIT = 700.0
_COMPILED = ("sys.dic", "unk.dic", "char.bin", "matrix.bin")
_SOURCES = ("char.def", "unk.def", "matrix.def")
_BEGINS, _NONE = 1, 2
_NATS = 10.0  # by which an unknown character is worse than a word, in a list of words


class Lexicon:
    """Words, the cost of each, and the costs of neighbours.

    Made by `load`, `from_words` or `from_entries`. Any number of threads may ask it.

    Parameters
    ----------
    dictionaries : sequence of Dictionary
        The first is the system's, others are users'; words are numbered through.
    unknown : Dictionary
        Unknown words, which no dictionary has: entries under the names of kinds of characters.
    characters : Characters
    matrix : int16 [left contexts, right contexts]
        Cost of neighbours: by left context of a word and right context of the one before it.
    unit : float
        Cost of one nat. A larger one makes probabilities more even.
    longest_run : int
        A run of characters of one kind is a word up to this length, its first not counted.

    Raises
    ------
    DataError
        Dictionaries with other contexts than the matrix, or no entries of DEFAULT.
    OptionError
        A unit or length that is not positive.
    """

    def __init__(
        self,
        dictionaries: Sequence[Dictionary],
        unknown: Dictionary,
        characters: Characters,
        matrix: NDArray[np.int16],
        *,
        unit: float = _UNIT,
        longest_run: int = 24,
    ) -> None:
        if not unit > 0 or not np.isfinite(unit):
            raise OptionError(f"unit is {unit}, expected a positive number")
        if longest_run < 0:
            raise OptionError(f"longest_run is {longest_run}, expected 0 or more")
        self.dictionaries, self.unknown = tuple(dictionaries), unknown
        self.characters, self.matrix, self.unit = characters, matrix, unit
        for one in (*self.dictionaries, unknown):
            rights, lefts = one.contexts
            if rights > matrix.shape[1] or lefts > matrix.shape[0]:
                raise DataError(
                    f"{one!r} is made for {rights} right and {lefts} left contexts; the matrix has "
                    f"{matrix.shape[1]} and {matrix.shape[0]}"
                )
        rows, self._unknown_entries = self._unknown_rows()
        self.tables = LexiconTables(
            [WordList(one.units, one.entries) for one in self.dictionaries],
            rows,
            unknown.entries[self._unknown_entries],
            characters.codes,
            matrix,
            longest_run,
        )

    __getstate__ = given_state

    def __matmul__(self, tagger: object) -> LexiconTagger:
        """Return ``LexiconTagger(self, tagger)``: words and labels of characters together."""
        if not isinstance(tagger, Tagger):
            return NotImplemented
        return tagging.LexiconTagger(self, cast("CRF", tagger))

    def __repr__(self) -> str:
        words = sum(map(len, self.dictionaries))
        lefts, rights = self.matrix.shape
        return f"<Lexicon: {words:,} words, {rights:,} × {lefts:,} contexts>"

    def _unknown_rows(self) -> tuple[Longs, Longs]:
        found = self.unknown.rows
        if "DEFAULT" not in found:
            raise DataError("unknown words have no entry for DEFAULT")
        spans = np.asarray([found.get(name, (0, 0)) for name in self.characters.names])
        rows = Ragged.from_lengths(spans[:, 1])
        return rows.offsets, rows.ranges(spans[:, 0])

    # --- Made of ----------------------------------------------------------------------------------

    @classmethod
    def load(
        cls,
        folder: str | os.PathLike[str],
        *,
        users: Sequence[str | os.PathLike[str]] = (),
        unit: float | None = None,
        encoding: str = "utf-8",
    ) -> Lexicon:
        """Load a dictionary of MeCab, compiled or as sources.

        A compiled one (``sys.dic unk.dic char.bin matrix.bin``) is mapped: do not change its files
        while it is in use. Sources are all ``*.csv`` files with ``char.def unk.def matrix.def``.

        Parameters
        ----------
        folder : path
        users : sequence of paths
            Further dictionaries: compiled ``.dic``, or ``.csv``.
        unit : float, optional
            Cost of one nat; ``cost-factor`` of ``dicrc`` by default, else 700.
        encoding : str
            Of sources.

        Raises
        ------
        ModelFileError
            Files that are missing, damaged or of another charset.
        FileNotFoundError
            There is no such folder.
        DataError
            A line of a source that cannot be read; names file and line.
        """
        folder = Path(path_name(folder))
        if all((folder / name).is_file() for name in _COMPILED):
            made = cls._compiled(folder, unit or _cost_factor(folder))
        elif all((folder / name).is_file() for name in _SOURCES):
            made = cls._from_sources(folder, unit or _cost_factor(folder), encoding)
        elif not folder.exists():
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), os.fspath(folder))
        else:
            raise ModelFileError(
                f"{folder}: not the folder of a dictionary: expected {' '.join(_COMPILED)}, "
                f"or *.csv and {' '.join(_SOURCES)}"
            )
        return made.with_users(users, encoding=encoding) if users else made

    @classmethod
    def _compiled(cls, folder: Path, unit: float) -> Lexicon:
        return cls(
            [Dictionary.read(folder / "sys.dic")],
            Dictionary.read(folder / "unk.dic"),
            Characters.read(folder / "char.bin"),
            _mapped_matrix(folder / "matrix.bin"),
            unit=unit,
        )

    @classmethod
    def _from_sources(cls, folder: Path, unit: float, encoding: str) -> Lexicon:
        files = sorted(folder.glob("*.csv"))
        entries = [one for path in files for one in sources.read_entries(path, encoding)]
        return cls.from_entries(
            entries,
            sources.read_matrix(folder / "matrix.def"),
            sources.read_characters(folder / "char.def", encoding),
            sources.read_entries(folder / "unk.def", encoding),
            unit=unit,
        )

    @classmethod
    def from_entries(
        cls,
        entries: Iterable[Entry],
        matrix: NDArray[np.int16],
        characters: Characters,
        unknown: Iterable[Entry],
        *,
        unit: float = _UNIT,
    ) -> Lexicon:
        """Return the lexicon of some words; entries of unknown words are under names of kinds.

        Raises
        ------
        DataError
            No words, or words with contexts that the matrix does not have.
        """
        contexts = matrix.shape[1], matrix.shape[0]
        words = Dictionary.from_entries(entries, contexts)
        if not len(words):
            raise DataError("a lexicon without words: expected at least one")
        matrix = np.ascontiguousarray(matrix, dtype=np.int16)
        return cls(
            [words], Dictionary.from_entries(unknown, contexts), characters, matrix, unit=unit
        )

    @classmethod
    def from_words(cls, words: Iterable[str] | Mapping[str, float]) -> Lexicon:
        """Return the lexicon of a list of words.

        Parameters
        ----------
        words : iterable of str, or mapping of str to float
            Words, with natural-log scores (0 by default) if they are a mapping. A character that no
            word covers is a word itself, 10 nats worse than one of score 0.

        Raises
        ------
        DataError
            No words, an empty one, or a score beyond ±46 nats or NaN.
        """
        if isinstance(words, str):
            raise DataError(f"the words are the string {words!r}, expected a list of words")
        given = words if isinstance(words, Mapping) else list(words)
        check_strings(given, "a word")
        scores = dict(given) if isinstance(given, Mapping) else dict.fromkeys(given, 0.0)
        most = (2**15 - 1) / _UNIT
        for word, score in scores.items():
            if not abs(score) <= most:
                raise DataError(f"word {word!r} has the score {score}, expected ±{most:.0f} nats")
        kinds = {
            "DEFAULT": Kind(always=True, runs=False, length=1),
            "SPACE": Kind(always=False, runs=True, length=0),
        }
        blanks = [(ord(c), ord(c), ["SPACE"]) for c in " \t\u3000"]
        unknown = [Entry(name, 0, 0, round(_NATS * _UNIT), "") for name in kinds]
        entries = [Entry(word, 0, 0, -round(s * _UNIT), "") for word, s in scores.items()]
        nothing = np.zeros((1, 1), dtype=np.int16)
        return cls.from_entries(entries, nothing, Characters.of_kinds(kinds, blanks), unknown)

    def with_users(
        self, files: Sequence[str | os.PathLike[str]], *, encoding: str = "utf-8"
    ) -> Lexicon:
        """Return the lexicon with further dictionaries, compiled ``.dic`` or ``.csv``."""
        contexts = self.matrix.shape[1], self.matrix.shape[0]
        added = [
            Dictionary.read(path)
            if path.suffix == ".dic"
            else Dictionary.from_entries(sources.read_entries(path, encoding), contexts)
            for path in (Path(path_name(file)) for file in files)
        ]
        return self._with(dictionaries=[*self.dictionaries, *added])

    def with_entries(self, entries: Iterable[Entry]) -> Lexicon:
        """Return the lexicon with further words in an additional dictionary.

        Raises
        ------
        DataError
            Words with contexts that the matrix does not have.
        """
        contexts = self.matrix.shape[1], self.matrix.shape[0]
        added = Dictionary.from_entries(entries, contexts)
        return self._with(dictionaries=[*self.dictionaries, added])

    def with_unit(self, unit: float) -> Lexicon:
        """Return the lexicon with another cost of one nat: the best words stay, others do not."""
        return self._with(unit=unit)

    def _with(
        self, *, dictionaries: Sequence[Dictionary] | None = None, unit: float | None = None
    ) -> Lexicon:
        return Lexicon(
            self.dictionaries if dictionaries is None else dictionaries,
            self.unknown,
            self.characters,
            self.matrix,
            unit=self.unit if unit is None else unit,
            longest_run=self.tables.longest_run,
        )

    def write(self, folder: str | os.PathLike[str], *, compiled: bool = True) -> None:
        """Write a dictionary that MeCab runs, or the sources that it compiles.

        Raises
        ------
        OptionError
            The lexicon has users' dictionaries: write each separately.
        """
        if len(self.dictionaries) != 1:
            raise OptionError(f"{len(self.dictionaries)} dictionaries, expected one to write")
        folder = Path(path_name(folder))
        folder.mkdir(parents=True, exist_ok=True)
        if compiled:
            self._write_compiled(folder)
        else:
            sources.write_entries(folder / "lex.csv", self.dictionaries[0].listed())
            sources.write_entries(folder / "unk.def", self.unknown.listed())
            sources.write_characters(folder / "char.def", self.characters)
            sources.write_matrix(folder / "matrix.def", self.matrix)
        with atomic_write(folder / "dicrc") as file:
            rows = f"cost-factor = {round(self.unit)}\nbos-feature = BOS/EOS\n"
            file.write((rows + "config-charset = UTF-8\ndictionary-charset = UTF-8\n").encode())

    def _write_compiled(self, folder: Path) -> None:
        self.dictionaries[0].write(folder / "sys.dic")
        self.unknown.write(folder / "unk.dic", kind=UNKNOWN)
        self.characters.write(folder / "char.bin")
        with atomic_write(folder / "matrix.bin") as file:
            lefts, rights = self.matrix.shape
            file.write(np.asarray([rights, lefts], dtype="<u2").tobytes())
            file.write(self.matrix.astype("<i2").tobytes())

    # --- Words of texts ---------------------------------------------------------------------------

    def tag(self, text: str, *, boundaries: Mapping[int, bool] | None = None) -> list[Word]:
        """Return the best words of a text.

        Parameters
        ----------
        text : str
        boundaries : mapping of int to bool, optional
            Characters at which a word begins (True), or no word begins (False). If no entry fits,
            the text between two known boundaries is an unknown word.

        Raises
        ------
        NoPathError
            No words cover the text.
        DataError
            A boundary outside the text, or a damaged dictionary.
        """
        known = None if boundaries is None else [boundaries]
        return self.tag_all([text], boundaries=known).only()

    def tag_all(
        self, texts: Sequence[str], *, boundaries: Sequence[Mapping[int, bool]] | None = None
    ) -> WordAnswer:
        """Return the best words of texts as flat arrays; arguments as for `tag`.

        A text that no words cover has no words, and the score −inf.
        """
        items_of(texts, "the texts are", "a list of them", DataError)
        data, offsets = pack_strings(texts)
        marks = None if boundaries is None else _marks(texts, boundaries)
        found = best_words(self.tables, data.tobytes(), offsets, marks)
        cost = found.cost.astype(np.float64)
        scores = np.where(found.cost == CHEAPEST_NONE, -np.inf, -cost / self.unit)
        starts, ends = found.start, found.end
        if len(data) != sum(map(len, texts)):
            starts, ends = _in_characters(data, offsets, found.row, starts, ends)
        return WordAnswer(tuple(texts), self, found.row, starts, ends, found.word, scores)

    def lattice(
        self,
        text: str,
        *,
        boundaries: Mapping[int, bool] | None = None,
        word_class: Callable[[str], str] = first_field,
    ) -> AnyLattice:
        """Return the lattice of all candidate words of a text, with the scores of its paths.

        Its segments are words, labelled by their classes; blanks before a word belong to it, those
        at the end of the text to the last one. `Path.arcs` numbers the words of `candidates`.

        Parameters
        ----------
        text : str
        boundaries : mapping of int to bool, optional
            As for `tag`, including errors; a text that no words cover gives a lattice without a
            path.
        word_class : callable
            Feature of a word to the label of its segment.
        """
        return self.ways(self.candidates(text, boundaries=boundaries), self.labels(word_class))

    def ways(self, words: Candidates, labels: WordLabels) -> AnyLattice:
        """Return the lattice of the candidate words of a text, with these labels."""
        entries = self.entries(words.word)
        names, label = labels.of(words.word)
        left, right, costs = (np.append(entries[part], 0) for part in ("left", "right", "cost"))
        matrix = np.asarray(self.matrix)

        def behind(context: Longs, word: Longs) -> Floats:
            cost = matrix[left[word], context].astype(np.float64) + costs[word]
            score: Floats = 0.0 - cost / self.unit
            return score

        places = words.first, words.end
        row = from_words(
            len(words.text), *places, label, names, right.astype(np.int64), behind, words.last
        )
        return Lattice(row)

    @made_once
    def labels(self) -> Callable[[Callable[[str], str]], WordLabels]:
        """The labels of all words, for a function that turns a feature into a label."""
        return memoised(4)(partial(WordLabels, self))

    def candidates(self, text: str, *, boundaries: Mapping[int, bool] | None = None) -> Candidates:
        """Return the candidate words of a text; arguments and errors as for `tag`."""
        data, _ = pack_strings([text])
        marks = None if boundaries is None else _marks([text], [boundaries])
        words, last = find_words(self.tables, data.tobytes(), marks)
        places = [words["from"], words["start"], words["end"]]
        if len(data) != len(text):
            before = _characters(data)
            places = [before[place] for place in places]
            last = int(before[last]) if last > 0 else last
        first, start, end = map(np.ascontiguousarray, places)
        return Candidates(text, self, first, start, end, np.ascontiguousarray(words["word"]), last)

    def prefixes(self, text: str) -> list[Word]:
        """Return the words of all dictionaries that begin a text, shortest first."""
        data, found = text.encode(), []
        for k, one in enumerate(self.dictionaries):
            for length, value in find_prefixes(one.units, data):
                surface = data[:length].decode()
                first = self.tables.first[k] + (value >> 8)
                words = range(first, first + (value & 255))
                found += [Word(surface, 0, len(surface), self.feature(n), n) for n in words]
        return sorted(found, key=lambda one: one.end)

    # --- One word ---------------------------------------------------------------------------------

    @made_once
    def n_known(self) -> int:
        """Words of dictionaries; words with this number or a higher one are unknown ones."""
        return self.tables.first[-1]

    @property
    def n_words(self) -> int:
        """Number of words in dictionaries, plus unknown words."""
        return self.n_known + len(self._unknown_entries)

    def feature(self, word: int) -> str:
        """Return the feature of a word by its number.

        Raises
        ------
        DataError
            A damaged dictionary.
        """
        if word >= self.n_known:
            return self.unknown.feature(int(self._unknown_entries[word - self.n_known]))
        k = bisect_right(self.tables.first, word) - 1
        return self.dictionaries[k].feature(word - self.tables.first[k])

    def entries(self, words: Ints) -> NDArray[np.void]:
        """Return contexts and costs of words by their numbers, structured ``[n]``."""
        found = np.empty(len(words), dtype=self.tables.unknown_entries.dtype)
        first = self.tables.first
        for k, one in enumerate([*self.dictionaries, None]):
            table = self.tables.unknown_entries if one is None else one.entries
            end = first[k] + len(table)
            own = (words >= first[k]) & (words < end)
            found[own] = table[words[own] - first[k]]
        return found


def _mapped_matrix(path: Path) -> NDArray[np.int16]:
    try:
        data = np.memmap(path, dtype="<u2", mode="r")
    except (OSError, ValueError) as error:
        raise ModelFileError(f"{path}: cannot be read: {error}") from None
    rights, lefts = (int(data[0]), int(data[1])) if len(data) > 1 else (0, 0)
    if not rights * lefts or len(data) != 2 + rights * lefts:
        raise ModelFileError(f"{path}: {2 * len(data)} bytes are no matrix of {rights} × {lefts}")
    return data[2:].view(np.int16).reshape(lefts, rights)


def _cost_factor(folder: Path) -> float:
    """Return the cost of one nat in a dictionary."""
    path = folder / "dicrc"
    if path.is_file():
        for line in text_lines(opening(str(path))):
            name, _, value = line.partition("=")
            if name.strip() == "cost-factor" and value.strip().isdigit() and int(value):
                return float(value)
    return _UNIT


def _marks(texts: Sequence[str], boundaries: Sequence[Mapping[int, bool]]) -> Bytes:
    """Return the known boundaries: for each text, one more number than its bytes."""
    if len(boundaries) != len(texts):
        raise OptionError(f"boundaries of {len(boundaries)} texts, expected {len(texts)}")
    parts = []
    for text, known in zip(texts, boundaries, strict=True):
        place = Ragged.from_lengths(len(c.encode()) for c in text).offsets
        marks = np.zeros(int(place[-1]) + 1, dtype=np.uint8)
        for at, begins in known.items():
            if not 0 <= at <= len(text):
                raise DataError(f"boundary {at} of a text of {len(text)} characters")
            marks[place[at]] = _BEGINS if begins else _NONE
        parts.append(marks)
    return np.concatenate(parts) if parts else np.zeros(0, dtype=np.uint8)


def _in_characters(
    data: Bytes, offsets: Longs, row: Longs, starts: Ints, ends: Ints
) -> tuple[Ints, Ints]:
    """Places in bytes as places in characters."""
    before = _characters(data)
    base = Ragged(row).repeat(offsets[:-1])
    zero = before[base]
    return before[base + starts] - zero, before[base + ends] - zero


def _characters(data: Bytes) -> Ints:
    """Return the number of characters that begin before each byte, and their total."""
    before = np.zeros(len(data) + 1, dtype=np.int32)
    np.cumsum((data & 0xC0) != 0x80, out=before[1:], dtype=np.int32)
    return before
