"""``fstcrf convert``: a model in another program's format, or from it."""

from __future__ import annotations

from pathlib import Path

import click

from fstcrf.cli.models import save
from fstcrf.cli.options import check_outputs
from fstcrf.cli.progress import progress, progress_option
from fstcrf.cli.reporting import say
from fstcrf.ext.foreign import read_tagger
from fstcrf.ext.foreign.conversion import FORMATS, written
from fstcrf.ext.foreign.rendering import column_order
from fstcrf.files import atomic_write

_NATIVE = "fstcrf"
_BY_NUMBER = ("crfpp", "crfpp-text", "wapiti")


@click.command()
@click.argument("path", metavar="IN")
@click.argument("output", metavar="OUT")
@click.option(
    "--to",
    "name",
    metavar="FORMAT",
    help=(
        "Format of OUT: fstcrf, crfsuite, crfpp, crfpp-text or wapiti.  [default: by the "
        "ending of its name]"
    ),
)
@click.option("--tape", metavar="NAME", help="Name of the tape that the tagger writes.")
@click.option(
    "--columns",
    metavar="A,B,...",
    help="Names of the columns that a model of CRF++ or Wapiti reads.  [default: 0,1,...]",
)
@click.option("--encoding", metavar="NAME", help="Of the texts in such a model.  [default: utf-8]")
@progress_option
def convert(
    path: str,
    output: str,
    *,
    name: str | None,
    tape: str | None,
    columns: str | None,
    encoding: str | None,
) -> None:
    """Convert a tagger: from another program's format, or to it.

    IN is a model of fstcrf, CRFsuite, CRF++ (text or binary) or Wapiti; its first bytes decide
    which. The ending of OUT decides its format: .fstcrf, .crfsuite, .crfpp (binary) or .wapiti.
    A model that the format of OUT cannot express is refused.

    \b
    fstcrf convert names.crfsuite names.fstcrf
    fstcrf convert chunks.wapiti chunks.fstcrf --columns word,pos
    fstcrf convert names.fstcrf names.crfsuite
    fstcrf convert chunks.fstcrf chunks.wapiti
    """
    check_outputs({"OUT": output}, [path])
    kind = _kind(output, name)
    names = None if columns is None else tuple(columns.split(","))
    with progress(f"converting {path}", "", 2) as meter:
        model = read_tagger(path, tape=tape, columns=names, encoding=encoding)
        meter.add()
        if kind == _NATIVE:
            save(model, output)
        else:
            data = written(model, kind)
            with atomic_write(output) as file:
                file.write(data)
    say(f"{output}: {len(model.labels)} labels, {model.space.size:,} weights")
    if kind in _BY_NUMBER and model.columns:
        say(f"its input has the columns {', '.join(column_order(model))}, in this order")


def _kind(output: str, name: str | None) -> str:
    """Return the name of the requested format, if it can be written."""
    suffixes = {f".{_NATIVE}": _NATIVE}
    suffixes |= {f.suffix: f.name for f in FORMATS if f.suffix and f.write}
    names = [_NATIVE, *(f.name for f in FORMATS if f.write)]
    if name is None:
        name = suffixes.get(Path(output).suffix)
        if name is None:
            shown = " or ".join(suffixes)
            raise click.UsageError(
                f"{output} does not end in {shown}: name the format with --to FORMAT"
            )
    if name not in names:
        raise click.UsageError(f"--to {name}: expected one of {', '.join(names)}")
    return name
