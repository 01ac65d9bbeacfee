"""What the commands read: files of columns or CoNLL-U, described by options or by a model.

================  ==================================================================
Input             how the input is read
training_input    the input of training, from options
model_input       the input of a model, from options and the model
scored_input      labels to be scored, from options
tagger            a model file whose tagger reads columns
================  ==================================================================
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from fstcrf.errors import DataError

if TYPE_CHECKING:
    from fstcrf.corpus import Corpus
    from fstcrf.model import CRF

__all__ = ["Input", "model_input", "scored_input", "tagger", "training_input"]

_SEPARATORS = {"any": None, "tab": "\t", "space": " "}
_CONLLU_ENDINGS = (".conllu", ".conllu.gz")


@dataclass(frozen=True, slots=True)
class Input:
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
    """

    columns: tuple[str, ...] | None = None
    min_columns: int | None = None
    separator: str | None = None
    conllu: bool = False
    features: tuple[str, ...] = ()

    def read(self, path: str) -> Corpus:
        """Read a whole file."""
        from fstcrf.corpus import read_columns, read_conllu

        if self.conllu:
            return read_conllu(path, feature_columns=self.features)
        return read_columns(
            path, self.columns, min_columns=self.min_columns, separator=self.separator
        )

    def stream(self, path: str) -> Iterator[Corpus]:
        """Read a file of any size, some sentences at a time.

        Raises
        ------
        DataError
            There is no sentence.
        """
        from fstcrf.corpus import stream_columns, stream_conllu

        if self.conllu:
            batches = stream_conllu(path, feature_columns=self.features)
        else:
            batches = stream_columns(
                path, self.columns, min_columns=self.min_columns, separator=self.separator
            )
        seen = False
        for batch in batches:
            seen = True
            yield batch
        if not seen:
            raise DataError("holds no sentences", path="<stdin>" if path == "-" else path)

    def written(self, corpus: Corpus) -> tuple[list[str], str]:
        """Return the columns to write back, and what stands between them."""
        if self.conllu:
            from fstcrf.corpus.conllu import CONLLU

            return list(CONLLU), "\t"
        return list(corpus.columns), self.separator or " "


def training_input(
    paths: Sequence[str],
    *,
    columns: tuple[str, ...] | None,
    kind: str | None,
    separator: str,
    features: tuple[str, ...] | None,
) -> Input:
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
    return Input(columns, separator=_SEPARATORS[separator])


def _conllu(columns: tuple[str, ...] | None, features: tuple[str, ...]) -> Input:
    if columns is not None:
        raise click.UsageError("--columns is for column files; those of CoNLL-U have names")
    return Input(conllu=True, features=features)


def tagger(path: str) -> CRF:
    """Load a model that reads columns.

    Raises
    ------
    DataError
        It reads attribute lists or feature dicts.
    ModelFileError, OSError
        It cannot be loaded.
    """
    from fstcrf.features import LiteralIndex
    from fstcrf.model import load

    model = load(path)
    if isinstance(model.index, LiteralIndex):
        raise DataError(
            "the model reads attribute lists or feature dicts, which no column file holds: "
            "use it from Python",
            path=path,
        )
    return model


def model_input(
    model: CRF,
    *,
    columns: tuple[str, ...] | None,
    kind: str | None,
    separator: str,
    target: str | None = None,
) -> Input:
    """Return how the input of a model is read: like its training data, unless options differ.

    Parameters
    ----------
    model : CRF
    columns, kind, separator
        Options.
    target : str, optional
        A column that must be there beside those that the model reads.
    """
    from fstcrf.corpus.conllu import CONLLU
    from fstcrf.features import FeatureIndex

    known = model.columns
    trained_on_conllu = known[: len(CONLLU)] == CONLLU
    if kind == "conllu" or (kind is None and columns is None and trained_on_conllu):
        extra = known[len(CONLLU) :] if trained_on_conllu else ()
        return _conllu(columns, tuple(name for name in extra if name != "upos+feats"))
    if columns is not None:
        return Input(columns, separator=_SEPARATORS[separator])
    index = model.index
    read = {str(c) for c in index.templates.columns} if isinstance(index, FeatureIndex) else set()
    read |= {tape.name for tape in model.reads} | {target or ""}
    last = max((i for i, name in enumerate(known, 1) if name in read), default=1)
    return Input(known, min_columns=last, separator=_SEPARATORS[separator])


def scored_input(
    path: str, *, columns: tuple[str, ...] | None, kind: str | None, separator: str
) -> Input:
    """Return how a file of labels is read; without names, columns are numbered."""
    if kind == "conllu" or (kind is None and columns is None and path.endswith(_CONLLU_ENDINGS)):
        return _conllu(columns, ())
    return Input(columns, separator=_SEPARATORS[separator])
