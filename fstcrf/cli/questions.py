"""Questions of the command line to a tagger: the options of all commands that tag.

===============  ==================================================================
tagging_options  the options of `fstcrf tag` and `fstcrf pipeline tag`
files_read       the files that they name
question         the question of these options, checked against the tagger
Question         the goal of the search, known labels, printed answers
===============  ==================================================================
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from fstcrf import kernel
from fstcrf.cli.models import tape_columns
from fstcrf.cli.options import (
    ASSIGNMENT,
    Command,
    grammar_option,
    input_options,
    search_options,
    threads_option,
    with_options,
)
from fstcrf.cli.progress import progress_option
from fstcrf.cli.weights import weights_option
from fstcrf.errors import TooLargeError
from fstcrf.lazy import LazyModule
from fstcrf.taggers import CRF, JointCRF
from fstcrf.taggers.tagger import Composable, OnNoPath, Tagger
from fstcrf.text.corpus.schemes import has_spans, named_scheme, split_label

if TYPE_CHECKING:
    from fstcrf.ext import calibration
    from fstcrf.ext.calibration import Calibration
    from fstcrf.kernel import Budget
    from fstcrf.machines.plans import Search
else:  # plain tagging does not wait for it
    calibration = LazyModule("fstcrf.ext.calibration")


# --- Options --------------------------------------------------------------------------------------


_OUTPUT = click.option(
    "-o",
    "--output",
    metavar="OUT",
    default="-",
    help="Where to; .gz is compressed.  [default: standard output]",
)
_DECISION = (
    click.option(
        "--decode",
        type=click.Choice(["cascade", "marginals", "joint", "product", "chain"]),
        help=(
            "cascade: run the taggers one after the other on the best labels of earlier "
            "taggers. marginals: the same, on the probabilities of all labels. joint: decide "
            "all tapes together, as composed. product, chain: together, by this rule.  "
            "[default: the setting of the model; for a pipeline without one, joint under a "
            "grammar, else cascade]"
        ),
    ),
    click.option(
        "--normalize",
        type=click.Choice(["product", "chain"]),
        help=(
            "How to combine the taggers in a joint decision. product: add scores. chain: "
            "multiply the probability of the first tape by the probability of the second "
            "given the first.  [default: as composed]"
        ),
    ),
    weights_option(
        "Factor of each tagger's potentials in a joint decision, one for each, at least 0."
    ),
    grammar_option,
)
"""Which labels are the best."""
_PRINTED = (
    click.option(
        "--nbest",
        metavar="K",
        type=click.IntRange(1, 2**31 - 1),
        help="Print the K best, each after # i p.",
    ),
    click.option(
        "--probabilities",
        is_flag=True,
        help="Print label/probability, and before each sentence # and the probability of its "
        "labels together, as CRF++ does.",
    ),
    click.option(
        "--marginals",
        is_flag=True,
        help="The same, and a column label/probability for every label.",
    ),
    click.option(
        "--confidence",
        is_flag=True,
        help="Before each sentence, bounds of the probability of its labels among the legal "
        "ones, and of the model's probability that labels are legal.",
    ),
    click.option(
        "--span-probabilities",
        is_flag=True,
        help="Add a column with the probability of each span at its first token.",
    ),
    click.option(
        "--min-confidence",
        metavar="P",
        type=click.FloatRange(0, 1),
        help="Spans whose probability is below P become O; labels of tapes without spans _.",
    ),
    click.option(
        "--calibration",
        metavar="FILE",
        help=(
            "Calibration file of fstcrf calibrate. It corrects the probabilities of spans for"
            " --min-confidence and --span-probabilities."
        ),
    ),
)
"""The printed answers."""
_FILL = click.option(
    "--fill",
    metavar="COLUMN",
    help="Of CoNLL-U, the column that gets the labels, such as upos, or a key of the last column.  "
    "TAPE=COLUMN,... where there are several tapes.  [default: the column that training took the "
    "labels from; else a key called like the tape]",
)
_KNOWN = (
    click.option(
        "--force",
        metavar="COLUMN",
        help="Labels known beforehand: _ is unknown, a|b one of several. TAPE=COLUMN,... "
        "where there are several tapes.",
    ),
    click.option(
        "--bias",
        type=ASSIGNMENT,
        multiple=True,
        help=(
            "Add to the score of a label at every token: O=-1 finds more spans. With several "
            "tapes, write TAPE:O=-1. Repeatable."
        ),
    ),
)
"""Knowledge and wishes about labels."""


def tagging_options(tape: str) -> Callable[[Command], Command]:
    """Return a decorator that adds the options of tagging.

    Parameters
    ----------
    tape : str
        The name of a tape in the command: ``--tape`` or ``--task``.
    """
    shown = click.option(
        f"--{tape}",
        "names",
        metavar="NAME",
        multiple=True,
        help=f"Print only this {tape}; --nbest is of those printed. Repeatable.",
    )
    several = (_OUTPUT, input_options, _FILL, *_DECISION, *_PRINTED, *_KNOWN, shown)
    last = (search_options, threads_option, progress_option)
    return lambda command: with_options((*several, *last), command)


@dataclass(frozen=True, slots=True)
class Question:
    """The goal of the search, known labels, and the printed answers.

    Parameters
    ----------
    n : int
        How many paths.
    force : mapping of str to str, optional
        For a tape, the column with its labels known beforehand.
    bias : mapping of str to mapping of str to float, optional
        For a tape, numbers that are added to the potentials of labels at all tokens.
    on_no_path : {"error", "skip", "relax"}
    search : {"auto", "lazy", "expanded"}, optional
        How the best paths under a grammar are found; as the tagger was made when absent.
    budget : Budget, optional
        When to give up on a sentence that is searched.
    threads : int
    tapes : tuple of str, optional
        Those printed, in which paths differ; all when absent.
    ranked : bool
        Number the paths, best first.
    probabilities : bool
        Of the label at each token and of the whole sequence.
    marginals : bool
        Of every label at each token.
    confidence : bool
        How sure the best labels are under a grammar, and how much of the model is legal.
    spans : tuple of str
        Tapes for whose spans, read as conlleval reads them, probabilities are wanted.
    least : float, optional
        Spans that are less probable become O; labels that are of no span ``_``.
    calibration : Calibration, optional
        Of probabilities of spans, and of labels that are of no span.
    """

    n: int = 1
    force: Mapping[str, str] | None = None
    bias: Mapping[str, Mapping[str, float]] | None = None
    on_no_path: OnNoPath = "error"
    search: Search | None = None
    budget: Budget | None = None
    threads: int = 1
    tapes: tuple[str, ...] | None = None
    ranked: bool = False
    probabilities: bool = False
    marginals: bool = False
    confidence: bool = False
    spans: tuple[str, ...] = ()
    least: float | None = None
    calibration: Calibration | None = None

    @property
    def commented(self) -> bool:
        """Something is written before each sentence."""
        return self.ranked or self.probabilities or self.marginals or self.confidence

    @property
    def plain(self) -> bool:
        """Only labels are printed."""
        return not (self.commented or self.spans) and self.least is None


def files_read(given: Mapping[str, Any]) -> list[str | None]:
    """Return the files that options of tagging name."""
    documents = given.get("document_consistency", ())
    return [*given["grammar"], given["calibration"], *documents]


def question(tagger: Tagger, given: Mapping[str, Any], *, tape: str) -> Question:
    """Return the question that the options express.

    Parameters
    ----------
    tagger : Tagger
    given : mapping of str to value
        The options of `tagging_options`.
    tape : str
        As for `tagging_options`.

    Raises
    ------
    click.UsageError
        An answer that the tagger cannot compute, or an unknown name.
    TooLargeError
        Probabilities, under a grammar too large to multiply out.
    """
    _check(tagger, given)
    several = tagger.tapes
    shown = shown_names(tape, given["names"], several)
    force, states, seconds = given["force"], given["max_states"], given["max_seconds"]
    budget = None
    if states is not None or seconds is not None:
        budget = kernel.Budget(states, seconds)
    asked = Question(
        n=given["nbest"] or 1,
        force=None if force is None else tape_columns("--force", force, several),
        bias=label_biases(given["bias"], several) or None,
        on_no_path=given["on_no_path"],
        search=given["search"],
        budget=budget,
        threads=given["threads"],
        tapes=shown,
        ranked=given["nbest"] is not None,
        probabilities=given["probabilities"],
        marginals=given["marginals"],
        confidence=given["confidence"],
        spans=_span_tapes(tagger, shown) if given["span_probabilities"] else (),
        least=given["min_confidence"],
        calibration=_calibration(given, tagger),
    )
    _check_sums(tagger, asked)
    return asked


def _calibration(given: Mapping[str, Any], tagger: Tagger) -> Calibration | None:
    path = given["calibration"]
    if path is None:
        return None
    if given["min_confidence"] is None and not given["span_probabilities"]:
        raise click.UsageError(
            "--calibration is for --min-confidence or --span-probabilities: give one of them"
        )
    found = calibration.Calibration.load(path)
    labels = {label for several in tagger.label_sets.values() for label in several}
    types = {split_label(label, named_scheme("conlleval"))[1] for label in labels}
    if found.curves and found.curves.keys().isdisjoint(labels | types):
        known = ", ".join(sorted(found.curves))
        raise click.UsageError(
            f"--calibration {path} belongs to another model: it calibrates {known}, "
            "which are not labels or types of this model"
        )
    return found


def shown_names(option: str, names: Sequence[str], tapes: Sequence[str]) -> tuple[str, ...] | None:
    """Return the tapes that an option names, in the order of the model; `None` for all tapes.

    Raises
    ------
    click.UsageError
        An unknown name.
    """
    odd = [name for name in names if name not in tapes]
    if odd:
        raise click.UsageError(f"--{option} {odd[0]}: the {option}s are {', '.join(tapes)}")
    found = tuple(tape for tape in tapes if tape in names)
    return None if found in ((), tuple(tapes)) else found


def _check(tagger: Tagger, given: Mapping[str, Any]) -> None:
    joint = tagger._joint()
    if joint is not None and joint._conditional:
        needing = ("probabilities", "marginals", "confidence", "span_probabilities")
        for name in (*needing, "min_confidence"):
            if given[name] not in (None, False):
                raise click.UsageError(
                    f'{_flag(name)} is not available with normalize = "chain": use --decode product'
                )
    if isinstance(tagger, Composable) and not isinstance(tagger, CRF | JointCRF):
        for name in ("search", "max_states", "max_seconds"):
            if given[name] is not None:
                raise click.UsageError(f"{_flag(name)} is for taggers of tokens, not of segments")
        return
    if joint is None and not isinstance(tagger, CRF):
        ruled = tagger.without_grammar() is not None
        for name in ("search", "max_states", "max_seconds"):
            if given[name] is not None and not ruled:
                raise click.UsageError(f"{_flag(name)} needs a joint decision: --decode joint")


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def label_biases(
    pairs: Sequence[tuple[str, float]], tapes: Sequence[str]
) -> dict[str, dict[str, float]]:
    """Return the biases of each tape; with several tapes, the tape and a colon precede a label."""
    found: dict[str, dict[str, float]] = {}
    for name, number in pairs:
        tape, colon, label = name.partition(":")
        if len(tapes) == 1 and not (colon and tape == tapes[0]):
            tape, label = tapes[0], name
        if tape not in tapes:
            raise click.UsageError(
                f"--bias {name}={number:g}: expected TAPE:LABEL=NUMBER, the tapes are "
                f"{', '.join(tapes)}"
            )
        found.setdefault(tape, {})[label] = number
    return found


def _span_tapes(tagger: Tagger, printed: tuple[str, ...] | None) -> tuple[str, ...]:
    """Return the printed tapes with labels of spans; a single tape is always included."""
    if len(tagger.tapes) == 1:
        return tagger.tapes
    found = tuple(
        name
        for name, labels in tagger.label_sets.items()
        if has_spans(labels) and name in (printed or tagger.tapes)
    )
    if not found:
        raise click.UsageError("--span-probabilities: no tape has labels of spans, such as B-NP")
    return found


def _check_sums(tagger: Tagger, asked: Question) -> None:
    """Check before decoding that the requested probabilities are available."""
    joint = tagger._joint()
    wanted = asked.probabilities or asked.marginals or asked.least is not None
    if not wanted or joint is None:
        return
    try:
        _ = joint._program.machine
    except TooLargeError:
        raise TooLargeError(
            "the grammar is too large for probabilities of single labels, which need "
            "it multiplied out: --confidence gives bounds for whole labellings"
        ) from None
