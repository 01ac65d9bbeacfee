"""``fstcrf tag``: the input's columns and the predicted label, sentence after sentence."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from fstcrf.cli.files import FileTagger
from fstcrf.cli.options import check_outputs, with_options
from fstcrf.cli.questions import files_read, tagging_options
from fstcrf.cli.reporting import say
from fstcrf.ext.arrow.command import check_table, is_parquet
from fstcrf.ext.documents.command import document_options
from fstcrf.lazy import LazyModule

if TYPE_CHECKING:
    from fstcrf.ext.cluster import command as folders
else:  # a single file does not wait for it
    folders = LazyModule("fstcrf.ext.cluster.command")

_SEVERAL = (
    click.option(
        "--workers",
        metavar="N",
        type=click.IntRange(min=1),
        help="Tag files into a folder, with N processes of this machine.",
    ),
    click.option(
        "--dask",
        metavar="ADDRESS",
        help="Tag files into a folder by the workers of the scheduler at this address, such as "
        "tcp://10.0.0.1:8786; they read and write the same files.",
    ),
    click.option(
        "--overwrite",
        is_flag=True,
        help=(
            "Tag all files again, even if the folder holds other files or files of other options."
        ),
    ),
)


@click.command()
@click.argument("model_path", metavar="MODEL")
@click.argument("inputs", metavar="[INPUT]...", nargs=-1)
@tagging_options("tape")
@click.option(
    "--joint/--cascade", default=None, help="Short for --decode joint and --decode cascade."
)
@document_options
@lambda command: with_options(_SEVERAL, command)
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

    The input has the columns of the training data, of which the last ones may be missing, or
    the columns that --columns names. They are printed again, followed by one column of
    predicted labels for each tape. Document lines and blank lines stay. In CoNLL-U the labels
    fill the column that training took them from, and all else stays as it is. A Parquet file
    has a sentence in each row, in the column that --columns names; it gets columns of labels,
    spans and probabilities.

    Several files, a folder, or a pattern in quotes are tagged into a folder, under the same names.
    If the command is repeated, finished files are not tagged again.

    \b
    fstcrf tag chunk.fstcrf test.txt > tagged.txt
    fstcrf tag chunk.fstcrf test.txt --grammar bio --nbest 5
    fstcrf tag chunk.fstcrf pages.parquet -o tagged.parquet
    fstcrf tag chunk.fstcrf 'in/*.parquet' -o out/ --workers 4
    """
    if _is_folder(inputs, output) or workers is not None or dask is not None:
        how = folders.FolderRun(inputs, output, workers, dask, overwrite=overwrite)
        folders.tag_folder(model_path, options, how)
        return
    if overwrite:
        raise click.UsageError("--overwrite is for files into a folder: -o FOLDER/")
    path = inputs[0] if inputs else "-"
    read = [model_path, path, *files_read(options)]
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
