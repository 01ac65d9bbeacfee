"""The recipe ``seminars``: Table 2, Figure 2, `Host:` of Sutton and McCallum (2005)."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

import numpy as np

from fstcrf.arrays import Floats
from fstcrf.ext.significance import resampled_t
from fstcrf.recipes import seminars_systems as systems
from fstcrf.recipes.corpora import FIELDS, POLICIES, all_messages, scored
from fstcrf.recipes.experiment import Recipe, Setting
from fstcrf.recipes.message_features import MORE, PAPER
from fstcrf.recipes.news_transfer import transfer
from fstcrf.recipes.protocol import Protocol
from fstcrf.recipes.report import (
    Curve,
    Headline,
    Panel,
    Result,
    Row,
    draw,
    gain_over_splits,
    number,
    prose,
)
from fstcrf.taggers.pipelines import Pipeline, Task

SPLITS, SPLITS_FULL = 2, 10

TABLE_2 = {  # the paper's table 2: start time, end time, location, speaker, their mean
    "none": (99.1, 97.3, 81.0, 73.7, 87.8),
    "cascaded": (99.2, 96.0, 84.3, 74.2, 88.4),
    "joint": (99.1, 96.0, 85.3, 76.3, 89.2),
}

THEIRS = ("no transfer", "cascaded", "joint, λ = 1")
"""Systems of the paper: their figures appear once, not after every variant."""

PAIRS = (
    ("joint, λ = 1", "cascaded"),
    ("joint, λ tuned", "cascaded"),
    ("joint, chain", "cascaded"),
    ("joint, chosen with a grammar", "cascaded"),
    ("joint, chosen with a grammar", "no transfer, with that grammar"),
    ("no transfer, with that grammar", "no transfer"),
    ("cascaded", "no transfer"),
    ("marginals in training and decoding", "cascaded"),
    ("marginals in training, joint, that grammar", "cascaded"),
    (MORE.named("cascaded"), MORE.named("no transfer")),
    (MORE.named("joint, λ = 1"), MORE.named("cascaded")),
    (MORE.named("joint, chosen with a grammar"), MORE.named("cascaded")),
    (MORE.named("joint, chosen with a grammar"), MORE.named("no transfer, with that grammar")),
    (MORE.named("joint, chosen with a grammar"), "joint, chosen with a grammar"),
    (MORE.named("joint, with a grammar, fields agree"), MORE.named("joint, chosen with a grammar")),
)


def run(setting: Setting) -> Result:
    count = SPLITS_FULL if setting.full else SPLITS
    notes = setting.section(_notes(setting, count))
    messages = all_messages(setting)
    systems.check_splits(setting, messages, count)
    setting.course.until(0.1)
    common = systems.shared(setting, messages)
    protocol = Protocol(RECIPE.name, setting)
    setting.course.until(0.35 if setting.full else 0.6)
    splits = [
        [systems.MessageSplit(k, one, setting, common) for one in (PAPER, MORE)]
        for k in range(count)
    ]
    choices = {one.name: one.chosen(protocol) for few in setting.course.each(splits) for one in few}
    protocol.freeze()
    rows = systems.tagger_rows(setting, common, protocol)
    setting.course.until(0.6 if setting.full else 1.0)
    found = [_split(few, protocol, choices) for few in setting.course.each(splits)]
    setting.course.until(0.75 if setting.full else 1.0)
    rows += _rows(found)
    headline = _headline(found)
    first = [few[0] for few in splits]
    sections = [
        _table2(found),
        _significance(found),
        _proofs([one.unproven(protocol) for one in first]),
        _hosts(found),
        _choices(found, protocol),
    ]
    plots: list[str] = []
    if setting.full:
        setting.course.until(1.0)
        section, plots = _curve(setting, common)
        sections.append(section)
        more, lines, section = transfer(setting, common, protocol)
        rows += more
        headline += lines
        sections.append(section)
    return Result(rows, [*sections, notes], plots, headline)


def _split(
    several: Sequence[systems.MessageSplit],
    protocol: Protocol,
    choices: Mapping[str, systems.SplitChoice],
) -> systems.Measured:
    found = {}
    for one in several:
        outcome = one.measured(protocol, choices[one.name])
        found[one.features.name] = outcome
        one.setting.told(_of_split(one.name, outcome))
    return found


def _of_split(name: str, outcome: systems.SplitOutcome) -> Iterator[Row]:
    policy = outcome.chosen["policy"]
    for system, scores in outcome.scores.items():
        yield Row(f"{name}: {system}", "F overall, %", 100 * scores[f"overall/{policy}"])


def _scores(
    found: Sequence[systems.Measured], system: str, field: str, policy: str | None = None
) -> Floats:
    outcomes = [systems.SYSTEMS[system].outcome(measured) for measured in found]
    return 100 * np.asarray(
        [o.scores[system][f"{field}/{policy or o.chosen['policy']}"] for o in outcomes]
    )


def _means(
    found: Sequence[systems.Measured], system: str, policy: str | None = None
) -> list[float]:
    names = (*FIELDS, "overall")
    return [float(np.mean(_scores(found, system, name, policy))) for name in names]


def _rows(found: Sequence[systems.Measured]) -> Iterator[Row]:
    for system, kind in systems.SYSTEMS.items():
        means = _means(found, system)
        paper = (None,) * len(means) if kind.beside is None else TABLE_2[kind.beside]
        outcomes = [kind.outcome(measured) for measured in found]
        seconds = float(np.mean([o.seconds.get(system, np.nan) for o in outcomes]))
        for field, value, theirs in zip((*FIELDS, "overall"), means, paper, strict=True):
            took = seconds if field == "overall" and np.isfinite(seconds) else None
            yield Row(system, f"F, one {field} a message, %", value, theirs, took)
        tokens = 100 * float(np.mean([o.scores[system]["tokens"] for o in outcomes]))
        yield Row(system, "F of tokens, %", tokens)
        for policy in POLICIES:
            value = _means(found, system, policy)[-1]
            yield Row(system, f"F overall, {policy} value, %", value)
    for features, name in itertools.product((PAPER, MORE), ("alone", "transfer", "marginals")):
        row = f"training, {name}"
        times = [t for o in found if (t := o[features.name].seconds.get(row)) is not None]
        if times:
            yield Row(features.named(row), "seconds", float(np.mean(times)))


def _table2(found: Sequence[systems.Measured]) -> str:
    rows = []
    for system, kind in systems.SYSTEMS.items():
        rows.append([system, *(f"{f:.2f}" for f in _means(found, system))])
        if system in THEIRS and kind.beside is not None:
            rows.append([f"(paper: {kind.beside})", *map(number, TABLE_2[kind.beside])])
    return prose("seminars/table2", rows, splits=len(found))


def _significance(found: Sequence[systems.Measured]) -> str:
    if len(found) < 3:
        return "## Significance\n\nA t-test needs more splits: `--full`."
    rows = []
    for one, other in PAIRS:
        cells = [f"{one} − {other}"]
        for field in (*FIELDS, "overall"):
            apart = _scores(found, one, field) - _scores(found, other, field)
            cells.append(gain_over_splits(apart, test_share=_TEST_SHARE))
        rows.append(cells)
    return prose("seminars/significance", rows)


_TEST_SHARE = 0.5


def _headline(found: Sequence[systems.Measured]) -> list[Headline]:
    """Only the test half of the first split is clean for the further features."""
    lines = []
    for system in THEIRS:
        for field, place in (("speaker", 3), ("location", 2), ("overall", 4)):
            values = _scores(found, system, field)
            paper = TABLE_2[systems.SYSTEMS[system].beside or ""][place]
            ends = None
            if len(values) > 2:
                ends = resampled_t(values, test_share=_TEST_SHARE).interval
            name = f"{system}: {field}"
            lines.append(Headline(name, "F, %", tuple(values.tolist()), paper, ends))
    best = "joint, chosen with a grammar"
    for system in (best, MORE.named(best)):
        counts = systems.SYSTEMS[system].outcome(found[0]).counts(system)
        name = f"{system}, split 1 alone: overall"
        lines.append(Headline.of_f(name, "F, %", [counts], TABLE_2["joint"][4]))
    return lines


def _proofs(counts: Sequence[Sequence[int]]) -> str:
    unproven, answers = (sum(part) for part in zip(*counts, strict=True))
    return prose("seminars/proofs", unproven=unproven, answers=answers)


def _hosts(found: Sequence[systems.Measured]) -> str:
    total = sum(o[PAPER.name].host["all"] for o in found)
    rows = []
    for name, system in systems.SYSTEMS.items():
        counts = [system.outcome(o).host.get(name) for o in found]
        if None not in counts:
            rows.append([name, str(sum(n or 0 for n in counts)), str(total)])
    return prose("seminars/hosts", rows)


def _choices(found: Sequence[systems.Measured], protocol: Protocol) -> str:
    names = ("weight", "decoder", "grammar", "policy", "penalty")
    rows = [
        [features.name, str(k + 1), *(o[features.name].chosen.get(name, "") for name in names)]
        for features in (PAPER, MORE)
        for k, o in enumerate(found)
    ]
    return prose("seminars/choices", rows, statement=protocol.statement())


def _notes(setting: Setting, count: int) -> str:
    extent = "" if setting.full else " `--full` takes ten, and adds the learning curve."
    return prose("seminars/notes", count=count, seed=setting.seed, extent=extent)


SIZES = (50, 100, 150, 200, 242)
CURVE_SPLITS = 10
FIELD = "speaker"


def _curve(setting: Setting, common: systems.Shared) -> tuple[str, list[str]]:
    found = []  # [size, split, cascaded or joint], percent
    for size in setting.course.each(SIZES):
        splits = setting.course.each(range(CURVE_SPLITS))
        found.append([_kept(setting, common, size, k) for k in splits])
    points = 100.0 * np.asarray(found)
    rest = len(common.messages) - SIZES[-1]
    rows = [
        _learnt(size, few, test_share=rest / (rest + size))
        for size, few in zip(SIZES, points, strict=True)
    ]
    text = prose("seminars/curve", rows, field=FIELD, curve_splits=CURVE_SPLITS)
    plots = setting.drawn("learning.svg", partial(_draw, points.mean(axis=1).tolist()))
    return text, plots


def _learnt(size: int, values: Floats, *, test_share: float) -> list[str]:
    cells = [f"{part.mean():.2f} ± {part.std(ddof=1):.2f}" for part in values.T]
    gain = gain_over_splits(values[:, 1] - values[:, 0], test_share=test_share)
    return [str(size), *cells, gain]


def _kept(setting: Setting, common: systems.Shared, size: int, k: int) -> tuple[float, float]:
    name = f"learning curve, {size} messages, split {k + 1}"
    make = partial(_point, setting, common, size, k)
    return setting.kept(name, make, tuple[float, float], about=(PAPER, systems.declared(PAPER)))


def _point(setting: Setting, common: systems.Shared, size: int, k: int) -> tuple[float, float]:
    setting.say(f"seminars: learning curve, {size} messages, split {k + 1}")
    one = systems.split(len(common.messages), setting.seed, k)
    chosen = np.sort(np.random.default_rng([setting.seed, k, size]).permutation(one.train)[:size])
    test = common.messages.select(one.test)
    words, gold = test.column_lists("word"), test.column_lists("field")
    train = common.messages.select(chosen)
    task = Task("field", train, PAPER.transfer, reads=["ner"], options=PAPER.options)
    pipeline = Pipeline([common.plain, task], normalize="product").train()

    def f(labels: Sequence[Sequence[str]]) -> float:
        return scored(words, gold, labels)[FIELD].f

    cascaded, joint = (
        f([fields for _, fields in pipeline.tag_all(test, decode=how)])
        for how in ("cascade", "joint")
    )
    return cascaded, joint


def _draw(found: Sequence[Sequence[float]], path: Path) -> None:
    curves = [
        Curve(name, SIZES, [point[how] for point in found])
        for how, name in enumerate(("cascaded", "joint"))
    ]
    draw(path, [Panel(f"F of the {FIELD}, %", curves)], "training messages", size=(6, 4))


RECIPE = Recipe(
    "seminars",
    "Seminar announcements: a field tagger alone, after an entity tagger, and with it",
    needs=(
        "seminars/docs/*.txt",
        "conll2003/eng.train",
        "conll2003/eng.testb",
        "ud_english_ewt/*train.conllu",
        "ud_english_ewt/*test.conllu",
    ),
    paper="Sutton and McCallum (2005)",
    run=run,
    packages=("scipy", "matplotlib"),
)
