"""Lines of a report, what they must reach, and how they are written."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from tests.benchmarks.door_table import DOORS
from tests.benchmarks.machine import Machine

Verdict = Literal["aim", "must", "missed", "failed", "skipped", "measured", "not judged"]

PEER = "python-crfsuite"


@dataclass(frozen=True, slots=True)
class Limit:
    """What a line must reach, and what it should.

    Parameters
    ----------
    kind : {"ratio", "most", "least"}
        Of what: times better than the peer, at least; our own number, at most or at least.
    must : float
    aim : float, optional
    """

    kind: Literal["ratio", "most", "least"]
    must: float
    aim: float | None = None

    def reached(self, value: float, wanted: float) -> bool:
        """Is a value as good as what is wanted of it."""
        return value <= wanted if self.kind == "most" else value >= wanted

    def text(self, wanted: float | None) -> str:
        """Return what is wanted as a cell of a table."""
        if wanted is None:
            return ""
        sign = "≤" if self.kind == "most" else "≥"
        return f"{sign} {wanted:,g}{'×' if self.kind == 'ratio' else ''}"


LIMITS = {
    "cliffs-worst": Limit("most", 2, 1.25),
    "cliffs-lost": Limit("most", 0),
    "cliffs-grammars": Limit("most", 2, 1.25),
    "cliffs-chain-2": Limit("most", 1.5, 1.2),
    "cliffs-chain-3": Limit("most", 8, 4),
    "cliffs-chain-five": Limit("most", 3),
    "cliffs-chain-tape": Limit("most", 4),
    "cliffs-chain-alone": Limit("most", 4),
    "cliffs-spans": Limit("most", 4, 2),
    "cliffs-span-tagging": Limit("most", 3, 1.5),
    **{
        f"doors-{name}": Limit("most", door.limit)
        for name, door in DOORS.items()
        if door.limit is not None
    },
    "evaluation-1": Limit("ratio", 4, 6),
    "evaluation-2": Limit("ratio", 6, 10),
    "iteration-1": Limit("ratio", 4, 6),
    "iteration-2": Limit("ratio", 6, 10),
    "training-1": Limit("ratio", 9, 12),
    "training-2": Limit("ratio", 12, 18),
    "asgd": Limit("ratio", 6, 12),
    "asgd-f1": Limit("least", 93.6),
    "labels-340": Limit("ratio", 28, 50),
    "rich-evaluation": Limit("ratio", 6, 15),
    "rich-tagging": Limit("ratio", 3, 6),
    "rich-evaluation-340": Limit("ratio", 1),
    "rich-tagging-340": Limit("ratio", 3, 6),
    "rich-marginals": Limit("ratio", 6, 15),
    "rich-nbest": Limit("ratio", 2, 6),
    "rich-sentence": Limit("ratio", 1.5, 3),
    "rich-composition": Limit("ratio", 2, 3),
    "slowest-step": Limit("most", 2, 1),
    "objective-1": Limit("most", 1.0001),
    "objective-2": Limit("most", 1.0001),
    "memory-1": Limit("most", 230, 200),
    "memory-2": Limit("most", 230, 200),
    "tagging-1": Limit("ratio", 8, 12),
    "start-api": Limit("most", 0.3, 0.15),
    "start-cli": Limit("most", 0.2, 0.15),
    "complete-f1": Limit("least", 93.80),
    "complete-memory": Limit("most", 800, 500),
    "pos-1": Limit("ratio", 4, 8),
    # Linear: a token of a corpus 16 times as large costs what it did, but for caches and noise.
    "growth-training": Limit("most", 1.25),
    "growth-tagging": Limit("most", 1.25),
    "constrained": Limit("ratio", 80),
    "joint-22x9": Limit("ratio", 1000),
    "joint-45x22": Limit("least", 5000),
    "joint-45x22-marginals": Limit("least", 2000),
    "nbest-10": Limit("least", 60000),
    "product-over-cascade": Limit("most", 4),
    "chain-over-cascade": Limit("most", 2, 1.5),
    "addresses": Limit("ratio", 2, 4),
    "addresses-again": Limit("ratio", 2, 8),
    "addresses-search": Limit("least", 60000),
    "addresses-pops": Limit("most", 2),
    "adversarial-states": Limit("most", 200_000),
    "arrays-22": Limit("ratio", 12, 25),
    "arrays-22-numpy": Limit("ratio", 8, 15),
    "arrays-9": Limit("ratio", 10, 20),
    "arrays-9-numpy": Limit("ratio", 3, 6),
    "arrays-long": Limit("ratio", 80),
    "arrays-long-python": Limit("ratio", 120),
    "arrays-loss-22": Limit("ratio", 5, 10),
    "arrays-loss-9": Limit("ratio", 4, 8),
    "arrays-spans": Limit("most", 3, 1.5),
    "inspect-single": Limit("most", 100, 50),
    "inspect-together": Limit("most", 200, 100),
    "scaling-tagging": Limit("least", 1.8),
    "scaling-workers": Limit("least", 1.7),
    "scaling-overhead": Limit("most", 1.1),
    "scaling-limit": Limit("most", 1.5),
    "threads": Limit("most", 0),
    "variants": Limit("most", 1e-6),
}


@dataclass(slots=True)
class Line:
    """One measured comparison."""

    key: str  # names its limit, if it has one
    work: str  # what was done
    ours: float | None = None  # medians, in `unit`
    peer: float | None = None  # medians, in `unit`
    unit: str = ""
    more_is_better: bool = False  # or less
    digits: int = 2  # after the point, where the number is between 1 and 100
    note: str = ""
    peer_name: str = PEER
    error: str | None = None  # why there is no number, or why it does not count
    skipped: str | None = None  # why it was not compared; no failure
    samples: dict[str, Any] = field(default_factory=dict)  # what was measured, run after run

    @property
    def ratio(self) -> float | None:
        """How many times better than the peer."""
        if not self.ours or not self.peer:
            return None
        return self.ours / self.peer if self.more_is_better else self.peer / self.ours

    def verdict(self) -> Verdict:
        """Return what was reached."""
        if self.error is not None:
            return "failed"
        if self.skipped is not None:
            return "skipped"
        limit = LIMITS.get(self.key)
        if limit is None:
            return "measured"
        value = self.ratio if limit.kind == "ratio" else self.ours
        if value is None or not limit.reached(value, limit.must):
            return "missed"
        return "aim" if limit.aim is not None and limit.reached(value, limit.aim) else "must"

    def cells(self, *, judged: bool) -> list[str]:
        """Return the row of the table."""
        limit = LIMITS.get(self.key)
        wanted = (limit.text(limit.must), limit.text(limit.aim)) if limit else ("", "")
        verdict = self.verdict()
        shown = verdict if judged or verdict in {"failed", "skipped"} else "not judged"
        ratio = "" if self.ratio is None else f"**{number(self.ratio)}×**"
        reached = "" if verdict == "measured" else shown
        numbers = [number(value, self.unit, digits=self.digits) for value in (self.ours, self.peer)]
        if numbers[1] and self.peer_name != PEER:
            numbers[1] += f" ({self.peer_name})"
        return [self.work, ratio, *wanted, reached, *numbers]


def number(value: float | None, unit: str = "", *, digits: int = 2) -> str:
    """Write a number with the digits that it deserves."""
    if value is None:
        return ""
    size = abs(value)
    if value == 0 or size >= 1000:
        text = f"{value:,.0f}"
    elif size >= 1:
        text = f"{value:.{digits}f}" if size < 100 else f"{value:.1f}"
    else:
        text = f"{value:.3g}"
    return f"{text} {unit}".strip()


@dataclass(slots=True)
class Report:
    """All lines, with machine, commit and date."""

    machine: Machine
    commit: str
    date: str
    variant: str
    rounds: int
    judged: bool  # whether limits count: not on parts of the corpora
    lines: list[Line] = field(default_factory=list)
    sections: list[str] = field(default_factory=list)  # more Markdown, behind the table
    seconds: float = 0.0

    def failures(self) -> list[Line]:
        """Lines that failed, or that missed what they must reach."""
        bad = {"failed", "missed"} if self.judged else {"failed"}
        return [line for line in self.lines if line.verdict() in bad]

    def json(self) -> str:
        """Return everything, raw samples included."""
        content = asdict(self)
        for plain, line in zip(content["lines"], self.lines, strict=True):
            limit = LIMITS.get(line.key)
            plain["ratio"], plain["verdict"] = line.ratio, line.verdict()
            plain["limit"] = None if limit is None else asdict(limit)
        return json.dumps(content, indent=1) + "\n"

    def markdown(self) -> str:
        head = ["work", "ratio", "must", "aim", "reached", "fstcrf", "peer"]
        sections = [
            "# Benchmarks",
            self._introduction(),
            table(head, [line.cells(judged=self.judged) for line in self.lines]),
            *self.sections,
        ]
        runs = f"the median of {self.rounds} runs" if self.rounds > 1 else "of one run"
        notes = [f"- {line.work}: {line.note}" for line in self.lines if line.note]
        errors = [f"- **{line.work}: {line.error}**" for line in self.lines if line.error]
        notes += [f"- {line.work}: skipped: {line.skipped}" for line in self.lines if line.skipped]
        if errors:
            sections += ["## Failed", "\n".join(errors)]
        if notes:
            sections += ["## Notes", "\n".join(notes)]
        sections += ["## How it was measured", METHOD.format(runs=runs)]
        return "\n\n".join(sections) + "\n"

    def _introduction(self) -> str:
        machine = self.machine
        packages = ", ".join(f"{name} {version}" for name, version in machine.packages.items())
        part = "" if self.judged else " on a **part** of the corpora, to see that it runs;"
        rows = [
            ["commit, date", f"`{self.commit}`, {self.date}"],
            ["processor", f"{machine.processor}, {machine.cores} cores; {machine.caches} a core"],
            ["memory", machine.memory],
            ["system", f"{machine.system}, Python {machine.python}, {packages}"],
            ["kernel", self.variant],
            ["load before", f"{machine.load:.2f}"],
        ]
        return (
            f"Made by `make bench`{part} in {self.seconds / 60:.0f} minutes. "
            f"A ratio is how many times better than the peer, {PEER} if no other is named, on the "
            f"same data with the same features, in the same run.\n\n{table(['', ''], rows)}"
        )


METHOD = """\
Every number is {runs}, each in a process of its own, python-crfsuite and
fstcrf in turns, so that noise hits both. Work on one thread is pinned to one core, work on two
threads to two; python-crfsuite always has one, since it knows no more.

- Chunking is CoNLL-2000 with the template of CRFsuite's tutorial, `__BOS__` and `__EOS__`, the
  features and transitions that occur, and `l2` = `c2` = 0.5. Where both sides train, they count
  the same features, else the line fails.
- Evaluations of python-crfsuite are the seconds in its log, which are processor time, over its line
  search trials; they hold the vector work of its L-BFGS. On one thread the evaluations of fstcrf
  are processor time too, on two threads wall time, as are all other seconds. "L-BFGS iterations"
  hold its vector work, "objective and gradient" is the call alone, at the weights of the last of
  40 iterations.
- Files to model runs from the start of the process to its end, with the default stop tests of both
  sides; fstcrf is `fstcrf train`. The objective is that of the saved model, computed once more in
  float64, over the last loss that CRFsuite logs. Memory is the peak resident set of the process,
  in 10^6 bytes.
- Tagging is column file to column file, features included; fstcrf is `fstcrf tag`. On both sides,
  the time for one copy of the test file is taken off the time for that copy and what is named:
  what remains has no start-up and no loading. fstcrf, which takes a fraction of a second, runs
  three times as often. Copies are kinder to caches than text that does not repeat, so the training
  file is there as well.
- Start-up runs from the start of the process until the labels of one sentence are there: printed
  (Python), or the process ended (`fstcrf tag`); the median of ten. Byte code is cached, as it is
  after a first run.
- POS labels are predicted from words alone: a window of five, prefixes and suffixes up to four
  characters, two shapes; so are the labels of EWT, of which all three parts are taken.
- Growth takes the corpus several times, in memory.
- Composition is measured in processor time, on one thread and in float64. Potentials are standard
  normal, sentences have 24 tokens; pynini, whose numbers are float32, gets the same, and both must
  find labellings of the same score. fstcrf answers a list of lattices at once, through
  `fstcrf.best` and its kin. "Lattices given" were built before, "built from arrays" is
  `Lattice.from_arrays`, composition and grammar as well. pynini's time always includes the
  sentence's own machine, which NumPy writes as bytes, and reading the labels off the path; all else
  is compiled before. "By turns" is the better design for two tapes in OpenFst, where one tagger
  moves at a time, as in fstcrf.
- Cliffs are drawn from one seed: 2 to 30 types of span, 5 to 2,000 tokens, up to 40 spans, scores
  from the normal distribution with 0 to 12 more for the labels of the spans, or noise alone; a
  tagging scheme and up to four of contiguous, at_most, before and if_present, on one to three
  tapes. Every answer is a call of its own, with the grammar compiled before.
- Doors compare one question through two doors, in turns, in one process. A line is the worst of its
  inputs, or of their neighbours, which have other lengths, labels, tapes, scores or batches; p50
  and p99 are those of 1,000 calls. The first answer compiles tables, and is named apart. Ratios to
  "before lanes" compare ratios: those of both times to a yardstick of NumPy in their run.
- Addresses are those of usaddress's own data, all of them. usaddress.tag gets them one after the
  other; we get the list, and both are timed in one process, in turns. Search starts from lattices
  and ends with arrays of paths.
- POS and chunks of the CoNLL-2000 test file start from a corpus of words in memory and end with a
  column of labels for each tape. The chunker reads the POS tagger's labels, jack-knifed in
  training. The three decoders take turns in one process; the ratio is the median over the turns."""


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Write a Markdown table."""
    lines = [list(head), ["---"] * len(head), *map(list, rows)]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)
