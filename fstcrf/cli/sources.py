"""What the commands read: files of columns, CoNLL-U or item text, told by options or by a model."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

import click

from fstcrf.cli.models import Model, taggers
from fstcrf.corpus import (
    Corpus,
    read_columns,
    read_conllu,
    read_items,
    stream_columns,
    stream_conllu,
    stream_items,
)
from fstcrf.corpus.columns import WidthError
from fstcrf.corpus.conllu import CONLLU, JOINED
from fstcrf.corpus.items import LABEL
from fstcrf.errors import DataError
from fstcrf.features import FeatureIndex, LiteralIndex
from fstcrf.joint import CRF

__all__ = ["InputFile", "check_columns", "model_input", "scored_input", "training_input"]

_SEPARATORS = {"any": None, "tab": "\t", "space": " "}
_CONLLU_ENDINGS = (".conllu", ".conllu.gz")


@dataclass(frozen=True, slots=True)
class InputFile:
    """How the input is read.

    Parameters
    ----------
    columns : tuple of str or None
        Names of the columns of a column file; None: numbered.
    min_columns : int, optional
        The last columns may be missing down to so many.
    separator : str, optional
        Between the columns; any run of blanks when absent.
    conllu : bool
        It is CoNLL-U instead.
    features : tuple of str
        Morphological features of CoNLL-U that become columns.
    items : bool
        It is CRFsuite's item text instead.
    aliases : tuple of (str, str)
        Second names of columns: (name, column); those of columns that are missing are ignored.
    least : int
        Fewer columns than so many are too few, whatever they are called.
    """

    columns: tuple[str, ...] | None = None
    min_columns: int | None = None
    separator: str | None = None
    conllu: bool = False
    features: tuple[str, ...] = ()
    items: bool = False
    aliases: tuple[tuple[str, str], ...] = ()
    least: int = 1

    def read(self, path: str) -> Corpus:
        """Read a whole file.

        Raises
        ------
        DataError
            It is not what it should be.
        """
        if self.items:
            return read_items(path)
        with self._advising():
            if self.conllu:
                corpus = read_conllu(path, feature_columns=self.features)
            else:
                corpus = read_columns(
                    path, self.columns, min_columns=self.min_columns, separator=self.separator
                )
        return self._with_aliases(corpus)

    def stream(self, path: str) -> Iterator[Corpus]:
        """Read a file of any size, some sentences at a time; of an empty one nothing comes.

        Raises
        ------
        DataError
            It is not what it should be.
        """
        if self.items:
            batches = stream_items(path)
        elif self.conllu:
            batches = stream_conllu(path, feature_columns=self.features)
        else:
            batches = stream_columns(
                path, self.columns, min_columns=self.min_columns, separator=self.separator
            )
        with self._advising():
            for batch in batches:
                yield self._with_aliases(batch)

    def written(self, corpus: Corpus) -> tuple[list[str], str]:
        """Return the columns to write back, and what stands between them."""
        if self.items:  # the attributes have done their work
            return [LABEL], "\t"
        if self.conllu:
            return list(CONLLU), "\t"
        second = {name for name, _ in self.aliases}
        return [name for name in corpus.columns if name not in second], self.separator or " "

    @contextmanager
    def _advising(self) -> Iterator[None]:
        """Say of a file with other columns than expected what is to be done."""
        try:
            yield
        except WidthError as error:
            n = "1 column" if error.width == 1 else f"{error.width} columns"
            if self.conllu and error.first:
                raise DataError(
                    f"{error}; it is read as CoNLL-U: of a column file, name its {n}: --columns"
                ) from None
            if self.columns is None or not error.first or error.width < self.least:
                raise
            raise DataError(f"{error}; if the text has {n}, name them all: --columns") from None

    def _with_aliases(self, corpus: Corpus) -> Corpus:
        for name, column in self.aliases:
            if column in corpus.columns:
                corpus = corpus.with_interned(name, corpus.columns[column])
        return corpus


def training_input(
    paths: Sequence[str],
    *,
    columns: tuple[str, ...] | None,
    kind: str | None,
    separator: str,
    features: tuple[str, ...] | None,
) -> InputFile:
    """Return how training files are read; files called .conllu are CoNLL-U.

    Raises
    ------
    click.UsageError
        Options that do not belong together, or columns without names.
    """
    named = all(path.endswith(_CONLLU_ENDINGS) for path in paths)
    if kind == "conllu" or (kind is None and columns is None and named):
        return _conllu(columns, features or ())
    if features:
        raise click.UsageError("--feature-columns belongs to --format conllu")
    if columns is None:
        raise click.UsageError("--columns is missing: name each column, such as word,pos,chunk")
    return InputFile(columns, separator=_SEPARATORS[separator])


def _conllu(columns: tuple[str, ...] | None, features: tuple[str, ...]) -> InputFile:
    if columns is not None:
        raise click.UsageError("--columns is for column files; those of CoNLL-U have names")
    return InputFile(conllu=True, features=features)


def model_input(
    model: Model,
    *,
    columns: tuple[str, ...] | None,
    kind: str | None,
    separator: str,
    targets: Iterable[str] = (),
    wanted: Iterable[str] = (),
) -> InputFile:
    """Return how the input of a model is read: like its training data, unless options differ.

    Parameters
    ----------
    model : CRF or Composition
    columns, kind, separator
        Options.
    targets : iterable of str
        Columns that must be there beside those that the model reads.
    wanted : iterable of str
        Columns that are looked for, and may be missing.

    Raises
    ------
    click.UsageError
        Options that do not belong together, or taggers trained on different columns.
    """
    parts = taggers(model)
    if _literal(parts):
        if columns is not None or kind is not None:
            raise click.UsageError(
                "--columns and --format are for models over columns; this one reads lists of "
                "attributes, as CRFsuite's item text: LABEL, and attributes, between tabs"
            )
        return InputFile(items=True)
    read = _columns_read(model) | set(targets)
    if columns is not None and kind != "conllu":
        aliases = _by_place(columns, read | set(wanted))
        return InputFile(
            columns, separator=_SEPARATORS[separator], aliases=aliases, least=max(1, len(read))
        )
    named = [tagger for tagger in parts if not _counts(tagger)]
    if not named and kind != "conllu":
        return InputFile(separator=_SEPARATORS[separator], aliases=_labels_behind(parts))
    numbers = set() if len(named) == len(parts) else set(filter(_is_number, read))
    known = _common_columns(named or parts, read - numbers, set(wanted))
    trained_on_conllu = known[: len(CONLLU)] == CONLLU or known[len(CONLLU) :][:1] == (JOINED,)
    if kind == "conllu" or (kind is None and trained_on_conllu):
        extra = known[len(CONLLU) :] if trained_on_conllu else ()
        source = _conllu(columns, tuple(name for name in extra if name != JOINED))
        return replace(source, aliases=_renamed(known)) if trained_on_conllu else source
    aliases, least = _by_place(known, numbers), max(1, len(read))
    read |= {name for _, name in aliases}
    last = max((i for i, name in enumerate(known, 1) if name in read), default=1)
    return InputFile(
        known,
        min_columns=last,
        separator=_SEPARATORS[separator],
        aliases=aliases,
        least=least,
    )


def _renamed(known: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    """Return what training called the columns of CoNLL-U, where that was something else."""
    return tuple((new, name) for new, name in zip(known, CONLLU, strict=False) if new != name)


def _by_place(columns: tuple[str, ...], read: set[str]) -> tuple[tuple[str, str], ...]:
    """Return the numbers of columns that a model knows by number, where none has a number's name.

    Names that are numbers mean what the model means by them, so ``1,0`` is the other way round; a
    model that reads column 1 then looks for no other one.
    """
    moved = any(_is_number(name) and name != str(k) for k, name in enumerate(columns))
    if moved:
        return ()
    return tuple(
        (str(k), name) for k, name in enumerate(columns) if str(k) in read and str(k) not in columns
    )


def _is_number(name: str) -> bool:
    return name.isascii() and name.isdecimal()


def _counts(tagger: CRF) -> bool:
    """Tell whether a tagger knows the columns of its data by number, as those of CRF++ do."""
    others = [(k, name) for k, name in enumerate(tagger.columns) if name != tagger.tape]
    return bool(others) and all(name == str(k) for k, name in others)


def _labels_behind(parts: Sequence[CRF]) -> tuple[tuple[str, str], ...]:
    """Return the numbers of the columns in which labels stand in data of taggers that count.

    How many columns there are besides, the input says: nobody reads them.
    """
    return tuple(
        (tagger.tape, str(tagger.columns.index(tagger.tape)))
        for tagger in parts
        if tagger.tape in tagger.columns and not _is_number(tagger.tape)
    )


def _literal(parts: Sequence[CRF]) -> bool:
    """Tell whether taggers read attribute lists; those of a composition all do, or none."""
    return any(isinstance(tagger.index, LiteralIndex) for tagger in parts)


def _columns_read(model: Model) -> set[str]:
    """Return the columns that a model reads, without the tapes that its taggers write."""
    parts = taggers(model)
    tapes = {tape.name for tagger in parts for tape in tagger.reads}
    read = tapes - {tagger.tape for tagger in parts}
    for tagger in parts:
        read |= set(tagger.index.columns) if isinstance(tagger.index, FeatureIndex) else set()
    return read


def check_columns(model: Model, data: Corpus) -> None:
    """Check that data has all columns that a model reads, before the first tagger decodes.

    Raises
    ------
    DataError
        One is missing.
    """
    if not _literal(taggers(model)):
        for name in sorted(_columns_read(model)):
            data.column(name)


def _common_columns(parts: Sequence[CRF], read: set[str], wanted: set[str]) -> tuple[str, ...]:
    """Return the columns of training data with all that is read, and most of what is wanted."""
    several = list(dict.fromkeys(tagger.columns for tagger in parts))
    fitting = [columns for columns in several if read <= set(columns)]
    if len(several) == 1 or fitting:
        return max(fitting or several, key=lambda columns: len(wanted.intersection(columns)))
    shown = "; ".join(",".join(columns) for columns in several)
    raise click.UsageError(
        f"--columns is missing: the taggers were trained on different columns ({shown})"
    )


def scored_input(
    path: str, *, columns: tuple[str, ...] | None, kind: str | None, separator: str
) -> InputFile:
    """Return how a file of labels is read; without names, columns are numbered."""
    if kind == "conllu" or (kind is None and columns is None and path.endswith(_CONLLU_ENDINGS)):
        return _conllu(columns, ())
    return InputFile(columns, separator=_SEPARATORS[separator])
