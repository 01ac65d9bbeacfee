"""``fstcrf convert``: a model in another program's format, or from it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from fstcrf.cli.models import save
from fstcrf.cli.options import (
    COLUMNS,
    NAMES,
    TAPE_NAME,
    check_outputs,
    command,
    output_option,
    setting,
)
from fstcrf.cli.progress import progress, progress_option
from fstcrf.cli.reporting import say, warnings_to
from fstcrf.ext.foreign import read_tagger
from fstcrf.ext.foreign.conversion import FORMATS, written
from fstcrf.ext.foreign.rendering import column_order
from fstcrf.files import atomic_write
from fstcrf.lazy import LazyModule

if TYPE_CHECKING:
    from fstcrf.ext import words
else:  # most conversions do not wait for it
    words = LazyModule("fstcrf.ext.words")

_NATIVE = "fstcrf"
_MECAB = ("mecab", "mecab-compiled")
_FACTOR = 700.0
_BY_NUMBER = ("crfpp", "crfpp-text", "wapiti")


@command()
@click.argument("path", metavar="IN")
@output_option("OUT", "the model in another format; for MeCab, a folder", required=True)
@click.option(
    "--to",
    "name",
    metavar="FORMAT",
    help="Its format: fstcrf, crfsuite, crfpp, crfpp-text, wapiti, mecab (sources) or "
    "mecab-compiled.  [default: by the ending of OUT]",
)
@TAPE_NAME
@click.option("--columns", type=NAMES, metavar="NAME,...", help=COLUMNS)
@setting("encoding", str, None, "Encoding of the texts in a model of CRF++ or Wapiti.")
@setting("factor", click.FloatRange(min=0, min_open=True), _FACTOR, "For MeCab: cost of one nat.")
@progress_option
def convert(
    path: str,
    output: str,
    *,
    name: str | None,
    tape: str | None,
    columns: tuple[str, ...] | None,
    encoding: str | None,
    factor: float,
) -> None:
    """Convert a tagger from or to another program.

    IN is a model of fstcrf, CRFsuite, CRF++ or Wapiti; its first bytes decide which. The ending
    of OUT decides its format: .fstcrf, .crfsuite, .crfpp (binary) or .wapiti. A model that the
    format cannot express is refused. A model of words becomes a dictionary for MeCab.

    \b
    fstcrf convert names.crfsuite -o names.fstcrf
    fstcrf convert chunks.wapiti -o chunks.fstcrf --columns word,pos
    fstcrf convert words.fstcrf -o folder --to mecab-compiled
    """
    if name in _MECAB and (tape or columns or encoding):
        raise click.UsageError(f"--to {name} is for words: give no tape, columns or encoding")
    if name not in _MECAB and factor != _FACTOR:
        raise click.UsageError("--set factor is for MeCab: --to mecab")
    if name in _MECAB:
        lexicon = words.LatticeCRF.load(path)
        with warnings_to(say):
            lexicon.export(output, compiled=name == _MECAB[1], factor=factor)
        return
    check_outputs({"--output": output}, [path])
    kind = _kind(output, name)
    with progress(f"converting {path}", "", 2) as meter:
        model = read_tagger(path, tape=tape, columns=columns, encoding=encoding)
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
    names = [_NATIVE, *(f.name for f in FORMATS if f.write), *_MECAB]
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
