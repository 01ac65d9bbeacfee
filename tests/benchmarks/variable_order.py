"""The order-2 noun phrase chunker beside VO-CRF, in one run.

``python -m tests.benchmarks.variable_order --data DIR --vocrf PROGRAM [--write]`` writes CoNLL-2000
as VO-CRF (crfsuite-variableorder, to be built elsewhere) reads it, trains both at sigma = 1, and
prints objectives, seconds, memory and F. With ``--write`` the table goes to
docs/measurements/benchmarks-variable-order.tsv.

VO-CRF's pairs of labels begin at the second token, and what it logs as the log-likelihood has the
penalty subtracted (lbfgs_evaluate in its crfvo_learn_lbfgs.c). So fstcrf is trained twice: with the
same weights, to compare objectives, and as the recipe ``shallow-parsing`` does.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import re
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from tests.benchmarks.machine import PAGES, commit, tab_separated, this
from tests.benchmarks.report import table
from tests.benchmarks.running import Finished, child

if TYPE_CHECKING:
    from fstcrf.arrays import Longs
    from fstcrf.recipes.corpora import DataSplit
    from fstcrf.training import ParameterSpace


PAGE = PAGES / "benchmarks-variable-order.tsv"
END = "__BOS_EOS__"  # VO-CRF's label before and behind a sentence
CONSTANT = "LABEL"
Extent = Literal["supported", "complete"]
EXTENTS: tuple[Extent, ...] = ("supported", "complete")
THREADS = 2


# --- In a process of its own ----------------------------------------------------------------------


class SameWeights:
    """The chunker with the weights that VO-CRF has: pairs of labels from the second token on."""

    def __init__(self, folder: Path, extent: Extent) -> None:
        import numpy as np

        from fstcrf.machines.topology import chain_topology
        from fstcrf.recipes import Setting
        from fstcrf.recipes.corpora import PHRASE
        from fstcrf.recipes.phrase_chunkers import read, trained
        from fstcrf.training import Problem, parameter_space

        self.data: DataSplit = read(Setting(folder))
        # Its index and design; its weights are not used.
        self.model = trained(self.data.train, pairs="complete", max_iterations=1)
        self.node = self._design(self.data.train)
        topology = chain_topology(self.model.labels, 2)  # a start of its own
        number = {label: k for k, label in enumerate(topology.labels)}
        labels = [number[y] for s in self.data.train.column_lists(PHRASE) for y in s]
        allowed = np.zeros((len(labels), len(number)), dtype=bool)
        allowed[np.arange(len(labels)), labels] = True
        ones = np.ones(len(self.data.train))
        offsets = self.data.train.offsets
        self.problem = Problem(topology, offsets, self.node, None, allowed, ones)
        self.labels = [topology.labels[k] for k in labels]
        counts = np.bincount(self.node.index, minlength=self.node.n_columns)
        self.constant = int(counts.argmax())
        self.space = self._weights(parameter_space(self.problem, features=extent))

    def _design(self, corpus: Any) -> Any:
        from fstcrf.text.features import FeatureIndex

        if not isinstance(self.model.index, FeatureIndex):
            raise TypeError("a tagger with templates is expected")
        return self.model.index.design(corpus).node

    def _weights(self, space: ParameterSpace) -> ParameterSpace:
        """Leave out pairs with the start, but those of the constant, and pairs never seen."""
        import numpy as np

        topology = self.problem.topology
        names = np.asarray(topology.node_slot_names)
        row, slot = np.divmod(space.node_cells, space.width)
        start = np.char.startswith(names[slot].astype(str), "<s>")
        seen = np.unique(topology.node_slots[np.unique(self.problem.states)])
        keep = (~start | (row == self.constant)) & np.isin(slot, seen)
        return replace(space, node_cells=space.node_cells[keep])

    def train(self) -> dict[str, Any]:
        """Train, score."""
        import numpy as np

        from fstcrf.kernel.native import Workers
        from fstcrf.recipes.phrase_chunkers import L2, f_of
        from fstcrf.taggers import CRF
        from fstcrf.training import LBFGSOptimiser, Likelihood, Untied, fit, tied

        merged, space, sharing = tied(self.problem, self.space)
        objective = Likelihood(merged, space, l2=L2, threads=THREADS, members=sharing.members)
        optimiser = LBFGSOptimiser(objective, np.zeros(space.size), workers=Workers(THREADS))
        found = fit(Untied(optimiser, sharing), max_iterations=1000)
        own = self.model
        topology = self.problem.topology
        made = CRF(topology, own.index, self.space, found.theta, own.tape, own.columns, own.reads)
        test = self.data.test
        return {
            "weights": self.space.size + 1,  # VO-CRF has one more, of the end of a sentence
            "objective": found.value,
            "passes": objective.evaluations,
            "f": f_of(test, made.tag_all(test)),
        }

    def features(self) -> Iterator[str]:
        """Yield the lines of VO-CRF's feature file."""
        import numpy as np

        topology = self.problem.topology
        names = topology.node_slot_names
        row, slot = np.divmod(self.space.node_cells, self.space.width)
        for r, s in zip(row.tolist(), slot.tolist(), strict=True):
            name = CONSTANT if r == self.constant else f"a{r}"
            yield "\t".join([name, *_history(names[s])])
        yield f"{CONSTANT}\t{END}"
        for k in self.space.transitions.tolist():
            before, _, after = topology.arc_slot_names[k].partition(" → ")
            yield "\t".join([CONSTANT, *_history(after), _history(before)[1]])

    def items(self, node: Any, offsets: Longs, labels: Sequence[str]) -> Iterator[str]:
        """Yield the lines of VO-CRF's data file."""
        ends, index = node.indptr.tolist(), node.index.tolist()
        for a, b in itertools.pairwise(offsets.tolist()):
            for t in range(a, b):
                own = (f"a{i}" for i in index[ends[t] : ends[t + 1]] if i != self.constant)
                yield "\t".join([labels[t], CONSTANT, *own])
            yield f"{END}\t{CONSTANT}\n"

    def write(self, to: Path) -> None:
        """Write what VO-CRF reads."""
        from fstcrf.recipes.corpora import PHRASE

        test = self.data.test
        gold = [label for sentence in test.column_lists(PHRASE) for label in sentence]
        files = {
            "features.txt": self.features(),
            "train.txt": self.items(self.node, self.data.train.offsets, self.labels),
            "test.txt": self.items(self._design(test), test.offsets, gold),
        }
        for name, lines in files.items():
            with (to / name).open("w", encoding="utf-8") as out:
                out.writelines(f"{line}\n" for line in lines)


def _history(name: str) -> list[str]:
    """Return the labels of a slot, the last one first, as VO-CRF writes them."""
    return [END if label == "<s>" else label for label in reversed(name.split(" "))]


def recipe(folder: Path, extent: Extent) -> dict[str, Any]:
    """Train as the recipe does."""
    from fstcrf.recipes import Setting
    from fstcrf.recipes.phrase_chunkers import OPTIMISERS, optimised, read

    data = read(Setting(folder))
    _, run = optimised(OPTIMISERS[-1], data, features=extent, threads=THREADS)
    last = run.course[-1]
    return {
        "weights": run.weights,
        "objective": -last.objective,
        "passes": last.passes,
        "seconds": run.seconds,
        "f": run.f,
    }


def scored(folder: Path, tagged: Path) -> float:
    """Return the F of labels that VO-CRF wrote, one a line, empty ones for the ends."""
    from fstcrf.recipes import Setting
    from fstcrf.recipes.phrase_chunkers import f_of, read

    sentences = re.split("\n\n+", tagged.read_text("utf-8").strip())
    test = read(Setting(folder)).test
    return f_of(test, [lines.split("\n") for lines in sentences])


# --- All of them ----------------------------------------------------------------------------------


def measured(part: str, data: Path, extent: Extent, to: Path) -> tuple[dict[str, Any], Finished]:
    """Do one part in a process of its own."""
    command = [sys.executable, "-m", "tests.benchmarks.variable_order", "--data", str(data)]
    done = child([*command, "--part", part, extent, str(to)], env=dict(os.environ))
    return json.loads(done.output.strip().splitlines()[-1]), done


def theirs(program: str, data: Path, extent: Extent, to: Path) -> tuple[dict[str, Any], Finished]:
    """Train and run VO-CRF."""
    measured("write", data, extent, to)
    files = {name: str(to / name) for name in ("features.txt", "train.txt", "test.txt", "model")}
    learn = [program, "learn", "-p", "regularization.sigma=1", "-f", files["features.txt"]]
    done = child([*learn, "-m", files["model"], files["train.txt"]], env=dict(os.environ))
    labels = child([program, "tag", "-m", files["model"], files["test.txt"]], env=dict(os.environ))
    (to / "tagged").write_text(labels.output, "utf-8")
    said = done.output
    found = {
        "weights": int(re.findall(r"Number of features: (\d+)", said)[-1]),
        "objective": -float(re.findall(r"Log-likelihood: (\S+)", said)[-1]),
        "passes": sum(map(int, re.findall(r"Line search trials: (\d+)", said))),
        "seconds": float(re.findall(r"Total seconds required for L-BFGS: (\S+)", said)[-1]),
        "f": measured("score", data, extent, to)[0]["f"],
    }
    return found, done


def rows(program: str, data: Path) -> Iterator[list[str]]:
    for extent in EXTENTS:
        with tempfile.TemporaryDirectory() as scratch:
            to = Path(scratch)
            parts = {
                "VO-CRF": theirs(program, data, extent, to),
                "fstcrf, the same weights": measured("same", data, extent, to),
                "fstcrf, as the recipe": measured("recipe", data, extent, to),
            }
        peer = parts["VO-CRF"][0]["seconds"]
        for name, (found, done) in parts.items():
            seconds = found.get("seconds")
            yield [
                f"{name}, {extent}",
                f"{found['weights']:,}",
                f"{found['objective']:,.2f}",
                str(found["passes"]),
                "" if seconds is None else f"{seconds:.1f}",
                "" if seconds is None else f"{peer / seconds:.1f}",
                f"{done.seconds:.1f}",
                f"{done.peak:,.0f}",
                f"{found['f']:.2f}",
            ]


HEAD = ["", "weights", "penalised −log-likelihood", "passes", "seconds of training"]
HEAD += ["VO-CRF's ÷ these", "seconds of the process", "peak MB", "F, test, %"]


def page(found: Sequence[Sequence[str]]) -> str:
    """Write docs/measurements/benchmarks-variable-order.tsv."""
    about = this()
    return (
        "# The order-2 chunker beside VO-CRF\n\n"
        "`python -m tests.benchmarks.variable_order --data DIR --vocrf PROGRAM --write`, "
        f"{datetime.now(UTC):%Y-%m-%d}, commit {commit()}, {about.processor}, {about.cores} cores, "
        f"{about.memory}, {about.system}, load before {os.getloadavg()[0]:.2f}.\n\n"
        "Noun phrases of CoNLL-2000, the features of Sha and Pereira (2003), sigma = 1. VO-CRF "
        "(crfsuite-variableorder 0.01) is one thread, fstcrf two. What VO-CRF logs as its "
        "log-likelihood has the penalty subtracted, as its source says: so do all numbers here. "
        "*The same weights*: pairs of labels begin at the second token, as in VO-CRF, and L-BFGS "
        "at zero; to compare objectives. *As the recipe*: before a sentence is O. The seconds of "
        "VO-CRF are its own figure for L-BFGS; those of fstcrf are from the corpus in memory to "
        "the tagger, features included. Seconds and memory of the process count everything.\n\n"
        f"{table(HEAD, found)}\n"
    )


def main(arguments: Sequence[str] | None = None) -> None:
    """Compare; print, and write where asked to."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.variable_order")
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--vocrf", help="program of VO-CRF")
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--part", nargs=3, metavar=("PART", "EXTENT", "FOLDER"))
    given = parser.parse_args(arguments)
    if given.part is not None:
        _part(given.part[0], given.data, given.part[1], Path(given.part[2]))
        return
    if given.vocrf is None:
        parser.error("--vocrf is missing: the path of VO-CRF's program")
    text = page(list(rows(given.vocrf, given.data)))
    print(text)
    if given.write:
        PAGE.write_text(tab_separated(text), "utf-8")


def _part(part: str, data: Path, extent: Extent, to: Path) -> None:
    found: dict[str, Any] = {}
    if part == "write":
        SameWeights(data, extent).write(to)
    elif part == "same":
        found = SameWeights(data, extent).train()
    elif part == "recipe":
        found = recipe(data, extent)
    else:
        found = {"f": scored(data, to / "tagged")}
    print(json.dumps(found))


if __name__ == "__main__":
    main()
