"""``fstcrf tag``: the input's columns and the predicted label, sentence after sentence."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import click

from fstcrf import joint
from fstcrf.cli.answers import Counts, Search, search_budget
from fstcrf.cli.documents import check_alone, document_options, document_source, document_tagger
from fstcrf.cli.models import Model, constrained, is_chain, load_model, tape_columns, tapes
from fstcrf.cli.options import (
    Assignment,
    grammar_option,
    input_options,
    search_options,
    threads_option,
)
from fstcrf.cli.reporting import say
from fstcrf.cli.sources import Input, model_input
from fstcrf.cli.tagging import Addition, Wishes, cascaded, check_sums, shown, tagged, write_tagged
from fstcrf.corpus import Corpus

__all__ = ["tag"]

_SEARCH = {"on_no_path": "error", "max_states": None, "max_seconds": None, "threads": 1}
"""Options of the search for best paths, and their defaults: sampling has no such search."""


@click.command()
@click.argument("model_path", metavar="MODEL")
@click.argument("path", metavar="[INPUT]", default="-")
@click.option(
    "-o",
    "--output",
    metavar="OUT",
    default="-",
    help="Where to; .gz is compressed.  [default: standard output]",
)
@input_options
@grammar_option
@click.option(
    "--nbest",
    metavar="K",
    type=click.IntRange(1, 2**31 - 1),
    help="Print the K best, each after # i p.",
)
@click.option(
    "--probabilities",
    is_flag=True,
    help="Print label/probability, and before each sentence # and the probability of "
    "its labels together, as CRF++ does.",
)
@click.option(
    "--marginals", is_flag=True, help="The same, and a column label/probability for every label."
)
@click.option(
    "--confidence",
    is_flag=True,
    help="Before each sentence, bounds of the probability of its labels among the legal ones, and "
    "of the model's probability that labels are legal.",
)
@click.option(
    "--span-probabilities",
    is_flag=True,
    help="Add a column with the probability of each span at its first token.",
)
@click.option(
    "--force",
    metavar="COLUMN",
    help="Labels known beforehand: _ is unknown, a|b one of several. TAPE=COLUMN,... where there "
    "are several tapes.",
)
@click.option(
    "--bias",
    type=Assignment(),
    multiple=True,
    help="Add to the score of a label everywhere: O=-1 finds more spans. Repeatable.",
)
@click.option(
    "--tape",
    "names",
    metavar="NAME",
    multiple=True,
    help="Print only this tape of a composition; --nbest is of those printed. Repeatable.",
)
@click.option(
    "--joint/--cascade",
    default=True,
    show_default=True,
    help="Decide all tapes of a composition together, or one after the other.",
)
@search_options
@document_options
@threads_option
def tag(
    model_path: str,
    path: str,
    output: str,
    *,
    columns: tuple[str, ...] | None,
    kind: str | None,
    separator: str,
    **given: Any,
) -> None:
    """Tag a file.

    The input has the columns that the model was trained with, of which the last ones may be
    missing, or those that --columns names. They are printed again with the predicted labels behind
    them, a column for each tape; document lines and blank lines stay.

    \b
    fstcrf tag chunk.fstcrf test.txt > tagged.txt
    fstcrf tag chunk.fstcrf test.txt --grammar bio --nbest 5
    """
    model = load_model(model_path)
    asked = _asked(given)
    _check(model, asked, joint=given["joint"])
    if given["grammar"]:
        model = constrained(model, given["grammar"])
    given["tapes"] = shown("--tape", given["names"], tapes(model))
    source = model_input(model, columns=columns, kind=kind, separator=separator)
    if given["document_consistency"]:
        _write_documents(model, source, path, output, asked, given)
        return
    check_alone(given)
    counts = Counts()
    write_tagged(_answer(model, counts, given), source, path, output)
    counts.report()


def _printed(found: Addition, model: Model, names: tuple[str, ...] | None) -> Addition:
    """Return the columns of some tapes, of those of all tapes."""
    if names is None:
        return found
    return Addition(tuple(found.columns[tapes(model).index(name)] for name in names))


def _asked(given: dict[str, Any]) -> list[str]:
    """Return the options that are given, of those that not every model takes."""
    options = (
        *("nbest", "probabilities", "marginals", "confidence", "span_probabilities"),
        *("force", "bias", "grammar"),
    )
    return [
        f"--{name.replace('_', '-')}" for name in options if given[name] not in (None, False, ())
    ]


def _answer(model: Model, counts: Counts, given: dict[str, Any]) -> Callable[[Corpus], Addition]:
    """Return what tags a batch."""
    wishes, threads = _wishes(model, given), given["threads"]
    check_sums(model, wishes)
    if given["joint"]:
        return lambda batch: tagged(model, batch, wishes, counts)
    composition, names = cast("joint.Composition", model), given["tapes"]
    return lambda batch: _printed(cascaded(composition, batch, threads), model, names)


def _wishes(model: Model, given: dict[str, Any]) -> Wishes:
    force, nbest = given["force"], given["nbest"]
    search = Search(
        n=nbest or 1,
        force={} if force is None else tape_columns("--force", force, tapes(model)),
        bias=dict(given["bias"]),
        on_no_path=given["on_no_path"],
        budget=search_budget(given["max_states"], given["max_seconds"]),
        threads=given["threads"],
        tapes=given["tapes"],
    )
    return Wishes(
        search,
        ranked=nbest is not None,
        probabilities=given["probabilities"],
        marginals=given["marginals"],
        confidence=given["confidence"],
        spans=_span_tapes(model, given["tapes"]) if given["span_probabilities"] else (),
    )


def _write_documents(
    model: Model, source: Input, path: str, output: str, asked: list[str], given: dict[str, Any]
) -> None:
    """Tag documents as a whole.

    Raises
    ------
    click.UsageError
        More is asked for than labels.
    """
    other = [name for name in asked if name != "--grammar"]
    other += [] if given["joint"] else ["--cascade"]
    other += [f"--{name.replace('_', '-')}" for name in _SEARCH if given[name] != _SEARCH[name]]
    if other:
        raise click.UsageError(f"{other[0]} cannot go with --document-consistency")
    documents, done = document_tagger(model, given), 0

    def answer(batch: Corpus) -> Addition:
        nonlocal done
        found = Addition(documents.tag_columns(batch, first=done))
        found = _printed(found, model, given["tapes"])
        done += len(batch.document_slices())
        return found

    write_tagged(answer, document_source(source), path, output)


def _check(model: Model, asked: list[str], *, joint: bool) -> None:
    """Check that what is asked for goes with the model.

    Raises
    ------
    click.UsageError
        It does not.
    """
    several = len(tapes(model)) > 1
    if not joint:
        if not several:
            raise click.UsageError("--cascade is for compositions: the model has one tape")
        if asked:
            raise click.UsageError(
                f"{asked[0]} needs a joint decision, it cannot go with --cascade"
            )
        if getattr(model, "conjuncts", ()):
            say("warning: --cascade decides without the grammar of the composition")
    if several and "--bias" in asked:
        raise click.UsageError("--bias is for models with one tape")
    impossible = [name for name in asked if name not in {"--nbest", "--grammar"}]
    if is_chain(model) and impossible:
        raise click.UsageError(
            f"{impossible[0]} needs a transducer, and a composition with --normalize chain is "
            "none; compose with --normalize product"
        )


def _span_tapes(model: Model, printed: tuple[str, ...] | None) -> tuple[str, ...]:
    """Return the printed tapes whose labels look like those of spans; an only tape in any case.

    Raises
    ------
    click.UsageError
        There are several, and none of that kind.
    """
    names = tapes(model)
    if len(names) == 1:
        return names
    found = tuple(
        name
        for name, labels in zip(names, model.labels, strict=True)
        if any(label[:2] in {"B-", "I-"} for label in labels) and name in (printed or names)
    )
    if not found:
        raise click.UsageError("--span-probabilities: no tape has labels of spans, such as B-NP")
    return found
