"""``fstcrf tag``: the input's columns and the predicted label, sentence after sentence."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from fstcrf.cli.files import FileTagger
from fstcrf.cli.models import model_files
from fstcrf.cli.options import DASK, WORKERS, check_outputs, command, setting, with_options
from fstcrf.cli.questions import files_read, tagging_options
from fstcrf.cli.reporting import say
from fstcrf.ext.arrow.command import check_table, is_parquet
from fstcrf.ext.documents.command import document_options
from fstcrf.lazy import LazyModule

if TYPE_CHECKING:
    from fstcrf.ext.cluster import command as folders
else:  # a single file does not wait for it
    folders = LazyModule("fstcrf.ext.cluster.command")

_OVERWRITE = setting("overwrite", bool, default=False, says="Tag finished files of a folder again.")


@command()
@click.argument("model_path", metavar="MODEL")
@click.argument("inputs", metavar="[INPUT]...", nargs=-1)
@tagging_options
@document_options
@lambda command: with_options((WORKERS, DASK, _OVERWRITE), command)
def tag(
    model_path: str,
    inputs: tuple[str, ...],
    output: str,
    *,
    workers: int | None,
    dask: str | None,
    overwrite: bool,
    **options: Any,
) -> None:
    """Tag a file, or files into a folder.

    MODEL is a tagger, a composition or the folder of a pipeline. INPUT has the columns of the
    training data; the last ones may be missing. A column of labels is added for each tape.
    CoNLL-U is filled in place; a Parquet file has a sentence in each row. Several files go to a
    folder; the same command again tags unfinished ones. Where there are several tapes, --fill
    and --force take TAPE=COLUMN,..., and --bias takes TAPE:LABEL=NUMBER.

    \b
    fstcrf tag chunk.fstcrf test.txt --grammar bio > tagged.txt
    fstcrf tag chunk.fstcrf 'in/*.parquet' -o out/ --workers 4
    """
    if _is_folder(inputs, output) or workers is not None or dask is not None:
        how = folders.FolderRun(inputs, output, workers, dask, overwrite=overwrite)
        folders.tag_folder(model_path, options, how)
        return
    if overwrite:
        raise click.UsageError("--set overwrite is for files into a folder: -o FOLDER/")
    path = inputs[0] if inputs else "-"
    read = [*model_files(model_path), path, *files_read(options)]
    check_outputs({"--output": output}, read, text=("--output",))
    tagger = FileTagger.of(model_path, options)
    table = is_parquet(path)
    if table:
        check_table(output, options)
    outcomes = tagger.tag(path, output)
    outcomes.report()
    if table:
        say(f"{output}: {outcomes.sentences:,} rows")


def _is_folder(inputs: tuple[str, ...], output: str) -> bool:
    """Return whether inputs are tagged into a folder."""
    if len(inputs) > 1 or output.endswith("/") or Path(output).is_dir():
        return True
    if not inputs or inputs[0] == "-":
        return False
    pattern = not Path(inputs[0]).exists() and any(c in inputs[0] for c in "*?[")
    return pattern or Path(inputs[0]).is_dir()
