"""Whether controls make a difference, at equal numbers of samples."""

from __future__ import annotations

from collections.abc import Sequence

from fstcrf.evaluate.significance import randomised_f, span_counts
from fstcrf.model import CRF
from fstcrf.recipes.partial_feedback.curves import samples_until
from fstcrf.recipes.partial_feedback.data import TARGET, Data
from fstcrf.recipes.partial_feedback.learning import Trained
from fstcrf.recipes.report import number, table

__all__ = ["differences"]


def differences(data: Data, full: CRF, runs: Sequence[Trained]) -> str:
    """Compare each learner that has a control with the same without, and with full information.

    Parameters
    ----------
    data : Data
    full : CRF
        What gold labels give.
    runs : sequence of Trained
        All with as many samples.
    """
    gold = data.test.column_lists(TARGET)
    known = {one.system.name: one for one in runs}
    counts = {one.system.name: span_counts(gold, one.model.tag_all(data.test)) for one in runs}
    best = span_counts(gold, full.tag_all(data.test))
    cells = []
    for name, one in known.items():
        base = known[name.partition(", control")[0]]
        if base is one:
            continue
        without, mine = counts[base.system.name], counts[name]
        needed = samples_until(one, base.dev, len(data.train))
        cells.append(
            [
                name,
                number(100 * without.f),
                number(100 * mine.f),
                number(randomised_f(without, mine)),
                f"{base.samples:,}",
                "not reached" if needed is None else f"{needed:,}",
                number(randomised_f(mine, best)),
            ]
        )
    head = [
        "",
        "F without, %",
        "F with, %",
        "p",
        "samples to the best dev F without",
        "with, to the same F",
        "p against full information",
    ]
    return (
        "## What a control brings\n\n"
        "The same objective, as many samples, each with the rate that is best for it on the dev "
        "part. F on the test part; p of approximate randomisation over sentences, of the first "
        "seed; the samples until the best F on the dev part that was reached without a control.\n\n"
        + table(head, cells)
    )
