"""The recipe ``mce``: tables 1 and 2 of Suzuki, McDermott and Isozaki (2006).

The penalty of the paper is |weights|² / 2C. The likelihood and the count of sentences have it as it
is, l2 = 1 / 2C. F of segments has a ratio in the paper and that ratio times M = 2 · gold segments
here (`fstcrf.train.errors`), so that l2 = M / 2C.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal, TypeVar

import numpy as np

from fstcrf.arrays import Longs
from fstcrf.calibration import lattices_of
from fstcrf.corpus import Corpus, convert_column
from fstcrf.evaluate import compare
from fstcrf.evaluate.significance import SpanCounts, bootstrapped_f, span_counts
from fstcrf.joint import CRF
from fstcrf.recipes import corpora
from fstcrf.recipes.experiment import THREADS, Recipe, Setting
from fstcrf.recipes.probabilities import Worth, worth, worth_table
from fstcrf.recipes.protocol import SEEDS, Protocol, over_seeds
from fstcrf.recipes.report import Headline, Result, Row, gain, number, table

T = TypeVar("T")

# --- Tasks ----------------------------------------------------------------------------------------

_HELD_OUT = 2000

# Kudo and Matsumoto (2001), and pairs of neighbours of one kind in a window of five. Chosen on the
# dev parts: no pairs of neighbours' affixes, no pairs of what does not stand side by side.
_CHUNKING = ("word", "pos")
_AFFIXES = tuple(f"{kind}(word,{n})" for n in range(1, 5) for kind in ("prefix", "suffix"))
_ENTITIES = ("word", "pos", "chunk", "charclass(word)", "short_shape(word)")

_Scheme = Literal["iob2", "bioes"]


@dataclass(frozen=True, slots=True)
class Tagset:
    """What labels are, and what a span's measure looks at."""

    scheme: _Scheme
    span_end: Literal["inside", "next"]


@dataclass(frozen=True, slots=True)
class LabellingTask:
    """A task, without its test part."""

    name: str
    target: str  # column of the labels
    template: str
    rate: float  # first step of stochastic epochs: about half over the attributes of a token
    tagset: Tagset
    train: Corpus  # all to train on
    part: Corpus  # those to train on while something is chosen
    dev: Corpus  # those to choose by

    @property
    def apart(self) -> bool:
        """Is the dev part no training data in the end."""
        return self.part is self.train


def chunking(setting: Setting, tagset: Tagset) -> LabellingTask:
    """Read the training file of CoNLL-2000; its last 2,000 sentences are the dev part."""
    train = convert_column(corpora.chunk_file(setting, "train"), "chunk", "iob2", tagset.scheme)
    cut = max(len(train) - _HELD_OUT, len(train) // 2)
    template = _template(_CHUNKING)
    return LabellingTask(
        "chunking", "chunk", template, 0.03, tagset, train, train[:cut], train[cut:]
    )


def entities(setting: Setting, tagset: Tagset) -> LabellingTask:
    """Read ``eng.train`` and ``eng.testa``, the dev part, of CoNLL-2003."""
    train, dev = (
        corpora.entities(setting, part, tagset.scheme, "entity") for part in ("train", "testa")
    )
    template = _template(_ENTITIES, _AFFIXES)
    return LabellingTask("entities", "entity", template, 0.006, tagset, train, train, dev)


_Read = Callable[[Setting, Tagset], LabellingTask]
TASKS: Mapping[str, _Read] = {"chunking": chunking, "entities": entities}


def read_test(task: LabellingTask, setting: Setting) -> Corpus:
    """Read the test part."""
    if task.name == "entities":
        return corpora.entities(setting, "testb", task.tagset.scheme, task.target)
    corpus = corpora.chunk_file(setting, "test")
    return convert_column(corpus, task.target, "iob2", task.tagset.scheme)


def _template(sources: tuple[str, ...], alone: tuple[str, ...] = ()) -> str:
    """Return a window of each source, and of pairs of all but those that stand alone."""
    lines = [f"U{k}a:%x[-2..2,{source}]" for k, source in enumerate(sources + alone)]
    lines += [f"U{k}b:%x[-2..1,{source}]/%x[-1..2,{source}]" for k, source in enumerate(sources)]
    return "\n".join([*lines, "B"])


# --- Systems --------------------------------------------------------------------------------------

# Without epochs of drawn sentences before it, so that likelihood is trained in one way only.
_LIKELIHOOD: dict[str, Any] = {"objective": "likelihood", "delta": 1e-4, "stochastic_epochs": 0}
_FROM_ZERO, _FROM_MAP = (40, 80, 120), (10, 20, 40)  # numbers of iterations to choose from
_PATIENCE = 20  # iterations without a gain on dev after which a course is not followed further
_STARTS = (2.5, 1.0, 0.5, 0.25)
"""C of the MAP that others may start from: l2 0.2, 0.5, 1, 2."""
_TAGSETS: list[dict[str, Any]] = [
    {"scheme": "bioes", "span_end": "inside"},
    {"scheme": "iob2", "span_end": "inside"},
    {"scheme": "iob2", "span_end": "next"},
]


@dataclass(frozen=True, slots=True)
class Choice:
    """What was chosen on the dev part."""

    C: float | None  # of the penalty |weights|² / 2C of the paper; None for no penalty
    iterations: int | None = None  # None for as many as convergence takes
    start: float | None = None  # C of the MAP that it starts from; None: from zero


def _errors(objective: str, **options: Any) -> dict[str, Any]:
    return {"objective": objective, "method": "quickprop", "delta": 1e-4, "epsilon": 0.0, **options}


@dataclass(frozen=True, slots=True)
class System:
    """An objective, and where it starts."""

    name: str
    options: dict[str, Any]  # of `CRF.train`
    # F and share of right sentences in the paper, in percent, of each task
    paper: dict[str, tuple[float, float]]
    given: dict[str, Choice]  # what a short run takes
    grid: tuple[float, ...]  # values of C to choose from
    iterations: tuple[int, ...] = ()  # numbers of iterations to choose from
    from_map: bool = False  # it starts from the weights of MAP rather than from zero
    quick: bool = False  # it is part of the short run

    @property
    def is_likelihood(self) -> bool:
        """Is it trained for likelihood, not for few errors."""
        return bool(self.options["objective"] == "likelihood")

    @property
    def seeds(self) -> int:
        """Runs of a full measurement: what begins at zero begins with epochs that are drawn."""
        return 1 if self.is_likelihood or self.from_map else SEEDS


def _each(chunking: T, entities: T) -> dict[str, T]:
    return {"chunking": chunking, "entities": entities}


_MCE, _MCE_F = (10.0, 100.0, 1000.0), (1e4, 1e5, 1e6, 1e7)

SYSTEMS = (
    System(
        "ML", _LIKELIHOOD, _each((93.19, 56.26), (82.39, 75.71)),
        _each(Choice(None, 150), Choice(None, 150)), (),
    ),
    System(
        "MAP", _LIKELIHOOD, _each((93.71, 59.15), (83.79, 77.39)),
        _each(Choice(5.0), Choice(2.5)), (10.0, 5.0, *_STARTS), quick=True,
    ),
    System(
        "MCE (log)", _errors("mce", smoothing="logistic"), _each((93.92, 60.19), (84.30, 78.02)),
        _each(Choice(10.0, 80), Choice(10.0, 80)), _MCE, _FROM_ZERO,
    ),
    System(
        "MCE (sig)", _errors("mce"), _each((93.85, 60.14), (83.82, 77.52)),
        _each(Choice(10.0, 80), Choice(10.0, 80)), _MCE, _FROM_ZERO,
    ),
    System(
        "MCE-F (sig)", _errors("mce-f"), _each((93.96, 60.44), (84.72, 78.72)),
        _each(Choice(1e7, 80), Choice(1e6, 80)), _MCE_F, _FROM_ZERO,
    ),
    System(
        "MCE (sig) from MAP", _errors("mce"), _each((93.97, 60.59), (84.57, 77.71)),
        _each(Choice(10.0, 10, 0.5), Choice(10.0, 10, 0.5)), _MCE, _FROM_MAP, from_map=True,
    ),
    System(
        "MCE-F (sig) from MAP", _errors("mce-f"), _each((94.03, 60.74), (85.29, 79.26)),
        _each(Choice(1e7, 20, 0.5), Choice(1e6, 20, 0.5)), _MCE_F, _FROM_MAP, from_map=True,
        quick=True,
    ),
)  # fmt: skip
"""The systems of the paper's tables."""
LIKELIHOOD = SYSTEMS[1]
"""What the others are compared with, and start from: MAP."""
_PROBE = SYSTEMS[-1]
"""What labels are chosen with."""


def penalty(system: System, task: LabellingTask, corpus: Corpus, c: float | None) -> float:
    """Return l2 of a C of the paper; for F of segments it grows with those of the corpus."""
    if c is None:
        return 0.0
    if system.options["objective"] != "mce-f":
        return 1.0 / (2.0 * c)
    labels = corpus.column_lists(task.target)
    return 2.0 * int(span_counts(labels, labels).wanted.sum()) / (2.0 * c)


def _options(
    system: System, task: LabellingTask, corpus: Corpus, choice: Choice, seed: int
) -> dict[str, Any]:
    """Return the options of `CRF.train`, but for the start."""
    options: dict[str, Any] = {
        "scheme": task.tagset.scheme,
        "l2": penalty(system, task, corpus, choice.C),
        "seed": seed,
        "features": "complete",
        "threads": THREADS,
        **system.options,
    }
    if system.options["objective"] == "mce-f":
        options["span_end"] = task.tagset.span_end
    if not system.is_likelihood and choice.start is None:
        # With larger steps the first sentences push scores so far apart that a sigmoid has no slope
        # left there, and what is wrong stays wrong.
        options |= {"calibration_rate": task.rate, "calibration_trials": 1}
    if choice.iterations is not None:
        options["max_iterations"] = choice.iterations
    return options


# --- Training -------------------------------------------------------------------------------------


_REMEMBERED = 2  # models of MAP, 0.2 GB each of entities; the others are kept in files


class TaskTrainer:
    """The models of one task: those of MAP that others start from are trained once.

    Parameters
    ----------
    task : LabellingTask
    setting : Setting
    """

    def __init__(self, task: LabellingTask, setting: Setting) -> None:
        self.task, self._setting = task, setting
        self._starts: dict[tuple[float | None, int, int], tuple[CRF, float]] = {}

    def likelihood(self, c: float | None, corpus: Corpus, seed: int) -> tuple[CRF, float]:
        """Return the model of MAP with a penalty, and the seconds of its training."""
        key = c, len(corpus), seed
        if key not in self._starts:
            task, setting = self.task, self._setting
            options = _options(LIKELIHOOD, task, corpus, Choice(c), seed)
            name = f"{task.name}, MAP, C {c}, {len(corpus)} sentences, seed {seed}"
            make = partial(_timed, task, corpus, options)
            found = setting.trained(name, make, float, (task.tagset, task.template))
            if len(self._starts) >= _REMEMBERED:
                self._starts.pop(next(iter(self._starts)))
            self._starts[key] = found
        return self._starts[key]

    def trained(self, system: System, choice: Choice, seed: int) -> tuple[CRF, float]:
        """Train a system on all training sentences; return it and its seconds."""
        task = self.task
        if system is LIKELIHOOD:
            return self.likelihood(choice.C, task.train, seed)
        options = _options(system, task, task.train, choice, seed)
        if choice.start is not None:
            options["warm_start"] = self.likelihood(choice.start, task.train, seed)[0]
        return _timed(task, task.train, options)

    def held_out(self, system: System, choice: Choice, longest: int | None = None) -> float:
        """Return F on the dev part, percent, of the first seed; `longest` as of `course`."""
        if system is LIKELIHOOD:
            model, _ = self.likelihood(choice.C, self.task.part, self._setting.seed)
            return corpora.span_f(self.task.dev, self.task.target, model.tag_all(self.task.dev))
        course = self.course(system, choice, longest)
        return course[min(choice.iterations or len(course), len(course)) - 1]

    def course(self, system: System, choice: Choice, longest: int | None = None) -> list[float]:
        """Return F on the dev part after each iteration, until `_PATIENCE` of them gain nothing.

        At most `longest` of them; None for as many as there are to choose from.
        """
        task, choice = self.task, replace(choice, iterations=longest or max(system.iterations))
        scores: list[float] = []

        def train() -> list[float]:
            options = _options(system, task, task.part, choice, self._setting.seed)
            if choice.start is not None:
                start, _ = self.likelihood(choice.start, task.part, self._setting.seed)
                options["warm_start"] = start
            CRF.train(
                task.part,
                task.target,
                task.template,
                dev=task.dev,
                patience=_PATIENCE,
                report=lambda progress: scores.append(100.0 * (progress.dev or 0.0)),
                **options,
            )
            return scores

        name = f"{task.name}, {system.name}, C {choice.C}, start {choice.start}, course"
        about = (system.options, choice, task.tagset, task.template, _PATIENCE)
        return self._setting.kept(name, train, list[float], about)


def _timed(task: LabellingTask, corpus: Corpus, options: dict[str, Any]) -> tuple[CRF, float]:
    began = time.perf_counter()
    model = CRF.train(corpus, task.target, task.template, **options)
    return model, time.perf_counter() - began


# --- Choices --------------------------------------------------------------------------------------


def chosen_tagset(
    protocol: Protocol, name: str, setting: Setting, candidates: Sequence[Mapping[str, Any]]
) -> LabellingTask:
    """Choose labels, by what MCE-F from MAP can reach at C in the middle of the grids."""

    def held_out(settings: Mapping[str, Any]) -> float:
        trainer = TaskTrainer(TASKS[name](setting, Tagset(**settings)), setting)
        return max(trainer.course(_PROBE, Choice(_middle(_PROBE), None, _middle_start())))

    about = _PROBE.options, _CHUNKING, _AFFIXES, _ENTITIES  # what templates are made of
    found: Mapping[str, Any] = protocol.choose(f"{name}, labels", candidates, held_out, about)
    return TASKS[name](setting, Tagset(**found))


def chosen(
    protocol: Protocol, system: System, trainer: TaskTrainer, about: object, *, full: bool
) -> Choice:
    """Choose the penalty, the start and the number of iterations of a system."""
    task = trainer.task
    name = f"{task.name}, {system.name}"
    if not full or not system.grid:
        given = system.given[task.name]
        return _made(protocol.choose(name, [_settings(given)], lambda _: 0.0))
    start = None
    if system.from_map:
        starts = [_settings(Choice(_middle(system), None, c)) for c in _STARTS]
        best = _made(
            protocol.choose(
                f"{name}, start",
                starts,
                lambda settings: max(trainer.course(system, _made(settings))),
                about,
            )
        )
        start = best.start
    grid = system.grid
    if system.iterations and start is None:  # C by the first iterations, then how many
        first = min(system.iterations)
        few = [_settings(Choice(c, first)) for c in grid]
        found = protocol.choose(
            f"{name}, C", few, lambda s: trainer.held_out(system, _made(s), first), about
        )
        grid = (_made(found).C or grid[0],)
    candidates = [
        _settings(Choice(c, iterations, start))
        for c in grid
        for iterations in system.iterations or (None,)
    ]
    found = protocol.choose(
        name, candidates, lambda settings: trainer.held_out(system, _made(settings)), about
    )
    return _made(found)


def _settings(choice: Choice) -> dict[str, Any]:
    return {"C": choice.C, "start": choice.start, "iterations": choice.iterations}


def _made(settings: Mapping[str, Any]) -> Choice:
    return Choice(**settings)


def _middle(system: System) -> float:
    return system.grid[(len(system.grid) - 1) // 2]


def _middle_start() -> float:
    return _STARTS[len(_STARTS) // 2]


# --- Test -----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Measured:
    """What a system of one seed gives on the test part."""

    l2: float
    labels: list[list[str]]
    objective: float | None  # where training ended
    seconds: float  # of training, without that of its start
    worth: Worth | None  # of its probabilities; of the first seed


def measured(
    trainer: TaskTrainer,
    system: System,
    choice: Choice,
    test: Corpus,
    *,
    probabilities: bool,
    seed: int,
) -> Measured:
    """Train a system from a seed, and tag the test part."""
    task = trainer.task
    model, seconds = trainer.trained(system, choice, seed)
    found = None
    if probabilities:
        lattices, gold = (partial(_lattices, model), partial(_gold, task.target))
        other = (lattices(task.dev), gold(task.dev)) if task.apart else None
        found = worth(lattices(test), gold(test), other, threads=THREADS)
    objective = None if model.record is None else model.record.objective
    labels = model.tag_all(test, threads=THREADS)
    l2 = penalty(system, task, task.train, choice.C)
    return Measured(l2, labels, objective, seconds, found)


def _lattices(model: CRF, corpus: Corpus) -> Any:
    return lattices_of(model, corpus, threads=THREADS)


def _gold(target: str, corpus: Corpus) -> list[list[str]]:
    return corpus.column_lists(target)


def sentence_counts(
    test: Corpus, target: str, labels: Sequence[Sequence[str]], *, document_lines: bool
) -> SpanCounts:
    """Count right sentences so that F of the counts is their share.

    Parameters
    ----------
    test, target, labels
        The answers.
    document_lines : bool
        Count lines that begin a document, ``-DOCSTART-``, as sentences with a right label.
    """
    right = [a == b for a, b in zip(test.column_lists(target), labels, strict=True)]
    lines = sum(map(bool, test.document_headers)) if document_lines else 0
    hits = np.asarray(right + [True] * lines, dtype=np.int64)
    return SpanCounts(hits, np.ones_like(hits), np.ones_like(hits))


def documents_of(test: Corpus) -> Longs | None:
    """Return the number of each sentence's document, from 0; None where there is but one."""
    numbers = np.unique(test.documents, return_inverse=True)[1].astype(np.int64)
    return numbers if len(numbers) and numbers.max() > 0 else None


# --- The run --------------------------------------------------------------------------------------


def run(setting: Setting) -> Result:
    """Choose the settings of all systems on both tasks, freeze them, and only then test."""
    protocol, full = Protocol(RECIPE.name, setting), setting.full
    systems = [system for system in SYSTEMS if full or system.quick]
    plans = []
    setting.course.until(0.6 if full else 0.05)
    for name in setting.course.each(TASKS):
        task = chosen_tagset(protocol, name, setting, _TAGSETS if full else _TAGSETS[:1])
        trainer, about = TaskTrainer(task, setting), (task.tagset, task.template)
        choices = {
            system.name: chosen(protocol, system, trainer, (about, system.options), full=full)
            for system in setting.course.each(systems)
        }
        plans.append((trainer, choices))
    protocol.freeze()
    setting.course.until(1.0)
    found = [
        _tested(protocol, trainer, choices, systems, setting)
        for trainer, choices in setting.course.each(plans)
    ]
    return Result(
        [row for one in found for row in one.rows],
        [
            _reading(full=full),
            *(part for one in found for part in one.sections),
            protocol.section(),
        ],
        headline=[line for one in found for line in one.headline],
    )


def _tested(
    protocol: Protocol,
    trainer: TaskTrainer,
    choices: Mapping[str, Choice],
    systems: Sequence[System],
    setting: Setting,
) -> Result:
    """Train and test the systems on one task."""
    task = trainer.task
    test = protocol.test(partial(read_test, task, setting))
    rows: list[Row] = []
    found: dict[str, list[Measured]] = {}
    for system in setting.course.each(systems):
        choice = choices[system.name]
        name = f"{task.name}, {system.name}"
        setting.say(f"mce: {name}")

        def make(seed: int, system: System = system, choice: Choice = choice) -> Measured:
            first = seed == setting.seed
            return measured(trainer, system, choice, test, probabilities=first, seed=seed)

        about = (system.options, choice, task.tagset, task.template)
        seeds = system.seeds if setting.full else 1
        runs = over_seeds(setting, name, make, Measured, seeds=seeds, about=about)
        found[system.name] = runs
        rows += setting.rows(f"{name}, rows", partial(_rows, task, test, system.name, runs), about)
    first = {name: runs[0].worth for name, runs in found.items()}
    known = {name: one for name, one in first.items() if one is not None}
    sections = [
        _choices(task, choices, found),
        _significance(task, test, found, setting.seed),
        f"## Probabilities, {task.name}\n\n{worth_table(known)}",
    ]
    if setting.full:
        sections.append(_labels(protocol, task, choices, setting))
    lines = [line for s in systems for line in _headline(task, test, s, found[s.name])]
    return Result(rows, sections, headline=lines)


def _labels(
    protocol: Protocol, task: LabellingTask, choices: Mapping[str, Choice], setting: Setting
) -> str:
    """Tell what each labelling gives, with the settings that were chosen for one of them."""

    def figure(tagset: Tagset, system: System) -> str:
        other, choice = TASKS[task.name](setting, tagset), choices[system.name]
        test = protocol.test(partial(read_test, other, setting))
        name = f"{task.name}, {system.name}, {tagset.scheme}, {tagset.span_end}"

        def make() -> float:
            setting.say(f"mce: {name}")
            model, _ = TaskTrainer(other, setting).trained(system, choice, setting.seed)
            return corpora.span_f(test, task.target, model.tag_all(test, threads=THREADS))

        about = (system.options, choice, tagset, task.template)
        return number(setting.kept(name, make, float, about))

    body, ends = [], {"inside": "inside its tokens", "next": "where the next label says so"}
    for tagset in (Tagset(**settings) for settings in _TAGSETS):
        title = f"{tagset.scheme.upper()}, a span ends {ends[tagset.span_end]}"
        figures = (figure(tagset, system) for system in (LIKELIHOOD, _PROBE))
        body.append([title, *figures, "chosen" if tagset == task.tagset else ""])
    head = ["F, test, %", LIKELIHOOD.name, _PROBE.name, ""]
    return (
        f"## Labels, {task.name}\n\n"
        "What labels give, with the settings of those that held-out data chose; read after the "
        f"choice:\n\n{table(head, body)}"
    )


_SENTENCES, _LINES = "sentences right, test, %", "sentences right, with document lines, test, %"


def _rows(task: LabellingTask, test: Corpus, name: str, runs: Sequence[Measured]) -> Iterator[Row]:
    f, _ = _paper(name, task)
    for k, one in enumerate(runs):
        title = f"{task.name}: {name}" + (f", run {k + 1}" if len(runs) > 1 else "")
        right = partial(sentence_counts, test, task.target, one.labels)
        yield Row(title, "F, test, %", _f(task, test, one), f, one.seconds)
        yield Row(title, _SENTENCES, 100.0 * right(document_lines=False).f)
        if any(test.document_headers):
            yield Row(title, _LINES, 100.0 * right(document_lines=True).f)


def _paper(name: str, task: LabellingTask) -> tuple[float, float]:
    return next(one for one in SYSTEMS if one.name == name).paper[task.name]


def _f(task: LabellingTask, test: Corpus, one: Measured) -> float:
    return corpora.span_f(test, task.target, one.labels)


def _headline(
    task: LabellingTask, test: Corpus, system: System, runs: Sequence[Measured]
) -> Iterator[Headline]:
    """Yield F, by resampled documents, and right sentences as the paper counts them."""
    name, (f, sentences) = f"{task.name}: {system.name}", _paper(system.name, task)
    counts = _span_counts(task, test, runs)
    yield Headline(
        name,
        "F, %",
        tuple(_f(task, test, one) for one in runs),
        f,
        _percent(bootstrapped_f(counts)),
    )
    right = [sentence_counts(test, task.target, one.labels, document_lines=True) for one in runs]
    shares = tuple(100.0 * one.f for one in right)
    ends = _percent(bootstrapped_f(right, resamples=1999))
    yield Headline(name, "sentences right, %", shares, sentences, ends)


def _span_counts(task: LabellingTask, test: Corpus, runs: Sequence[Measured]) -> list[SpanCounts]:
    gold, documents = test.column_lists(task.target), documents_of(test)
    counts = [span_counts(gold, one.labels) for one in runs]
    return counts if documents is None else [one.grouped(documents) for one in counts]


def _percent(ends: tuple[float, float]) -> tuple[float, float]:
    return 100.0 * ends[0], 100.0 * ends[1]


# --- Text -----------------------------------------------------------------------------------------


def _reading(*, full: bool) -> str:
    how = "in this run" if full else "before this run"
    runs = "one run"
    if full:
        runs = f"{SEEDS} runs from different seeds where a system begins at zero, else one run"
    return (
        "## How to read this\n\n"
        "F is that of spans, as conlleval counts. ML and MAP maximise the likelihood, without and "
        "with an L2 penalty; MCE minimises a smooth count of wrong sentences, MCE-F maximises a "
        "smooth F of segments; psi is infinite, alpha 1, beta 0, gamma 1. They are trained by "
        "QuickProp: from zero, after ten epochs of stochastic descent, or from the weights of "
        "MAP, whose training is not part of their seconds. C is the paper's: l2 = 1 / 2C, for "
        "MCE-F (gold segments) / C. Settings were chosen "
        f"{how}, on held-out data: the last 2,000 training sentences of CoNLL-2000, after which "
        "all of them are trained on, and testa of CoNLL-2003. A start is chosen first, then C and "
        "the number of iterations, from zero the one after the other; no course is followed after "
        f"{_PATIENCE} without a gain. Figures are means over {runs}; intervals are by resampled "
        "documents (CoNLL-2000 has none: sentences) and runs. The lines `-DOCSTART-` of CoNLL-2003 "
        "count as right sentences in the first table, as they do among the paper's 3,684; "
        "*All rows* has both."
    )


def _choices(
    task: LabellingTask, choices: Mapping[str, Choice], found: Mapping[str, Sequence[Measured]]
) -> str:
    body = []
    for name, runs in found.items():
        choice = choices[name]
        start = "" if choice.start is None else f"MAP, l2 {0.5 / choice.start:g}"
        ends = "to convergence" if choice.iterations is None else str(choice.iterations)
        c = "" if choice.C is None else f"{choice.C:g}"
        body.append([name, c, f"{runs[0].l2:.3g}", start, ends, number(runs[0].objective)])
    head = ["", "C", "l2", "start", "iterations", "objective reached"]
    labels = f"Labels are in {task.tagset.scheme.upper()}"
    labels += {"inside": ".", "next": "; a span ends where the next label says so."}[
        task.tagset.span_end
    ]
    return f"## Settings, {task.name}\n\n{labels}\n\n{table(head, body)}"


def _significance(
    task: LabellingTask, test: Corpus, found: Mapping[str, Sequence[Measured]], seed: int
) -> str:
    """Compare every system with ML and with MAP: the first runs, and F of all."""
    gold, documents = test.column_lists(task.target), documents_of(test)
    body = []
    for name, runs in found.items():
        for other in ("ML", "MAP"):
            if other not in found or name in ("ML", other):
                continue
            mine, theirs = runs[0].labels, found[other][0].labels
            pair = compare(gold, mine, theirs, documents=documents, resamples=1999, seed=seed)
            chances = pair.tokens.exact, pair.sentences.exact, pair.randomised
            ends = bootstrapped_f(
                _span_counts(task, test, runs),
                _span_counts(task, test, found[other]),
                resamples=1999,
                seed=seed,
            )
            low, high = _percent(ends)
            every = f"{low:+.2f} to {high:+.2f}"
            body.append([f"{name} − {other}", gain(pair), every, *(f"{p:.3g}" for p in chances)])
    head = ["", "F (95 % interval)", "interval with all runs"]
    head += ["McNemar, tokens", "sentences", "randomised F"]
    return (
        f"## Significance, {task.name}\n\n"
        "The gain in F, and p-values; of the first runs, but for the interval with all:\n\n"
        f"{table(head, body)}"
    )


RECIPE = Recipe(
    "mce",
    "Chunking and entities trained on smooth counts of errors, and on F",
    needs=(
        "conll2000/train.txt",
        "conll2000/test.txt",
        "conll2003/eng.train",
        "conll2003/eng.testa",
        "conll2003/eng.testb",
    ),
    paper="Suzuki et al. (2006)",
    run=run,
    packages=("scipy",),
)
