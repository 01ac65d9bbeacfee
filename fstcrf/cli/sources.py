"""The inputs of commands: column files, CoNLL-U or item text, described by options or a model."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import Any, BinaryIO

import click
import numpy as np

from fstcrf.cli.models import Model, Part, columns_read, data_columns, taggers, tape_columns
from fstcrf.cli.reporting import say, too_narrow
from fstcrf.errors import DataError
from fstcrf.ext.filling import ColumnFiller, ConlluFiller, Filler, KeptText
from fstcrf.files import Source, opening
from fstcrf.taggers import CRF
from fstcrf.text.corpus import (
    Corpus,
    read_columns,
    read_conllu,
    read_items,
    stream_columns,
    stream_conllu,
    stream_items,
)
from fstcrf.text.corpus.batches import whole_documents
from fstcrf.text.corpus.collection import CorpusFiles
from fstcrf.text.corpus.columns import WidthError
from fstcrf.text.corpus.conllu import CONLLU, JOINED, check_features
from fstcrf.text.corpus.items import ATTRIBUTES, item_of
from fstcrf.text.features import FeatureIndex, LiteralIndex, TemplateSet
from fstcrf.text.features.reader import with_surroundings
from fstcrf.text.lines import text_fields, text_lines

_LONG = 5_000
"""Tokens above which a sentence is pointed out."""

_CONLLU_ROW = re.compile(r"\d+([-.]\d+)?(\t[^\t]*){9}$")
_FEATURE = re.compile(r"[A-Z0-9][A-Za-z0-9]*(\[[a-z0-9]+\])?")
_DOCUMENT = "-DOCSTART-"

SEPARATORS = {"any": None, "tab": "\t", "space": " "}
_CONLLU_ENDINGS = (".conllu", ".conllu.gz")


@dataclass(frozen=True, slots=True)
class InputFile:
    """The options of reading an input."""

    columns: tuple[str, ...] | None = None  # None: numbered
    min_columns: int | None = None  # the last ones may be missing down to so many
    separator: str | None = None  # `None` for any run of blanks
    conllu: bool = False  # it is CoNLL-U
    features: tuple[str, ...] = ()  # of CoNLL-U that become columns
    items: tuple[LiteralIndex, ...] = ()  # it is CRFsuite's item text, for these indices
    parquet: bool = False  # it is a Parquet file with lists of strings
    aliases: tuple[tuple[str, str], ...] = ()  # (second name, column); missing columns are ignored
    least: int = 1  # minimum number of columns, independent of their names
    gold: tuple[str, ...] = ()  # columns of labels that must be there
    offered: tuple[str, ...] = ()  # features of CoNLL-U that are columns if some token has them
    wide: tuple[TemplateSet, ...] = ()  # template sets that read beyond the ends of sentences
    fills: tuple[tuple[str, str], ...] = ()  # of CoNLL-U: (tape, column that its labels go to)

    def read(self, path: str) -> Corpus:
        """Read a whole file; a sentence that is very long is pointed out."""
        corpus = self._read(path)
        _point_out(corpus)
        return self._with_surroundings(corpus)

    def _read(self, path: str) -> Corpus:
        if self.items:
            corpus = read_items(path)
            _point_out_unknown(corpus, self.items)
            return corpus
        if self.parquet:
            return CorpusFiles([path], self.columns, kind="parquet").read()
        with self._advising():
            if self.conllu:
                corpus = read_conllu(path, feature_columns=self.features, allow_absent=True)
                check_features(corpus, [name for name in self.gold if name in self.features])
                absent = {x for x in self.offered if set(corpus.columns[x].values) <= {"_"}}
                kept = {x: column for x, column in corpus.columns.items() if x not in absent}
                corpus = corpus.changed(columns=kept) if absent else corpus
            else:
                corpus = read_columns(
                    path, self.columns, min_columns=self.min_columns, separator=self.separator
                )
        return self._with_aliases(corpus)

    def stream(self, path: Source) -> Iterator[Corpus]:
        """Read a file of any size, some sentences at a time; an empty file yields nothing.

        The first sentence that is very long is pointed out. Batches hold whole documents where
        somebody looks past the ends of sentences.
        """
        if self.wide:
            for batch in whole_documents(self._stream(path)):
                yield self._with_surroundings(batch)
        else:
            yield from self._stream(path)

    def _stream(self, path: Source) -> Iterator[Corpus]:
        told = False
        if self.items:
            batches = stream_items(path)
        elif self.conllu:
            batches = stream_conllu(path, feature_columns=self.features)
        else:
            batches = stream_columns(
                path, self.columns, min_columns=self.min_columns, separator=self.separator
            )
        with self._advising():
            for number, batch in enumerate(batches):
                told = told or _point_out(batch)
                if self.items and not number:
                    _point_out_unknown(batch, self.items)
                yield self._with_aliases(batch)

    def filler(self, text: KeptText, file: BinaryIO, names: Iterable[str]) -> Filler:
        """Return the writer of a file with labels in columns of these names."""
        if self.conllu:
            known = dict(self.fills)
            filled = [known.get(name, name) for name in names]
            return ConlluFiller(text, file, filled, self.morphology)
        separator = "\t" if self.items else self.separator
        return ColumnFiller(text, file, separator, replaced=bool(self.items))

    @property
    def morphology(self) -> tuple[str, ...]:
        """The features that are written as such: other names are of columns that were added."""
        return tuple(filter(_FEATURE.fullmatch, self.features))

    @contextmanager
    def _advising(self) -> Iterator[None]:
        """Add advice to an error about a file with other columns than expected."""
        try:
            yield
        except WidthError as error:
            n = "1 column" if error.width == 1 else f"{error.width} columns"
            if self.conllu and error.first:
                raise DataError(
                    f"{error}; the file is read as CoNLL-U: for a column file, name its {n} "
                    "with --columns"
                ) from None
            if not self.conllu and str(error.path).endswith(_CONLLU_ENDINGS):
                raise DataError(f"{error}; to read it as CoNLL-U: --format conllu") from None
            if self.columns is None or not error.first:
                raise
            told = too_narrow(error, self.columns, self.min_columns or len(self.columns))
            if error.width < self.least:
                if self.gold:
                    labels = ", ".join(self.gold)
                    raise DataError(
                        f"{told}; the gold labels, {labels}, must be in the file"
                    ) from None
                raise told from None
            raise DataError(f"{told}; if the text has {n}, name them all: --columns") from None

    def _with_surroundings(self, corpus: Corpus) -> Corpus:
        for templates in self.wide:
            corpus = with_surroundings(corpus, templates)
        return corpus

    def _with_aliases(self, corpus: Corpus) -> Corpus:
        for name, column in self.aliases:
            if column in corpus.columns:
                corpus = corpus.with_interned(name, corpus.columns[column])
        return corpus


def _point_out(corpus: Corpus) -> bool:
    """Report the first very long sentence, if there is one."""
    lengths = np.diff(corpus.offsets)
    if int(lengths.max(initial=0)) <= _LONG:
        return False
    first = int((lengths > _LONG).argmax())
    message = f"a sentence of {lengths[first]:,} tokens; is a blank line missing?"
    say(f"warning: {DataError(message, **corpus.where(int(corpus.offsets[first])))}")
    return True


def _point_out_unknown(corpus: Corpus, indices: Sequence[LiteralIndex]) -> None:
    """Warn if hardly any attribute of a text is known, as where columns are read as attributes."""
    names: set[str] = set()
    with suppress(ValueError):  # the reader of the whole text names the place
        for text in corpus.columns[ATTRIBUTES].values[:1_000]:
            names.update(item_of(text))
    known = sum(any(index.row(name) is not None for index in indices) for name in names)
    if known < len(names) / 100:
        say(
            f"warning: {corpus.source}: the model knows {known} of {len(names):,} attributes, "
            f"such as {min(names)[:40]!r}: expected the attributes of its training, not columns"
        )


def training_input(paths: Sequence[str], given: dict[str, Any]) -> InputFile:
    """Return the reader of training files, and remove its options.

    Files called .conllu are CoNLL-U, those called .parquet Parquet files.
    """
    columns, kind, separator = (given.pop(name) for name in ("columns", "kind", "separator"))
    features = given.pop("feature_columns", None)
    target = given.get("target")
    named = all(path.endswith(_CONLLU_ENDINGS) for path in paths)
    if kind == "conllu" or (kind is None and columns is None and named):
        return _conllu(columns, (*(features or ()), *([target] if target else ())), required=True)
    if features:
        raise click.UsageError("--set feature_columns belongs to --format conllu")
    if kind is None and all(path.endswith(".parquet") for path in paths):
        return InputFile(columns, parquet=True)
    if columns is None:
        raise click.UsageError("--columns is missing: name each column, such as word,pos,chunk")
    return InputFile(columns, separator=SEPARATORS[separator])


def _conllu(
    columns: tuple[str, ...] | None, features: Iterable[str], *, required: bool = False
) -> InputFile:
    """Return the reader of CoNLL-U, with some names as features outside the columns."""
    if columns is not None:
        raise click.UsageError("--columns is for column files: CoNLL-U has fixed columns")
    new = tuple(name for name in dict.fromkeys(features) if name not in (*CONLLU, JOINED))
    return InputFile(conllu=True, features=new, gold=new if required else ())


def model_input(
    model: Model,
    *,
    columns: tuple[str, ...] | None,
    kind: str | None,
    separator: str,
    path: str | None = None,
    targets: Iterable[str] = (),
    wanted: Iterable[str] = (),
    fill: str | None = None,
) -> InputFile:
    """Return the reader of a model's input: like its training data, unless options differ.

    If its taggers were trained on data of several kinds, the input at `path` decides which kind it
    has. The columns of `targets` are required, like the columns that the model reads; the columns
    of `wanted` may be missing. `fill` names the columns of CoNLL-U that receive labels.
    """
    source = _model_input(
        model,
        columns=columns,
        kind=kind,
        separator=separator,
        path=path,
        targets=targets,
        wanted=wanted,
    )
    indices = [tagger.index for tagger in taggers(model)]
    templates = [index.templates for index in indices if isinstance(index, FeatureIndex)]
    fills = _fills(model, source, fill) if source.conllu else ()
    if fill is not None and not source.conllu:
        raise click.UsageError("--fill is for CoNLL-U: other files get new columns of labels")
    return replace(source, wide=tuple(t for t in templates if t.reads_documents), fills=fills)


def _fills(model: Model, source: InputFile, asked: str | None) -> tuple[tuple[str, str], ...]:
    """Return the columns that receive labels: the columns of training, or the requested ones."""
    names = dict(source.aliases)
    found = {}
    for tagger in taggers(model):
        target = tagger.tape if tagger.record is None else tagger.record.target or tagger.tape
        column = names.get(target, target)
        known = column in (*CONLLU, JOINED, *source.morphology)
        found[tagger.tape] = column if known else tagger.tape
    if asked is not None:
        found |= tape_columns("--fill", asked, model.tapes)
    return tuple(found.items())


def _model_input(
    model: Model,
    *,
    columns: tuple[str, ...] | None,
    kind: str | None,
    separator: str,
    path: str | None,
    targets: Iterable[str],
    wanted: Iterable[str],
) -> InputFile:
    parts = taggers(model)
    if _literal(parts):
        if columns is not None or kind is not None:
            raise click.UsageError(
                "--columns and --format are for models over columns; this one reads lists of "
                "attributes, as CRFsuite's item text: LABEL, and attributes, between tabs"
            )
        indices = (part.index for part in parts)
        return InputFile(items=tuple(i for i in indices if isinstance(i, LiteralIndex)))
    targets = tuple(targets)
    read = _columns_read(model) | set(targets)
    if columns is not None and kind != "conllu":
        aliases = _by_place(columns, read | set(wanted))
        return InputFile(
            columns, separator=SEPARATORS[separator], aliases=aliases, least=max(1, len(read))
        )
    named = [tagger for tagger in parts if not _counts(tagger)]
    if not named and kind != "conllu":
        return InputFile(separator=SEPARATORS[separator], aliases=_labels_behind(parts))
    numbers = set() if len(named) == len(parts) else set(filter(_is_number, read))
    several = list(dict.fromkeys(map(data_columns, named or parts)))
    if kind is None and path is not None and len(several) > 1:
        several = _like(several, read - numbers, path, SEPARATORS[separator]) or several
    known = _common_columns(several, read - numbers, set(wanted))
    trained_on_conllu = _of_conllu(known)
    if kind == "conllu" or (kind is None and trained_on_conllu):
        extra = known[len(CONLLU) :] if trained_on_conllu else ()
        renamed = _renamed(known) if trained_on_conllu else ()
        names = {new for new, _ in renamed}
        source = _conllu(columns, [x for x in (*extra, *targets, *wanted) if x not in names])
        offered = tuple(x for x in source.features if x not in (*extra, *targets))
        return replace(source, aliases=renamed, gold=targets, offered=offered)
    aliases, least = _by_place(known, numbers), max(1, len(read))
    read |= {name for _, name in aliases}
    last = max((i for i, name in enumerate(known, 1) if name in read), default=1)
    return InputFile(
        known,
        min_columns=last,
        separator=SEPARATORS[separator],
        aliases=aliases,
        least=least,
        gold=tuple(dict.fromkeys(targets)),
    )


def _renamed(known: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    """Return the training names of CoNLL-U's columns, if they differ."""
    return tuple((new, name) for new, name in zip(known, CONLLU, strict=False) if new != name)


def _by_place(columns: tuple[str, ...], read: set[str]) -> tuple[tuple[str, str], ...]:
    """Return the numbers of columns that a model knows by number, unless a name is a number.

    Names that are numbers have the model's meaning, so ``1,0`` exchanges the columns; a model that
    reads column 1 then reads that one.
    """
    moved = any(_is_number(name) and name != str(k) for k, name in enumerate(columns))
    if moved:
        return ()
    return tuple(
        (str(k), name) for k, name in enumerate(columns) if str(k) in read and str(k) not in columns
    )


def _is_number(name: str) -> bool:
    return name.isascii() and name.isdecimal()


def _counts(tagger: Part) -> bool:
    """Return whether a tagger knows the columns of its data by number, as in CRF++."""
    others = [(k, name) for k, name in enumerate(data_columns(tagger)) if name != tagger.tape]
    return bool(others) and all(name == str(k) for k, name in others)


def _labels_behind(parts: Sequence[Part]) -> tuple[tuple[str, str], ...]:
    """Return the numbers of the label columns in data of taggers that count columns.

    The number of other columns follows from the input: they are not read.
    """
    return tuple(
        (tagger.tape, str(data_columns(tagger).index(tagger.tape)))
        for tagger in parts
        if tagger.tape in data_columns(tagger) and not _is_number(tagger.tape)
    )


def _literal(parts: Sequence[Part]) -> bool:
    """Return whether taggers read attribute lists; all taggers of a composition agree in this."""
    return any(isinstance(tagger.index, LiteralIndex) for tagger in parts)


def _columns_read(model: Model) -> set[str]:
    """Return the columns that a model reads, without the tapes that its taggers write."""
    parts = taggers(model)
    tapes = {t.name for tagger in parts if isinstance(tagger, CRF) for t in tagger.reads}
    read = tapes - {tagger.tape for tagger in parts}
    return read.union(*map(columns_read, parts))


def check_columns(model: Model, data: Corpus) -> None:
    """Check that data has all columns that a model reads, before the first tagger decodes."""
    if not _literal(taggers(model)):
        for name in sorted(_columns_read(model)):
            data.column(name)


def _of_conllu(columns: tuple[str, ...]) -> bool:
    """Return whether training data with these columns was CoNLL-U."""
    return columns[: len(CONLLU)] == CONLLU or columns[len(CONLLU) :][:1] == (JOINED,)


def _like(
    several: Sequence[tuple[str, ...]], read: set[str], path: str, separator: str | None
) -> list[tuple[str, ...]]:
    """Return the columns of those training data that an input looks like, as it begins."""
    lines = (line for line in text_lines(opening(path)) if line.strip(" \t") and line[0] != "#")
    first = next((line for line in lines if not line.startswith(_DOCUMENT)), "")
    if _CONLLU_ROW.match(first):
        return [columns for columns in several if _of_conllu(columns)]
    width = len(first.split(separator) if separator else text_fields(first))
    return [
        columns
        for columns in several
        if not _of_conllu(columns) and width <= len(columns) and read <= set(columns[:width])
    ]


def _common_columns(
    several: Sequence[tuple[str, ...]], read: set[str], wanted: set[str]
) -> tuple[str, ...]:
    """Return the training columns that include all of `read`, and most of `wanted`."""
    fitting = [columns for columns in several if read <= set(columns)]
    if len(several) == 1 or fitting:
        return max(fitting or several, key=lambda columns: len(wanted.intersection(columns)))
    shown = "; ".join(",".join(columns) for columns in several)
    raise click.UsageError(
        f"--columns is missing: the taggers were trained on different columns ({shown})"
    )


def scored_input(
    path: str,
    *,
    columns: tuple[str, ...] | None,
    kind: str | None,
    separator: str,
    targets: Iterable[str] = (),
) -> InputFile:
    """Return the reader of a file with the labels of `targets`; otherwise columns are numbered."""
    if kind == "conllu" or (kind is None and columns is None and path.endswith(_CONLLU_ENDINGS)):
        return _conllu(columns, targets, required=True)
    return InputFile(columns, separator=SEPARATORS[separator])


def gold_labels(
    data: Corpus, wanted: Mapping[str, str], asked: Mapping[str, str], path: str
) -> dict[str, list[list[str]]]:
    """Return the gold labels of each tape; an optional tape may lack labels."""
    without = [tape for tape, column in wanted.items() if column not in data.columns]
    needed = wanted if len(without) == len(wanted) else asked
    gold = {
        tape: data.column_lists(column)
        for tape, column in wanted.items()
        if tape in needed or tape not in without
    }
    if without:
        name = "<stdin>" if path == "-" else path
        say(f"{name}: not scored, as there is no column of gold labels: {', '.join(without)}")
    return gold
