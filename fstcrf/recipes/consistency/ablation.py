"""What other local models reach on the dev file: features, priors, schemes of labels.

========  ==============================================
VARIANTS  what is compared
ablation  a section of the report
========  ==============================================
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import Any

from fstcrf.corpus import convert_column
from fstcrf.evaluate import evaluate_spans
from fstcrf.model import CRF
from fstcrf.recipes.consistency.data import (
    AFFIXES,
    ELSEWHERE,
    SCHEME,
    TARGET,
    TEMPLATE,
    Data,
)
from fstcrf.recipes.recipe import Setting
from fstcrf.recipes.report import table

__all__ = ["VARIANTS", "ablation"]

TYPES = ("LOC", "ORG", "MISC", "PER")


@dataclass(frozen=True, slots=True)
class Variant:
    """A local model: its template, and options other than those of the recipe."""

    name: str
    template: str = TEMPLATE
    options: dict[str, Any] = field(default_factory=dict, hash=False)


def _without(*names: str) -> str:
    """Return the paper's features without some lines, named as in the template."""
    lines = TEMPLATE.splitlines(keepends=True)
    return "".join(line for line in lines if line.split(":")[0] not in names)


_WIDER = """\
UX0:%x[-2,pos]
UX1:%x[2,pos]
UX2:%x[-2..0,pos]/%x[0..2,pos]
UX3:%x[-2,short_shape(word)]
UX4:%x[2,short_shape(word)]
UX5:%x[-2..0,short_shape(word)]/%x[0..2,short_shape(word)]
"""
_ON_PAIRS = """\
BX0:%x[-1..0,pos]
BX1:%x[-1..0,short_shape(word)]
"""

VARIANTS = (
    Variant("of the paper"),
    Variant("the same, a weight for all labels", options={"features": "complete"}),
    *(Variant(f"the same, L2 {l2:g}", options={"l2": l2}) for l2 in (0.1, 0.5, 1.0)),
    Variant("the same, IOB2", options={"scheme": "iob2"}),
    Variant("the same, IOB1", options={"scheme": "iob1"}),
    Variant("the same, attributes of two tokens or more", options={"min_count": 2}),
    Variant("without character n-grams", _without("U1")),
    Variant("without other words", _without("U0", "U9", "U10") + "U0:%x[0,word]\n"),
    Variant("without shapes", _without("U5", "U6", "U7", "U8")),
    Variant("without parts of speech", _without("U2", "U3", "U4")),
    Variant("with tags and shapes two tokens away", TEMPLATE + _WIDER),
    Variant("with tags and shapes on pairs of labels", TEMPLATE + _ON_PAIRS),
    Variant("with lower case, affixes, pairs", TEMPLATE + AFFIXES),
    Variant("with the word's other places", TEMPLATE + ELSEWHERE),
    Variant("with both (more features)", TEMPLATE + AFFIXES + ELSEWHERE),
)


def ablation(setting: Setting, data: Data, l2: float) -> str:
    """Train all variants, score them on the dev file; the test file is not looked at."""
    rows = []
    for variant in VARIANTS:
        make = partial(_scores, setting, data, variant, l2)
        found = setting.kept(f"dev, {variant.name}", make, dict[str, float], (variant, l2))
        rows.append([variant.name, *(f"{100 * value:.2f}" for value in found.values())])
    return (
        "## Local models on the dev file\n\nF in %, Viterbi. What is not said is as in the table "
        f"above: L2 {l2:g}, BIOES, weights of the labels that an attribute occurs with.\n\n"
        + table(["features", *TYPES, "all"], rows)
    )


def _scores(setting: Setting, data: Data, variant: Variant, l2: float) -> dict[str, float]:
    """Return F of each type, and of all, in [0, 1]."""
    setting.say(f"consistency: dev file, features {variant.name}")
    options = {"scheme": SCHEME, "l2": l2, "seed": setting.seed, **variant.options}
    scheme = options["scheme"]
    train, dev = (convert_column(c, TARGET, SCHEME, scheme) for c in (data.train, data.dev))
    tagger = CRF.train(train, TARGET, variant.template, **options)
    report = evaluate_spans(dev.column_lists(TARGET), tagger.tag_all(dev))
    return {**{name: report.types[name].f for name in TYPES}, "all": report.overall.f}
