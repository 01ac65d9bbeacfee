"""``fstcrf inspect``: a page that looks into the lattices of a model."""

from __future__ import annotations

import webbrowser
from functools import reduce
from operator import matmul
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from fstcrf.cli.compose import warn_of_columns
from fstcrf.cli.models import constrained, pipeline_of, token_model, tokens_deciding, whole
from fstcrf.cli.options import command, grammar_option, input_options, setting, threads_option
from fstcrf.cli.reporting import say
from fstcrf.cli.sources import check_columns, model_input
from fstcrf.lazy import LazyModule, optional
from fstcrf.taggers import compose

if TYPE_CHECKING:
    from fstcrf.ext import inspect as inspector
else:  # its server needs the extra
    inspector = LazyModule("fstcrf.ext.inspect")

_ADVICE = "fstcrf inspect needs starlette and uvicorn: pip install 'fstcrf[inspect]'"


@command("inspect")
@click.argument("model_paths", metavar="MODEL...", nargs=-1, required=True)
@grammar_option
@click.option("--text", "data", metavar="FILE", help="Sentences to step through.")
@input_options
@setting("host", str, "127.0.0.1", "Address to listen at. One that others reach needs a secret.")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=8642,
    show_default=True,
    help="Port to listen at; 0: any that is free.",
)
@setting("secret", str, "", "A secret that questions must carry.", parameter="token")
@click.option("--open", "opened", is_flag=True, help="Open the page in a browser.")
@threads_option
def inspect(
    model_paths: tuple[str, ...],
    *,
    grammar: tuple[str, ...],
    data: str | None,
    columns: tuple[str, ...] | None,
    kind: str | None,
    separator: str,
    host: str,
    port: int,
    token: str,
    opened: bool,
    threads: int,
) -> None:
    """Look into a model's lattices in a browser.

    Several MODELs are composed. For a sentence that is typed, pasted or taken from --text, the
    page shows the probability of every label at every token, the best paths, the labels that
    the grammar forbids, and the features that support a label. A click forces or forbids a
    label.

    \b
    fstcrf inspect joint.fstcrf --text test.txt
    fstcrf inspect pos.fstcrf ner.fstcrf --grammar bio --port 0
    """
    optional("starlette", _ADVICE)
    optional("uvicorn", _ADVICE)
    access = inspector.Access.of(host, token)
    model = (
        reduce(matmul, map(token_model, model_paths))
        if len(model_paths) > 1
        else tokens_deciding(model_paths[0])
    )
    own, way, pipeline = whole(model), None, pipeline_of(model)
    if pipeline is not None and pipeline.together:
        own = pipeline.joint
    elif pipeline is not None:
        way = pipeline.way
    composition: Any = constrained(own, grammar) if grammar else compose(own)
    warn_of_columns(composition.taggers)
    corpus = None
    if data is not None:
        source = model_input(
            composition,
            path=data,
            columns=columns,
            kind=kind,
            separator=separator,
            wanted=composition.tapes,
        )
        corpus = source.read(data)
        check_columns(composition, corpus)
        if source.wide:
            say("templates with %d look across sentences: here each is a document of its own")
    name = ", ".join(Path(path).name for path in model_paths)
    bench = inspector.Workbench(composition, name, corpus, way)
    listening = inspector.server.bound(host, port)
    link = inspector.server.link(listening, token)
    say(f"{name}: {link} (Ctrl-C ends it)")
    if opened:
        webbrowser.open(link)
    inspector.serve(bench, listening, access, threads=threads)
