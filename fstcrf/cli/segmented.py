"""Files tagged by a tagger of segments: for its own command, and for those of any tagger."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, cast

import click
from click.core import ParameterSource

from fstcrf.cli.options import check_outputs
from fstcrf.cli.reporting import too_narrow
from fstcrf.errors import DataError
from fstcrf.files import Source, open_binary, open_target, source_name
from fstcrf.lazy import LazyModule
from fstcrf.storage import HEAD, SEGMENTS, file_kind, is_native, read_head
from fstcrf.text.corpus import Corpus, read_columns
from fstcrf.text.corpus.columns import WidthError
from fstcrf.text.corpus.filling import ColumnFiller, KeptText

if TYPE_CHECKING:
    from fstcrf.taggers import segmental
else:  # other taggers do not wait for it
    segmental = LazyModule("fstcrf.taggers.segmental")

PREDICTED = "predicted"
SEPARATORS = {"any": None, "tab": "\t", "space": " "}

_UNDERSTOOD = frozenset({"model_path", "inputs", "output", "columns", "separator", "threads"})


def is_segment_model(path: str) -> bool:
    """Tell whether a file is that of a tagger of segments."""
    if not Path(path).is_file():
        return False
    head = read_head(path)
    return len(head) == HEAD and is_native(head) and file_kind(path) == SEGMENTS


def load_segmented(path: str) -> segmental.SegmentCRF:
    """Load a tagger of segments."""
    return segmental.SegmentCRF.load(path)


def read_segmented(
    model: segmental.SegmentCRF,
    path: Source,
    columns: tuple[str, ...] | None,
    separator: str,
    *,
    gold: str = "",
) -> Corpus:
    """Read a column file as a tagger of segments was trained on; `gold`: a column that must be."""
    target = gold or model.record.target
    known = (*model.columns, target) if columns is None else columns
    least = len(model.columns) if columns is None and not gold else None
    try:
        data = read_columns(
            path,
            known,
            min_columns=least,
            separator=SEPARATORS[separator],
            allow_empty=not gold,
        )
    except WidthError as error:
        raise too_narrow(error, known, least or len(known)) from None
    wanted = [*model.needed_columns, *([gold] if gold else [])]
    missing = [column for column in wanted if column not in data.columns]
    if missing:
        raise DataError(
            f"no column {missing[0]!r}: name the columns by --columns", path=data.source
        )
    return data


def tag_segmented(
    model_path: str,
    path: str,
    output: str,
    *,
    columns: tuple[str, ...] | None,
    separator: str,
    threads: int,
) -> None:
    """Write a file again, with the predicted label behind each token's columns."""
    check_outputs({"--output": output}, [model_path, path], text=("--output",))
    model = load_segmented(model_path)
    with open_binary(path) as opened, open_target(output) as file:
        text = KeptText(opened, source_name(path))
        data = read_segmented(model, cast("BinaryIO", text), columns, separator)
        found = data.with_column(PREDICTED, model.tag_all(data, threads=threads))
        filler = ColumnFiller(text, file, SEPARATORS[separator])
        filler.write(data, [found.columns[PREDICTED]])
        filler.close()


def check_understood(context: click.Context) -> None:
    """Refuse options of ``fstcrf tag`` that are not for taggers of segments."""
    for parameter in context.command.params:
        name = parameter.name or ""
        given = context.get_parameter_source(name) is ParameterSource.COMMANDLINE
        if given and name not in _UNDERSTOOD:
            raise click.UsageError(
                f"{parameter.opts[0]} is not for a tagger of segments: it takes -o, --columns, "
                "--separator and --threads; from Python, tagger.lattice(sentence) answers more"
            )
