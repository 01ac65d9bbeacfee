"""Questions of ``fstcrf tag`` to a tagger: its options, and the goal that they express."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from fstcrf import kernel
from fstcrf.cli.models import tape_columns
from fstcrf.cli.options import (
    ASSIGNMENT,
    NBEST,
    PROBABILITIES,
    STDOUT,
    Command,
    decode_option,
    flag_named,
    grammar_option,
    input_options,
    output_option,
    search_options,
    setting,
    threads_option,
    weights_option,
    with_options,
)
from fstcrf.cli.progress import progress_option
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


_DECISION = (
    decode_option(),
    weights_option,
    grammar_option,
)
"""Which labels are the best."""
_PRINTED = (
    click.option("--nbest", metavar="K", type=click.IntRange(1, 2**31 - 1), help=NBEST),
    click.option("--probabilities", is_flag=True, help=PROBABILITIES),
    click.option("--marginals", is_flag=True, help="The same, and a column for each label."),
    setting("confidence", bool, default=False, says="Print bounds of the probability of labels."),
    click.option("--span-probabilities", is_flag=True, help="Print the probability of each span."),
    click.option(
        "--min-confidence",
        metavar="P",
        type=click.FloatRange(0, 1),
        help="Print less probable spans as O.",
    ),
    click.option(
        "--calibration", metavar="FILE", help="Correct probabilities by this calibration."
    ),
)
"""The printed answers."""
_FILL = click.option("--fill", metavar="COLUMN", help="Column of CoNLL-U for the labels.")
_KNOWN = (
    click.option("--force", metavar="COLUMN", help="Column of known labels, _ if unknown."),
    click.option(
        "--bias",
        type=ASSIGNMENT,
        multiple=True,
        help="Add a number to a score: O=-1. Repeatable.",
    ),
)
"""Knowledge and wishes about labels."""
_SHOWN = click.option(
    "--tape",
    "names",
    metavar="TAPE",
    multiple=True,
    help="Tape to look at, if there are several. Repeatable.",
)


def tagging_options(command: Command) -> Command:
    """Add the options of tagging."""
    output = output_option("OUT", "the text with labels", default=STDOUT)
    several = (output, input_options, _FILL, _SHOWN, *_DECISION, *_PRINTED, *_KNOWN)
    return with_options((*several, search_options, threads_option, progress_option), command)


@dataclass(frozen=True, slots=True)
class Question:
    """The goal of the search, known labels, and the printed answers."""

    n: int = 1  # how many paths
    force: Mapping[str, str] | None = None  # tape → column with its labels known beforehand
    bias: Mapping[str, Mapping[str, float]] | None = None  # tape → label → added potential
    on_no_path: OnNoPath = "error"
    search: Search | None = None  # as the tagger was made when absent
    budget: Budget | None = None  # when to give up on a sentence that is searched
    threads: int = 1
    tapes: tuple[str, ...] | None = None  # those printed, in which paths differ; all when absent
    ranked: bool = False  # number the paths, best first
    probabilities: bool = False  # of the label at each token and of the whole sequence
    marginals: bool = False  # of every label at each token
    confidence: bool = False  # bounds of the probability under a grammar
    spans: tuple[str, ...] = ()  # tapes whose spans get probabilities
    least: float | None = None  # less probable spans become O
    calibration: Calibration | None = None  # of probabilities of spans

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


def question(tagger: Tagger, given: Mapping[str, Any]) -> Question:
    """Return the question that the options of `tagging_options` express.

    Raises
    ------
    click.UsageError
        An answer that the tagger cannot compute, or an unknown name.
    TooLargeError
        Probabilities, under a grammar too large to multiply out.
    """
    _check(tagger, given)
    several = tagger.tapes
    shown = shown_names(given["names"], several)
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


def shown_names(names: Sequence[str], tapes: Sequence[str]) -> tuple[str, ...] | None:
    """Return the tapes of ``--tape``, in the order of the model; `None` for all tapes.

    Raises
    ------
    click.UsageError
        An unknown name.
    """
    odd = [name for name in names if name not in tapes]
    if odd:
        raise click.UsageError(f"--tape {odd[0]}: the tapes are {', '.join(tapes)}")
    found = tuple(tape for tape in tapes if tape in names)
    return None if found in ((), tuple(tapes)) else found


def _check(tagger: Tagger, given: Mapping[str, Any]) -> None:
    joint = tagger._joint()
    if joint is not None and joint._conditional:
        needing = ("probabilities", "marginals", "confidence", "span_probabilities")
        for name in (*needing, "min_confidence"):
            if given[name] not in (None, False):
                what = f"{flag_named(name)} is not available with normalize = "
                raise click.UsageError(f'{what}"chain": use --decode product')
    if isinstance(tagger, Composable) and not isinstance(tagger, CRF | JointCRF):
        for name in ("search", "max_states", "max_seconds"):
            if given[name] is not None:
                raise click.UsageError(f"{flag_named(name)} is for taggers of tokens only")
        return
    if joint is None and not isinstance(tagger, CRF):
        ruled = tagger.without_grammar() is not None
        for name in ("search", "max_states", "max_seconds"):
            if given[name] is not None and not ruled:
                raise click.UsageError(f"{flag_named(name)} needs a joint decision: --decode joint")


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
            "it multiplied out: --set confidence=true gives bounds for whole labellings"
        ) from None
