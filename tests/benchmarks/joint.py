"""POS and chunks of CoNLL-2000 decided together: cascade, product and chain rule compared.

``python -m tests.benchmarks.joint --data DIR [--write]``; with ``--write`` the page goes to
docs/measurements/joint-accuracy.tsv.

Every tenth training sentence is held out. On those, the weight of the chunker in the product is
chosen (most tokens right on both tapes; of equals the one nearest 1), and the decoder that the page
recommends: the same score, jack-knifed taggers, and not below the cascade. The test file is decoded
with what was chosen before.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import numpy as np

from fstcrf import CRF, Composition, Corpus, compose, read_columns
from fstcrf.arrays import Bools
from fstcrf.ext.significance import SpanCounts, mcnemar, randomised_f, span_counts
from fstcrf.text.corpus import Column
from tests.benchmarks.machine import PAGES, Machine, commit, tab_separated, this
from tests.benchmarks.report import table
from tests.benchmarks.running import in_turns
from tests.benchmarks.taggers import COLUMNS, chunker, decoding_seconds, pos_tagger, words_of

GRID = (0.0, 0.1, 0.2, 0.25, 0.3, 0.4, 0.5, 0.75, 1.0, 1.5, 2.0)
FOLDS = 5
HELD_OUT = 10  # every tenth sentence
ROUNDS = 5
SHUFFLES = 9_999
PAGE = PAGES / "joint-accuracy.tsv"

Tapes = tuple[Column, ...]
Decoder = Callable[[Corpus], Tapes]


@dataclass(frozen=True, eq=False)
class Answers:
    """The labels that a decoder gave: where each tape is right, bool [N], and its chunks."""

    pos: Bools
    chunk: Bools
    spans: SpanCounts

    @property
    def both(self) -> Bools:
        """Where both tapes are right, bool [N]."""
        return self.pos & self.chunk

    def cells(self) -> list[str]:
        """Both right, F and POS accuracy, in percent."""
        return [f"{100 * x:.2f}" for x in (self.both.mean(), self.spans.f, self.pos.mean())]


def judged(gold: Corpus, tapes: Tapes) -> Answers:
    """Compare POS and chunk labels with the gold columns."""
    pos, chunk = (
        np.asarray(gold.column(name).strings()) == np.asarray(tape.strings())
        for name, tape in zip(("pos", "chunk"), tapes, strict=True)
    )
    return Answers(pos, chunk, span_counts(gold.column("chunk"), tapes[1], gold.offsets))


# --- Taggers and decoders -------------------------------------------------------------------------


@dataclass(frozen=True)
class Setting:
    """Taggers that were trained in one way, and the decoders of both."""

    name: str
    pos: CRF
    chunk: CRF

    def product(self, weight: float) -> Decoder:
        return compose(self.pos, self.chunk, weights=(1.0, weight)).tag_columns

    def tuned(self, dev: Corpus) -> float:
        """Return the weight of the chunker in the product that does best on held-out sentences."""
        untuned = compose(self.pos, self.chunk, normalize="product")
        tuned = untuned.tune_weights(dev, metric="both", grid=GRID, threads=2)
        return tuned.weights[1]

    def chain(self) -> Composition:
        return compose(self.pos, self.chunk, normalize="chain")

    def unproven(self, corpus: Corpus) -> int:
        """Return for how many sentences the chain rule ran out of its budget."""
        return self.chain().decode(words_of(corpus)).unproven

    def decoders(self, weight: float) -> dict[str, Decoder]:
        return {
            "cascade": compose(self.pos, self.chunk).cascade,
            "product, λ = 1": self.product(1.0),
            f"product, λ = {weight:g} (tuned)": self.product(weight),
            "chain": self.chain().tag_columns,
        }


def settings(train: Corpus, iterations: int | None) -> list[Setting]:
    every = np.arange(len(train))
    pos = pos_tagger(train, max_iterations=iterations)
    jackknifed = chunker(train, pos, jackknife=FOLDS, max_iterations=iterations)
    plain = chunker(train, pos, max_iterations=iterations)
    first, second = train.select(every[::2]), train.select(every[1::2])
    half = pos_tagger(first, max_iterations=iterations)
    halves = chunker(second, half, max_iterations=iterations)
    return [
        Setting(f"jack-knifed, {FOLDS} folds", pos, jackknifed),
        Setting("not jack-knifed", pos, plain),
        Setting("POS on one half, chunks on the other", half, halves),
    ]


def curve(setting: Setting, dev: Corpus) -> list[Answers]:
    """Return what the product says of held-out sentences, for every weight of the grid."""
    words = words_of(dev)
    return [judged(dev, setting.product(weight)(words)) for weight in GRID]


@dataclass(frozen=True)
class Outcome:
    """What the decoders of a setting reached.

    Parameters
    ----------
    weight : float
        Chosen on held-out sentences.
    curve : list of Answers
        The product on them, weight by weight.
    dev, test : dict of str to Answers
    rates : dict of str to float
        Sentences of the test file in a second of the processor, one thread.
    unproven : int
        Sentences of the test file for which the chain rule's answer was not proven to be the best.
    """

    setting: Setting
    weight: float
    curve: list[Answers]
    dev: dict[str, Answers]
    test: dict[str, Answers]
    rates: dict[str, float]
    unproven: int


def measured(setting: Setting, dev: Corpus, test: Corpus, rounds: int) -> Outcome:
    """Choose the weight, decode both parts, take times in turns."""
    by_weight, weight = curve(setting, dev), setting.tuned(dev)
    decoders = setting.decoders(weight)
    on_dev = {name: judged(dev, decode(words_of(dev))) for name, decode in decoders.items()}
    on_test = {name: judged(test, decode(words_of(test))) for name, decode in decoders.items()}
    works = (partial(decoding_seconds, decode, test) for decode in decoders.values())
    seconds = map(statistics.median, in_turns(rounds, *works))
    rates = {name: len(test) / taken for name, taken in zip(decoders, seconds, strict=True)}
    return Outcome(setting, weight, by_weight, on_dev, on_test, rates, setting.unproven(test))


# --- The page -------------------------------------------------------------------------------------


def recommended(outcome: Outcome) -> str:
    """Return the decoder to recommend: most tokens right on both tapes of held-out sentences.

    Of equals the first: the cascade before all others, which cost more.
    """
    right = {name: int(answers.both.sum()) for name, answers in outcome.dev.items()}
    return max(right, key=lambda name: right[name])


def test_table(outcome: Outcome) -> str:
    """Return scores on the test file, with p-values against the cascade."""
    cascade = outcome.test["cascade"]
    rows = []
    for name, answers in outcome.test.items():
        same = answers is cascade
        p = randomised_f(answers.spans, cascade.spans, shuffles=SHUFFLES)
        rows.append(
            [
                name,
                *answers.cells(),
                "" if same else f"{mcnemar(answers.both, cascade.both).exact:.2g}",
                "" if same else f"{p:.2g}",
                f"{outcome.rates[name]:,.0f}",
            ]
        )
    head = ["decoder", "both right", "chunk F", "POS", "p (both)", "p (F)", "sentences/s"]
    return table(head, rows)


def dev_table(outcome: Outcome) -> str:
    """Return scores on the held-out sentences."""
    rows = [[name, *answers.cells()] for name, answers in outcome.dev.items()]
    return table(["decoder", "both right", "chunk F", "POS"], rows)


def curve_table(outcomes: Sequence[Outcome]) -> str:
    """Return scores of the product on the held-out sentences, weight by weight."""
    rows = [
        [f"{weight:g}", *(" / ".join(o.curve[k].cells()) for o in outcomes)]
        for k, weight in enumerate(GRID)
    ]
    return table(["λ", *(o.setting.name for o in outcomes)], rows)


def conclusion(outcome: Outcome) -> str:
    """Say what is recommended and what came of it on the test file."""
    name = recommended(outcome)
    dev, test = outcome.dev, outcome.test
    if name == "cascade":
        return "On the held-out sentences no joint decoder was better than the cascade."
    more = int(dev[name].both.sum()) - int(dev["cascade"].both.sum())
    p = mcnemar(test[name].both, test["cascade"].both).exact
    apart = 100 * (test[name].both.mean() - test["cascade"].both.mean())
    side = "more" if apart > 0 else "fewer"
    chance = ", which chance may well give" if p > 0.05 else ""
    return (
        f"**Recommended: {name}.** With jack-knifed taggers it had the most held-out tokens right "
        f"on both tapes, {more} more than the cascade. On the test file it has "
        f"{abs(apart):.2f} points {side} than the cascade, p = {p:.2g}{chance}."
    )


INTRODUCTION = """\
A POS tagger and a chunker of CoNLL-2000, trained one after the other. The POS tagger sees words,
affixes and shapes. The chunker sees words, suffixes and shapes, and the POS label of the same
token, alone and together with words and suffixes; in training those labels are the POS tagger's
predictions. Both are trained with the defaults: L-BFGS, l2 = 0.5, order 1.

- **cascade**: the POS tagger decides, then the chunker reads its labels.
- **product**: the potentials of both are added, those of the chunker times λ; one normaliser.
- **chain**: p(POS | words) · p(chunks | POS, words).

Product and chain are decoded exactly. As λ goes to 0, the product becomes the cascade: the POS
tagger alone decides its tape. At 0 itself nothing is said about chunks. The numbers are the percent
of tokens with both labels right, F of the chunks as conlleval counts them, and the percent of
tokens with the right POS label."""

METHOD = """\
p-values compare with the cascade on the test file: McNemar's exact test over the tokens with both
labels right, which takes tokens for independent, and approximate randomisation over sentences
({shuffles:,} shuffles) for F. These are {tests} tests, and nothing is corrected for their number.
Speed is in seconds of the processor on one thread, from words in memory to both columns of labels,
features included; the decoders in turns, the median of {rounds}. The load before was {load:.2f}.
{unproven} of the chain rule's {answers:,} answers were not proven to be the best within its
budget."""


def page(
    outcomes: Sequence[Outcome],
    sizes: Sequence[int],
    rounds: int,
    seconds: Sequence[float],
    machine: Machine,
) -> str:
    first = outcomes[0]
    train, dev, test = sizes
    tests = 2 * sum(len(o.test) - 1 for o in outcomes)
    sections = [
        "# Joint accuracy",
        INTRODUCTION,
        conclusion(first),
        "## Test file",
        *(f"### Taggers {o.setting.name}\n\n{test_table(o)}" for o in outcomes),
        METHOD.format(
            shuffles=SHUFFLES,
            rounds=rounds,
            tests=tests,
            load=machine.load,
            unproven=sum(o.unproven for o in outcomes),
            answers=len(outcomes) * test,
        ),
        "## Held-out sentences",
        (
            f"Every tenth sentence of the training file: {dev:,}; {train:,} are trained on, "
            f"{test:,} are in the test file. λ and the recommended decoder were chosen on these "
            "alone: the most tokens with both labels right. λ = "
            f"{GRID[1]:g} is the lowest weight but 0 that was tried."
        ),
        *(f"### Taggers {o.setting.name}: held out\n\n{dev_table(o)}" for o in outcomes),
        "### The product, weight by weight",
        f"Both right / chunk F / POS.\n\n{curve_table(outcomes)}",
        (
            f"`python -m tests.benchmarks.joint --data DIR --write`: {seconds[0]:.0f} s of "
            f"training on 2 threads, {seconds[1]:.0f} s in all; {machine.processor}, "
            f"{machine.cores} cores, commit {commit()}, {datetime.now(UTC):%Y-%m-%d}."
        ),
    ]
    return "\n\n".join(sections) + "\n"


def main() -> None:
    """Run the experiment; print the page, or write it."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.joint", description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--write", action="store_true", help=f"Write {PAGE.name}.")
    parser.add_argument("--quick", action="store_true", help="A part of the data, to see it run.")
    options = parser.parse_args()
    if options.write and options.quick:
        parser.error("--write needs the whole data")
    whole, test = (
        read_columns(options.data / "conll2000" / f"{part}.txt", COLUMNS)
        for part in ("train", "test")
    )
    if options.quick:
        whole, test = whole.select(np.arange(800)), test.select(np.arange(200))
    held = np.arange(len(whole)) % HELD_OUT == HELD_OUT - 1
    train, dev = (whole.select(np.flatnonzero(part)) for part in (~held, held))
    rounds = 1 if options.quick else ROUNDS
    machine, begun = this(), time.perf_counter()
    trained = settings(train, 15 if options.quick else None)
    trained_at = time.perf_counter()
    outcomes = [measured(setting, dev, test, rounds) for setting in trained]
    sizes = [len(part) for part in (train, dev, test)]
    seconds = trained_at - begun, time.perf_counter() - begun
    text = page(outcomes, sizes, rounds, seconds, machine)
    print(text)
    if options.write:
        PAGE.write_text(tab_separated(text), "utf-8")


if __name__ == "__main__":
    main()
