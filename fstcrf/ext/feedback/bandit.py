"""Learning from partial feedback: stochastic gradients from the rewards of sampled labellings.

In simulation, rewards are computed from gold labels. The reward of a labelling is the F-score of
its spans in its sentence, 2 · correct / (found + wanted); it is 1 if neither labelling has spans.
Where labels are not spans, it is the share of right labels.

Rewards. `Bandit` sees one sample of a sentence and its reward. One pass of forward-backward gives
the sample (filter forward, sample backward), its probability, and the expectations of its features.
The gradient is the difference between the features of the sample and these expectations, for every
label of every attribute of the sentence. Rows are therefore dense, and gold labels have no
influence on the set of weights (`csrc/feedback.c`). The opposite distribution p₋ of preferences
negates the potentials; forbidden paths remain forbidden. In theory, momentum and ADADELTA change
all weights at every step. Here, a row is updated when it is next read, by the closed form of the
missed steps, and decay is one factor for all weights (`csrc/descent.h`). `FeedbackLearner` stores
the gradient of a proposal instead of recomputing it, because the weights may have changed when the
reward arrives. Its journal holds proposals and rewards, so that reading it again repeats the steps
and needs no model of the moment.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fstcrf.arguments import real_array
from fstcrf.arrays import Bytes, Floats, Ints, Longs
from fstcrf.errors import OptionError, ShapeError
from fstcrf.ext.feedback.descent import Aim, Controls, Descent, Judge, Noise, Rule
from fstcrf.ext.feedback.kernel import Feedback, Proposals, Reinforcement
from fstcrf.ext.feedback.raters import Rater
from fstcrf.kernel import Parameters, norm
from fstcrf.text.corpus.schemes import has_spans, named_scheme, split_label, succession_tables
from fstcrf.training.online import (
    collect_parameters,
    masked_arcs,
    named_parameters,
    online_parameters,
    restored_parameters,
)
from fstcrf.training.optimiser import State, Step, floats
from fstcrf.training.problem import ParameterSpace, Problem

NOTHING, BEGINS, GOES_ON = 0, 1, 2


def gold_judge(problem: Problem, *, graded: bool = False) -> Judge:
    """Return the judge that knows a problem's labels.

    Parameters
    ----------
    problem : Problem
    graded : bool
        For pairs: the reward is the difference between the rewards of both samples instead of 0 or
        1.

    Raises
    ------
    OptionError
        Labels that are not known.
    """
    problem.require_known("nothing to judge by")
    labels = problem.topology.labels
    gold = problem.allowed.argmax(axis=1).astype(np.int32)
    if not has_spans(labels):
        return Judge(gold, len(labels), graded=graded)
    step, kind = span_steps(labels)
    return Judge(gold, len(labels), step, kind, graded)


def span_steps(labels: Sequence[str]) -> tuple[Bytes, Ints]:
    """Return the role of each label after each other label, as conlleval reads them.

    Parameters
    ----------
    labels : sequence of L str

    Returns
    -------
    step : uint8 [L + 1, L + 1]
        Row: previous label; column: label. 1 begins a span, 2 continues the span, 0 is neither; the
        last row and column are the ends of a sentence.
    kind : int32 [L + 1]
        Number of each label's type.

    Examples
    --------
    >>> span_steps(["O", "B-NP", "I-NP"])[0]
    array([[0, 1, 1, 0],
           [0, 1, 2, 0],
           [0, 1, 2, 0],
           [0, 1, 1, 0]], dtype=uint8)
    """
    scheme = named_scheme("conlleval")
    parts = [split_label(label, scheme) for label in labels]
    numbers: dict[str, int] = {}
    kinds = [*(kind for _, kind in parts), ""]
    kind = np.asarray([numbers.setdefault(k, len(numbers)) for k in kinds], dtype=np.int32)
    starts, inside = succession_tables(parts, scheme)
    step = np.where(starts, BEGINS, np.where(inside, GOES_ON, NOTHING))
    return step.astype(np.uint8), kind


# --- Learning from partial feedback ---------------------------------------------------------------

Rewards = Callable[[Proposals], Floats]
"""Rewards of proposals, float64 [n] in [0, 1]."""


@dataclass(frozen=True, slots=True)
class Schedule:
    """The changes of temperature and momentum from step to step.

    Parameters
    ----------
    annealing : bool
        The temperature of step t, counted from 0, is the temperature of the aim divided by
        ∛(t + 1).
    momentum : bool
        The momentum of step t is at most 1 − 1 / (t / 2 + 2).
    """

    annealing: bool = False
    momentum: bool = False

    def aim(self, aim: Aim, step: int) -> Aim:
        """Return the aim of a step."""
        if not self.annealing:
            return aim
        return replace(aim, temperature=aim.temperature / float(np.cbrt(step + 1)))

    def rule(self, rule: Rule, step: int) -> Rule:
        """Return the rule of a step."""
        if not self.momentum:
            return rule
        return replace(rule, momentum=min(rule.momentum, 1.0 - 1.0 / (step / 2 + 2)))


def feedback_over(space: ParameterSpace, descent: Descent) -> Feedback:
    """Return the kernel's learner of a parameter space.

    Parameters
    ----------
    space : ParameterSpace
    descent : Descent
        Its parameters, as `online_parameters` lays them out.

    Raises
    ------
    OptionError
        Weights of arc attributes.
    """
    if space.n_arc_rows:
        raise OptionError("the template has B features of the input, which samples do not train")
    topology = space.topology
    graph = topology.graph(np.zeros(topology.n_arc_slots))
    arc_slot, arc_mask = masked_arcs(space, graph)
    mask: Bytes | None = None
    if len(space.node_cells) < space.n_node_rows * len(topology.node_slot_names):
        mask = np.zeros((space.n_node_rows, space.width), dtype=np.uint8)
        mask.ravel()[space.node_cells] = 1
    return Feedback(
        graph,
        slots=np.ascontiguousarray(topology.node_slots),
        arc_slot=arc_slot,
        arc_mask=arc_mask,
        label=topology.state_label,
        ends=len(space.initial) > 0,
        descent=descent,
        mask=mask,
    )


@dataclass(frozen=True, slots=True)
class RewardedPaths:
    """Rewards of existing samples: the labels of a problem, one sample for each sentence.

    Parameters
    ----------
    reward : float64 [B]
        In [0, 1].
    log_p : float64 [B]
        Log-probabilities with which the labels were drawn, at most 0.

    Raises
    ------
    ShapeError
        The arrays have different lengths.
    OptionError
        A number outside its range.
    """

    reward: Floats
    log_p: Floats

    def __post_init__(self) -> None:
        if self.reward.shape != self.log_p.shape or self.reward.ndim != 1:
            raise ShapeError(
                f"rewards are {list(self.reward.shape)}, their log-probabilities "
                f"{list(self.log_p.shape)}: expected one of each for each sample"
            )
        if not ((self.reward >= 0.0) & (self.reward <= 1.0)).all():
            raise OptionError("a reward of the log is outside [0, 1]")
        if not ((self.log_p <= 1e-6) & np.isfinite(self.log_p)).all():
            raise OptionError(
                "the log has a log-probability that is not a finite number of at most 0: "
                "log math.log(p) for a probability p"
            )


class Bandit:
    """One pass over the sentences a step: a sample each, its reward, a move.

    Parameters
    ----------
    problem : Problem
        Only the judge reads its labels; with a log, they are the samples.
    space : ParameterSpace
        Complete, so that gold labels do not leak into which weights exist.
    theta : float64 [size]
        Where to start.
    aim, rule : Aim, Rule
        The objective of learning, and the rule for the size of a step.
    schedule : Schedule, optional
    samples : int, optional
        Samples a step; one for each sentence when absent, or as many as it has draws.
    batch : int
        Samples whose rewards are asked for at a time, all drawn from the same weights. With 1,
        rewards are computed by `judge`, and all work is done in the kernel; with the control
        "leave-one-out", the samples of a sentence form a batch.
    judge : Judge, optional
        Rewards from other gold labels than the labels of the problem.
    graded : bool
        For pairs: the reward is the difference between the rewards of both samples instead of 0 or
        1.
    rewards : callable, optional
        Gives the rewards of a batch instead of a judge: proposals → float64 [n].
    rater : Rater, optional
        A model of noisy raters, which changes the rewards of the judge; by default, rewards are
        exact.
    log : RewardedPaths, optional
        Learn from these rewards; no samples are drawn.
    seed : int

    Raises
    ------
    OptionError
        A number outside its range, unknown labels, or weights of arc attributes.
    """

    def __init__(
        self,
        problem: Problem,
        space: ParameterSpace,
        theta: Floats,
        *,
        aim: Aim,
        rule: Rule,
        schedule: Schedule = Schedule(),
        samples: int | None = None,
        batch: int = 1,
        judge: Judge | None = None,
        graded: bool = False,
        rewards: Rewards | None = None,
        rater: Rater | None = None,
        log: RewardedPaths | None = None,
        seed: int = 0,
    ) -> None:
        sentences = len(problem.weight)
        self.samples = sentences * aim.draws if samples is None else samples
        if batch < 1 or self.samples < 1:
            raise OptionError(f"{self.samples} samples in batches of {batch}: expected at least 1")
        if rewards is not None and batch == 1:
            raise OptionError("rewards of your own are asked for in batches: give batch=")
        if aim.cap and log is None:
            raise OptionError(f"cap is {aim.cap:g}, which only rewards of a log need: give log=")
        if self.samples % aim.draws:
            raise OptionError(f"{self.samples} samples: expected a multiple of {aim.draws} draws")
        if batch == 1:
            batch = aim.draws
        if batch % aim.draws:
            raise OptionError(f"batches of {batch}: expected a multiple of {aim.draws} draws")
        if log is not None and len(log.reward) != sentences:
            raise ShapeError(f"a log of {len(log.reward)} rewards for {sentences} sentences")
        self.space, self.aim, self.rule, self.schedule = space, aim, rule, schedule
        self.batch, self.seed, self._rewards = batch, seed, rewards
        self._judge, self._rater = judge, rater
        if judge is None and rewards is None and log is None:
            self._judge = gold_judge(problem, graded=graded)
        self._log, self._paths = log, None if log is None else problem.states
        if rater is not None:
            self._biases = rater.biases(np.random.default_rng((seed, 0, 2)))
        self._descent = Descent(online_parameters(space, theta))
        self._feedback = feedback_over(space, self._descent)
        self._sentences = self._feedback.batch(problem.offsets, problem.node)
        self._controls, self._epoch = Controls.of(sentences), 0

    def theta(self) -> Floats:
        """Return the weights reached."""
        rule = self.schedule.rule(self.rule, max(self._epoch - 1, 0))
        return collect_parameters(self.space, self._descent.now(rule))

    def step(self) -> Step:
        """Learn from `samples` samples."""
        aim = self.schedule.aim(self.aim, self._epoch)
        rule = self.schedule.rule(self.rule, self._epoch)
        generator = np.random.default_rng((self.seed, self._epoch))
        order = self._order(generator, aim.draws)
        heard = self._heard(order, aim, rule, generator)
        self._epoch += 1
        if self.schedule.rule(self.rule, self._epoch) != rule:
            self._descent.settle(rule)
        loss = 1.0 - float(heard.reward.mean())
        return Step(loss, None, self._epoch, None, self._measures(order, aim, heard))

    def state(self) -> State:
        """Return all that is needed to go on with the same bits."""
        one = self._descent
        arrays: State = {
            "counters": np.asarray([self._epoch, one.step]),
            "scale": np.asarray([one.scale]),
            "control.mean": self._controls.mean,
            "control.count": self._controls.count,
            **named_parameters("theta", one.theta),
        }
        for name, part in (("first", one.first), ("second", one.second)):
            if part is not None:
                arrays |= named_parameters(name, part)
        return arrays if one.touched is None else {**arrays, "touched": one.touched}

    def restore(self, state: State) -> None:
        """Go back to a state."""
        one = self._descent
        self._epoch, one.step = state["counters"].tolist()
        one.scale = float(state["scale"][0])
        self._controls = Controls(floats(state["control.mean"]), floats(state["control.count"]))
        one.theta = restored_parameters("theta", state)
        one.first = _remembered("first", state)
        one.second = _remembered("second", state)
        touched = state.get("touched")
        one.touched = None if touched is None else np.asarray(touched, dtype=np.int64)

    def _order(self, generator: np.random.Generator, draws: int) -> Longs:
        """Draw permutations of the sentences, and repeat each sentence `draws` times."""
        n, needed = len(self._sentences), self.samples // draws
        turns = [generator.permutation(n) for _ in range(-(-needed // n))]
        return np.repeat(np.concatenate(turns)[:needed].astype(np.int64), draws)

    def _noise(self, n: int, aim: Aim, generator: np.random.Generator) -> Noise | None:
        return None if self._rater is None else self._rater.noise(n, aim, self._biases, generator)

    def _heard(
        self, order: Longs, aim: Aim, rule: Rule, generator: np.random.Generator
    ) -> Reinforcement:
        learner, sentences, controls = self._feedback, self._sentences, self._controls
        if self._log is not None and self._paths is not None:
            reward, log_p = self._log.reward, self._log.log_p
            return learner.replay(sentences, order, aim, rule, controls, self._paths, reward, log_p)
        draws, chance = 1 + aim.pairs, np.random.default_rng((self.seed, self._epoch, 1))
        if self.batch == 1 and self._judge is not None:
            uniform = generator.random(draws * sentences.tokens(order))
            noise = self._noise(len(order), aim, chance)
            return learner.epoch(sentences, order, aim, rule, controls, self._judge, uniform, noise)
        parts = []
        for start in range(0, len(order), self.batch):
            some = order[start : start + self.batch]
            uniform = generator.random(draws * sentences.tokens(some))
            made = learner.propose(sentences, some, aim, rule, uniform)
            reward = self._reward(made, aim, self._noise(len(some), aim, chance))
            parts.append(learner.reinforce(sentences, made, aim, rule, controls, reward))
        return Reinforcement(
            np.concatenate([p.reward for p in parts]),
            np.concatenate([p.log_p for p in parts]),
            np.concatenate([p.coefficient for p in parts]),
        )

    def _reward(self, made: Proposals, aim: Aim, noise: Noise | None) -> Floats:
        if self._rewards is not None:
            return _numbers(self._rewards(made), len(made.order))
        if self._judge is None:
            raise OptionError("no judge and no rewards")
        return self._feedback.judge(self._sentences, made, aim, self._judge, noise)

    def _measures(self, order: Longs, aim: Aim, heard: Reinforcement) -> dict[str, float]:
        """Return the reported measures of a step."""
        measures = {
            "reward": float(heard.reward.mean()),
            "updates": float(self._descent.step),
            "coefficient variance": float(heard.coefficient.var()),
            "norm": self._descent.scale * norm(self._descent.theta.table.ravel()),
        }
        if aim.objective != "logistic":
            measures["certainty"] = float(np.exp(heard.log_p).mean())
        if self._log is not None:
            return measures | _estimates(aim, heard, self._log.log_p[order])
        if aim.objective == "cross-entropy":
            with np.errstate(over="ignore", divide="ignore"):
                weight = heard.reward / np.maximum(np.exp(heard.log_p), aim.clip)
            measures["clipped"] = float((heard.log_p < np.log(max(aim.clip, 1e-323))).mean())
            measures["weight variance"] = float(weight.var())
        return measures


def _estimates(aim: Aim, heard: Reinforcement, drawn: Floats) -> dict[str, float]:
    """Return estimates of the current weights from a log, and the share of effective samples."""
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        ratio = np.exp(heard.log_p - drawn)
        weight = np.minimum(ratio, aim.cap) if aim.cap else ratio
        return {
            "estimated reward": float(weight @ heard.reward / weight.sum()),
            "effective share": float(weight.sum() ** 2 / (weight @ weight) / len(weight)),
            "capped": float((ratio > aim.cap).mean()) if aim.cap else 0.0,
        }


def _numbers(rewards: Any, n: int) -> Floats:
    """Return rewards that somebody gave as float64 [n]."""
    try:
        numbers = real_array(rewards, "rewards")
    except ShapeError:
        raise OptionError(f"rewards are {rewards!r:.80}, expected {n} numbers in [0, 1]") from None
    if numbers.shape != (n,):
        raise ShapeError(f"rewards are {list(numbers.shape)}, expected {[n]}: one for each sample")
    return numbers


def _remembered(name: str, state: State) -> Parameters | None:
    return restored_parameters(name, state) if f"{name}.0" in state else None
