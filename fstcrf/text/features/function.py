"""Attributes computed by a function of the caller: from a sentence to the attributes of its tokens.

The function sees a `Sentence`: the columns of the text, and the labels of each earlier tape that
the tagger reads as a column with the name of this tape. It never sees the column of gold labels
that the tagger was trained on. It returns, for each token, a list of strings or a dict, under the
rules of `LiteralIndex`.

A model file holds the name of the function, for error messages. It never holds the function, and
the name is never imported: the caller passes the function when it loads the model.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import KW_ONLY, dataclass, replace
from functools import partial
from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from fstcrf.errors import DataError, ModelFileError, OptionError
from fstcrf.kernel.rows import SentenceRows
from fstcrf.text.corpus.corpus import Corpus, Sentence, TokenPlace
from fstcrf.text.features import literal as literals
from fstcrf.text.features.design import Design
from fstcrf.text.features.index import FeatureIndex
from fstcrf.text.features.keys import IndexArrays, Metadata, check_kind
from fstcrf.text.features.literal import LiteralIndex, LiteralSentence
from fstcrf.text.features.template import tape_column

FeatureFunction: TypeAlias = Callable[[Sentence], Sequence[Any]]
"""Maps a sentence to a list with one entry for each token: a list of strings, or a dict."""

FeatureFunctions: TypeAlias = FeatureFunction | Mapping[str, FeatureFunction]
"""The function of a tagger, or the functions of several taggers by the names of their tapes."""

KIND = "function"
VERSION = 1

_MOST_KEPT = 1 << 24  # attributes of tokens in the designs of one reading: about 130 MB


@dataclass(eq=False)
class FunctionIndex:
    """The attributes that a function computes, and their rows.

    Parameters
    ----------
    attributes_by_name : LiteralIndex
        The attributes by name.
    function : callable, optional
        Maps a `Sentence` to the attributes of its tokens; `None` in an index from a file.
    name : str
        Name of the function in messages; by default its qualified name.
    tapes : tuple of str
        Tapes whose labels the function may read.
    columns : tuple of str
        Columns that the function saw in training.
    target : str, optional
        Column of gold labels, which the function does not see.
    """

    attributes_by_name: LiteralIndex
    function: FeatureFunction | None
    _: KW_ONLY
    name: str = ""
    tapes: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()
    target: str | None = None

    def __post_init__(self) -> None:
        self.name = self.name or ("" if self.function is None else function_name(self.function))

    @classmethod
    def build(
        cls,
        corpus: Corpus,
        function: FeatureFunction,
        *,
        tapes: Sequence[str] = (),
        target: str | None = None,
        min_count: int = 1,
        hash_bits: int | None = None,
        base: FunctionIndex | None = None,
    ) -> tuple[FunctionIndex, Design]:
        """Return the index of the attributes of a corpus, and the design of the corpus.

        Parameters
        ----------
        corpus : Corpus
            The training text, with the column ``tape_column(tape)`` for each of the tapes.
        function : callable
            Maps a `Sentence` to the attributes of its tokens.
        tapes, target
            As for the class.
        min_count, hash_bits
            As for `LiteralIndex.build`.
        base : FunctionIndex, optional
            An index whose attributes keep their rows; new ones follow.

        Raises
        ------
        DataError
            The function raises an error, or returns no list with an entry for each token, or an
            entry is not valid; names function and sentence.
        OptionError
            Options out of range, or other than the options of `base`.
        """
        columns = [name for name in corpus.columns if not name.startswith("%")]
        unseen = {target, *tapes}
        empty = cls(
            LiteralIndex(),
            function,
            tapes=tuple(tapes),
            columns=tuple(name for name in columns if name not in unseen),
            target=target,
        )
        computed = empty.compute(corpus, 0, len(corpus))
        with empty._located(corpus, 0):
            attributes, design = LiteralIndex.build(
                computed,
                min_count=min_count,
                hash_bits=hash_bits,
                base=None if base is None else base.attributes_by_name,
            )
        return empty.over(attributes), design

    def over(self, attributes: LiteralIndex) -> FunctionIndex:
        """Return the same function over other attributes."""
        return replace(self, attributes_by_name=attributes)

    def calling(self, function: FeatureFunction) -> FunctionIndex:
        """Return the same attributes, computed by this function."""
        return replace(self, function=function, name="")

    # --- Attributes of sentences --------------------------------------------------------------

    def design(self, data: Corpus | Sequence[Sentence], /) -> Design:
        """Return the attributes of every token; unknown ones are absent; errors as for `build`."""
        return self.runs(data)(0, len(data))

    def runs(self, data: Corpus | Sequence[Sentence]) -> Callable[[int, int], Design]:
        """Return the function from a run of sentences, (first, end), to its design.

        Designs are kept, up to `_MOST_KEPT` attributes of tokens: a question may read a run twice.
        """
        kept: dict[tuple[int, int], Design] = {}
        sizes = [0]

        def design(first: int, end: int) -> Design:
            cached = kept.get((first, end))
            if cached is not None:
                return cached
            computed = self.compute(data, first, end)
            with self._located(data, first):
                rows = self.attributes_by_name.design(computed)
            sizes[0] += len(rows.node.index)
            if sizes[0] <= _MOST_KEPT:
                kept[first, end] = rows
            return rows

        return design

    def of_one(self, sentence: Sentence) -> SentenceRows:
        """Return the rows of `design` of one sentence, in less time; errors as for `build`."""
        (computed,) = self.compute([sentence], 0, 1)
        with self._located([sentence], 0):
            return self.attributes_by_name.of_one(computed)

    def compute(
        self, data: Corpus | Sequence[Sentence], first: int, end: int
    ) -> list[LiteralSentence]:
        """Call the function for the sentences ``first : end``; errors as for `build`."""
        function = self.function
        if function is None:
            raise OptionError(missing_function(self.name))
        sentences = (
            self._of_corpus(data, first, end)
            if isinstance(data, Corpus)
            else map(self._shown, data[first:end])
        )
        return [
            self._called(function, sentence, data, number)
            for number, sentence in enumerate(sentences, first)
        ]

    def _called(
        self,
        function: FeatureFunction,
        sentence: Sentence,
        data: Corpus | Sequence[Sentence],
        number: int,
    ) -> LiteralSentence:
        n_tokens = len(sentence)
        if not n_tokens:
            return []
        try:
            rows = function(sentence)
        except Exception as error:
            problem = f"raises {type(error).__name__}: {error}".partition("\n")[0]
            if isinstance(error, DataError):  # a column that is missing
                problem = f"stops: {error.message}; reads= makes labels of earlier taggers columns"
            raise self._error(data, number, None, problem) from error
        if isinstance(rows, str | Mapping) or not isinstance(rows, Sequence):
            problem = f"returns {rows!r:.60}, expected a list with an entry for each token"
            raise self._error(data, number, None, problem)
        if len(rows) != n_tokens:
            problem = f"returns {len(rows)} entries, the sentence has {n_tokens} tokens"
            token = len(rows) if len(rows) < n_tokens else None
            raise self._error(data, number, token, problem)
        return rows

    def _shown(self, sentence: Sentence) -> Sentence:
        """Return a sentence with the columns that the function may see."""
        names = self._names(sentence.columns)
        if tuple(names.values()) == sentence.columns == tuple(names):
            return sentence
        return Sentence.of_lists(
            {shown: sentence[name] for shown, name in names.items()},
            len(sentence),
            document=sentence.document,
            char_offsets=sentence.char_offsets,
        )

    def _of_corpus(self, corpus: Corpus, first: int, end: int) -> Iterator[Sentence]:
        """Yield sentences of a corpus with the columns that the function may see."""
        bounds = corpus.offsets[first : end + 1].tolist()
        chars = corpus.char_offsets
        columns = {
            shown: corpus.columns[name].strings(bounds[0], bounds[-1])
            for shown, name in self._names(corpus.columns).items()
        }
        documents = corpus.documents[first:end].tolist()
        for document, (a, b) in zip(documents, pairwise(bounds), strict=True):
            part = slice(a - bounds[0], b - bounds[0])
            yield Sentence.of_lists(
                {name: strings[part] for name, strings in columns.items()},
                b - a,
                document=document,
                char_offsets=None if chars is None else [(x, y) for x, y in chars[a:b].tolist()],
            )

    def _names(self, columns: Collection[str]) -> dict[str, str]:
        """Return the columns that the function sees, by the names that it sees."""
        names = {name: name for name in columns if name != self.target and not name.startswith("%")}
        for tape in self.tapes:
            names[tape] = tape_column(tape) if tape_column(tape) in columns else tape
        return names

    @contextmanager
    def _located(self, data: Corpus | Sequence[Sentence], first: int) -> Iterator[None]:
        """Name the function and the sentence in errors about the attributes of a run."""
        try:
            yield
        except DataError as error:
            number = first + (error.sentence or 0)
            problem = f"returns an entry that is not valid: {error.message}"
            raise self._error(data, number, error.token, problem) from None

    def _error(
        self,
        data: Corpus | Sequence[Sentence],
        sentence: int,
        token: int | None,
        problem: str,
    ) -> DataError:
        place: TokenPlace = {"sentence": sentence}
        if token is not None:
            place["token"] = token
        if isinstance(data, Corpus) and data.lines is not None:
            place = data.where(int(data.offsets[sentence]) + (token or 0))
        return DataError(f"features=: the function {self.name} {problem}", **place)

    # --- The interface of an index ------------------------------------------------------------

    @property
    def n_node_rows(self) -> int:
        """Number of attributes."""
        return self.attributes_by_name.n_node_rows

    @property
    def n_arc_rows(self) -> int:
        """Number of attributes of label pairs: always 0."""
        return 0

    @property
    def hash_bits(self) -> int | None:
        """The k of 2^k hashed rows; `None` if attributes are kept by name."""
        return self.attributes_by_name.hash_bits

    @property
    def attribute_strings(self) -> tuple[str, ...]:
        """All attributes, in the order of their rows; empty if they are hashed."""
        return self.attributes_by_name.attribute_strings

    def attribute(self, row: int, *, arc: bool = False) -> str:
        """Return the text of an attribute; as for `LiteralIndex.attribute`."""
        return self.attributes_by_name.attribute(row, arc=arc)

    def row(self, attribute: str, *, arc: bool = False) -> int | None:
        """Return the row of an attribute; `None` if it is unknown."""
        return self.attributes_by_name.row(attribute, arc=arc)

    def arrays(self) -> dict[str, NDArray[np.generic]]:
        """Return the attributes as arrays, for a model file."""
        return self.attributes_by_name.arrays()

    def metadata(self) -> dict[str, str | int | list[str] | None]:
        """Return the rest of the index as JSON values: of the function, its name only."""
        return {
            "kind": KIND,
            "version": VERSION,
            "function": self.name,
            "tapes": list(self.tapes),
            "columns": list(self.columns),
            "target": self.target,
            "hash_bits": self.hash_bits,
        }

    @classmethod
    def from_arrays(cls, arrays: IndexArrays, metadata: Metadata) -> FunctionIndex:
        """Return the index that `arrays` and `metadata` describe, without its function.

        Raises
        ------
        ModelFileError
            An array or entry is missing or damaged.
        """
        check_kind(metadata, KIND, VERSION)
        name, target = metadata.get("function"), metadata.get("target")
        lists = [metadata.get("tapes"), metadata.get("columns")]
        sound = all(isinstance(x, list) and all(isinstance(s, str) for s in x) for x in lists)
        if not isinstance(name, str) or not isinstance(target, str | None) or not sound:
            raise ModelFileError("the index lacks the name of its feature function")
        literal = {"kind": literals.KIND, "version": literals.VERSION}
        attributes = LiteralIndex.from_arrays(
            arrays, {**literal, "hash_bits": metadata.get("hash_bits")}
        )
        tapes, columns = (tuple(map(str, x)) if isinstance(x, list) else () for x in lists)
        return cls(attributes, None, name=name, tapes=tapes, columns=columns, target=target)


AttributeIndex: TypeAlias = FeatureIndex | LiteralIndex | FunctionIndex
"""The index of a tagger's attributes, by templates, as given, or by a function."""


def function_name(function: FeatureFunction) -> str:
    """Return the qualified name of a function, for messages."""
    while isinstance(function, partial):
        function = function.func
    named = function if hasattr(function, "__qualname__") else type(function)
    return f"{named.__module__}.{named.__qualname__}"


def missing_function(name: str, tapes: Sequence[str] = ()) -> str:
    """Return the message that a model needs its function; `tapes` are several that need one."""
    several = ", ".join(f"{tape!r}: …" for tape in tapes)
    argument = f"features={{{several}}}" if len(tapes) > 1 else "features="
    return (
        f"features=: this model was trained with the feature function {name}; load it in Python "
        f"with {argument}"
    )


def with_functions(
    indexes: Mapping[str, AttributeIndex], features: FeatureFunctions | None, where: str
) -> dict[str, AttributeIndex]:
    """Return the indexes of taggers, by tape, with their functions.

    An index of attributes that were given as lists or dicts also takes a function: the tagger then
    reads columns. `features` is the function of the only tagger that needs one, or functions by
    tape; `where` is the name of the file. OptionError: a function is missing, belongs to no tagger,
    or cannot be called.
    """
    needed = [tape for tape, index in indexes.items() if isinstance(index, FunctionIndex)]
    takers = needed or [t for t, index in indexes.items() if isinstance(index, LiteralIndex)]
    functions = _by_tape(features, indexes, takers, where)
    completed = dict(indexes)
    for tape in needed:
        index = completed[tape]
        if tape not in functions and isinstance(index, FunctionIndex):
            raise OptionError(f"{where}: {missing_function(index.name, needed)}")
    for tape, function in functions.items():
        index = completed[tape]
        if isinstance(index, FeatureIndex):
            raise OptionError(f"{where}: features=: the tagger of tape {tape!r} reads a template")
        completed[tape] = (
            index.calling(function)
            if isinstance(index, FunctionIndex)
            else FunctionIndex(index, function)
        )
    return completed


def _by_tape(
    features: FeatureFunctions | None, tapes: Iterable[str], takers: Sequence[str], where: str
) -> Mapping[str, FeatureFunction]:
    if features is None:
        return {}
    if isinstance(features, Mapping):
        odd = [tape for tape in features if tape not in tapes]
        if odd:
            raise OptionError(
                f"{where}: features= has {odd[0]!r}; the tapes are {', '.join(tapes)}"
            )
    else:
        if not takers:
            raise OptionError(f"{where}: features=: the model reads templates, not a function")
        if len(takers) > 1:
            raise OptionError(
                f"{where}: features= is one function for several taggers: pass a dict from tape to "
                f"function; the tapes are {', '.join(takers)}"
            )
        features = {takers[0]: features}
    for function in features.values():
        check_function(function, where)
    return features


def check_function(features: object, where: str = "") -> None:
    """Raise an OptionError if a feature function cannot be called."""
    if not callable(features):
        at = f"{where}: " if where else ""
        raise OptionError(f"{at}features is {features!r}, expected a function of a sentence")
