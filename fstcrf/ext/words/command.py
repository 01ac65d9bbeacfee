"""``fstcrf words``: the words of unspaced text, by a lexicon; lexicons whose costs are learnt."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from fstcrf.cli.learning import learn
from fstcrf.cli.options import (
    DEV,
    LOG_JSON,
    NBEST,
    PROBABILITIES,
    QUASI_NEWTON,
    STDOUT,
    check_outputs,
    command,
    output_option,
    setting,
    shown,
    threads_option,
    with_options,
)
from fstcrf.cli.reporting import Reporter, say
from fstcrf.cli.structures import STRUCTURE, structure_command
from fstcrf.errors import OptionError
from fstcrf.ext.course import structured
from fstcrf.ext.lexicon import Lexicon, Word
from fstcrf.ext.words.structure import Words
from fstcrf.files import open_binary, open_target, source_name
from fstcrf.lazy import LazyModule
from fstcrf.text.lines import read_lines

if TYPE_CHECKING:
    from fstcrf.ext import words as wordlattice
else:  # a lexicon without weights need not wait for imports of training
    wordlattice = LazyModule("fstcrf.ext.words")

_BATCH = 1000


@command()
@click.argument("dictionary", metavar="DICTIONARY")
@click.argument("text", metavar="[TEXT]", default="-")
@output_option("OUT", "the words", default=STDOUT)
@click.option(
    "--user", "users", metavar="FILE", multiple=True, help="A further .dic or .csv. Repeatable."
)
@setting(
    "layout",
    click.Choice(["words", "spaced"]),
    "words",
    "A word in each line, or a sentence.",
    parameter="form",
)
@click.option("--nbest", metavar="K", type=click.IntRange(1, 2**31 - 1), default=1, help=NBEST)
@click.option("--probabilities", is_flag=True, help=PROBABILITIES)
@setting(
    "unit",
    click.FloatRange(min=0, min_open=True),
    None,
    "Cost of one nat: larger ones make probabilities more even.  [default: cost-factor of "
    "dicrc, else 700]",
    metavar="COST",
)
def words(
    dictionary: str,
    text: str,
    *,
    output: str,
    users: tuple[str, ...],
    form: str,
    nbest: int,
    probabilities: bool,
    unit: float | None,
) -> None:
    """Find the words of unspaced text.

    TEXT has a sentence in each line. DICTIONARY is a folder with a dictionary of MeCab, compiled
    or as sources, or a model of fstcrf train --structure words.

    \b
    fstcrf words unidic text.txt --set layout=spaced
    fstcrf words unidic --nbest 5 < text.txt
    """
    if form == "spaced" and probabilities:
        raise OptionError("--probabilities needs --set layout=words, with a word in each line")
    if nbest > 1 and probabilities:
        raise OptionError("--probabilities are of words, --nbest gives ways: ask for one of them")
    check_outputs({"--output": output}, [*_files_of(dictionary), text, *users], text=("--output",))
    lexicon: Lexicon | wordlattice.LatticeCRF
    if Path(dictionary).is_file():
        if users or unit is not None:
            raise OptionError("--user and --set unit are for dictionaries: a model has its own")
        lexicon = wordlattice.LatticeCRF.load(dictionary)
    else:
        lexicon = Lexicon.load(dictionary, users=users, unit=unit)
    with open_target(output) as out:
        for batch in _batches(text):
            for block in _blocks(lexicon, batch, form, nbest, probabilities=probabilities):
                out.write(block.encode())


def _files_of(dictionary: str) -> list[str]:
    """Return the files of a dictionary, which is a folder or a model."""
    folder = Path(dictionary)
    if not folder.is_dir():
        return [dictionary]
    endings = {".bin", ".csv", ".def", ".dic"}
    return [str(p) for p in folder.iterdir() if p.suffix in endings or p.name == "dicrc"]


def _batches(text: str) -> Iterator[list[str]]:
    """Yield lines, some at a time, without their ends."""
    with open_binary(text) as file:
        rest = read_lines(file, source_name(text))
        while lines := list(islice(rest, _BATCH)):
            yield lines


def _blocks(
    lexicon: Lexicon | wordlattice.LatticeCRF,
    lines: list[str],
    form: str,
    nbest: int,
    *,
    probabilities: bool,
) -> Iterator[str]:
    if nbest > 1 or probabilities:
        for line in lines:
            if probabilities:
                yield _with_probabilities(lexicon, line)
            else:
                yield from _ways(lexicon, line, nbest, form)
        return
    answer = lexicon.tag_all(lines)
    for b, line in enumerate(lines):
        if not _covered(line, answer.scores[b]):
            yield _text([], form)
        elif form == "spaced":
            yield " ".join(answer.surfaces(b)) + "\n"
        else:
            yield _text(answer.words(b), form)


def _covered(line: str, score: float) -> bool:
    if score == float("-inf"):
        say(f"warning: no words cover the text {line[:20]!r}")
        return False
    return True


def _with_probabilities(lexicon: Lexicon | wordlattice.LatticeCRF, line: str) -> str:
    lattice = lexicon.lattice(line)
    if not _covered(line, lattice.log_partition()):
        return _text([], "words")
    share = dict(zip(lexicon.candidates(line), lattice.arc_probabilities().tolist(), strict=True))
    best = lexicon.tag(line)
    return _text(best, "words", [f"\t{share[word]:.4f}" for word in best])


def _ways(lexicon: Lexicon | wordlattice.LatticeCRF, line: str, n: int, form: str) -> Iterator[str]:
    paths, words = lexicon.lattice(line).nbest(n), lexicon.candidates(line)
    if not _covered(line, paths[0].score if paths else float("-inf")):
        yield _text([], form)
    for rank, path in enumerate(paths, start=1):
        yield f"# {rank}\t{path.score:.4f}\t{path.probability:.4f}\n"
        yield _text(words.chosen(path.arcs), form)


def _text(words: list[Word], form: str, behind: Iterable[str] | None = None) -> str:
    if form == "spaced":
        return " ".join(word.surface for word in words) + "\n"
    extra = [""] * len(words) if behind is None else behind
    rows = [f"{w.surface}\t{w.feature}{more}\n" for w, more in zip(words, extra, strict=True)]
    return "".join(rows) + "EOS\n"


# --- Training -------------------------------------------------------------------------------------


class _Fields(click.ParamType[tuple[int, ...]]):
    """Numbers of fields with commas between them."""

    name = "fields"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[int, ...]:
        if isinstance(value, tuple):
            return value
        try:
            return tuple(map(int, str(value).split(",")))
        except ValueError:
            self.fail(f"{value!r}: expected numbers of fields, 0,1,2", param, ctx)


@structure_command
@click.argument("path", metavar="TRAIN")
@output_option("MODEL", "the model", required=True)
@STRUCTURE
@click.option(
    "--dictionary", metavar="DIR", required=True, help="A dictionary of MeCab with the words."
)
@click.option("--template", metavar="FILE", required=True, help="Feature templates, a feature.def.")
@click.option("--rewrite", metavar="FILE", help="A rewrite.def: fields to features.")
@setting("label", _Fields(), "0", "Fields that make the label of a word: 0,1,2.", metavar="N,...")
@setting("column", click.Choice(["upos", "xpos"]), "xpos", "Column of CoNLL-U with the labels.")
@click.option(
    "--marked",
    metavar="FILE",
    multiple=True,
    help="Text with marks between characters: | a boundary, - no boundary, blank "
    "unknown. Repeatable.",
)
@DEV
@setting(
    "costs",
    click.Choice(["none", "fixed", "scaled"]),
    "none",
    "Costs of the dictionary: ignored, kept with weights on top, or learnt multiples of them.",
)
@setting(
    "new_words",
    click.IntRange(min=0),
    0,
    "Add an entry for each annotated word that is missing at least N times; 0 adds no entry.",
    metavar="N",
)
@setting(
    "on_missing",
    click.Choice(["error", "nearest", "skip", "add"]),
    "error",
    "Gold labels that the model does not have: an error, the nearest ones, left out, or their "
    "words added as unknown ones.",
)
@shown("--min-count", "N", click.IntRange(min=0), 0, "Smallest count of an attribute that is kept.")
@lambda command: with_options(QUASI_NEWTON, command)
@setting(
    "store",
    bool,
    True,  # noqa: FBT003
    "Store the dictionary in the model file. Without it, only Python can use the model.",
    parameter="within",
)
@threads_option
@LOG_JSON
@click.pass_context
def train(
    context: click.Context,
    /,
    path: str,
    output: str,
    *,
    dictionary: str,
    label: tuple[int, ...],
    column: str,
    marked: Sequence[str],
    dev: str | None,
    template: str,
    rewrite: str | None,
    within: bool,
    log_json: bool,
    **options: Any,
) -> None:
    """Learn the costs of a dictionary's words and of neighbours from annotated text.

    TRAIN is CoNLL-U, or has one word per line: word, tab, label or feature, with EOS or a blank
    line after each sentence. The label ? is unknown. After a stretch of text, ?? means that its
    words are unknown.

    \b
    fstcrf train train.conllu -o own.fstcrf --structure words \\
        --dictionary unidic --template feature.def --rewrite rewrite.def
    """  # fmt: skip
    outputs = {"--output": output, "--set checkpoint": options["checkpoint"]}
    check_outputs(outputs, [*_files_of(dictionary), path, template, rewrite, *marked, dev])
    lexicon = Lexicon.load(dictionary)
    data = wordlattice.read_words(path, label=label, column=column)
    data += [one for file in marked for one in wordlattice.read_marked(file)]
    held_out = None if dev is None else wordlattice.read_words(dev, label=label, column=column)

    def trained(told: Reporter) -> wordlattice.LatticeCRF:
        flat = {
            "lexicon": lexicon,
            "rewrite": None if rewrite is None else Path(rewrite),
            "label": label,
            "dev": held_out,
            "report": told.iteration,
            **options,
        }
        return wordlattice.LatticeCRF.train(data, Path(template), **structured(flat, Words))

    def save(model: wordlattice.LatticeCRF) -> None:
        model.save(output, lexicon=within)

    learn(context, output, trained, save, as_json=log_json)
