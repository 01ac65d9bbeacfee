"""Learning from rewards: objectives, rules of the step, parameters, control variates, judges."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Literal, get_args

import numpy as np

from fstcrf.arrays import Bytes, Floats, Ints, Longs
from fstcrf.errors import NumericError, OptionError, ShapeError
from fstcrf.kernel.learners import Parameters
from fstcrf.kernel.native import array_in, check, ffi, frozen, lib
from fstcrf.kernel.rows import SparseRows

Objective = Literal["expected-loss", "preference", "cross-entropy", "logistic"]
Control = Literal["none", "mean", "sentence", "leave-one-out"]
Opponent = Literal["opposite", "same"]
RuleName = Literal["constant", "momentum", "adadelta"]

OBJECTIVES = {
    "expected-loss": lib.FC_EXPECTED_LOSS,
    "preference": lib.FC_PREFERENCE,
    "cross-entropy": lib.FC_CROSS_ENTROPY,
    "logistic": lib.FC_LOGISTIC,
}
CONTROLS = {
    "none": lib.FC_NO_CONTROL,
    "mean": lib.FC_RUNNING_MEAN,
    "sentence": lib.FC_SENTENCE_MEAN,
    "leave-one-out": lib.FC_LEAVE_ONE_OUT,
}
RULES = {"constant": lib.FC_CONSTANT, "momentum": lib.FC_MOMENTUM, "adadelta": lib.FC_ADADELTA}


def _one_of(name: str, value: str, kind: Any) -> None:
    known = get_args(kind)
    if value not in known:
        raise OptionError(f"{name} is {value!r}, expected one of {', '.join(known)}")


def _within(name: str, value: float, low: float, high: float, *, ends: str) -> None:
    """Refuse a number outside an interval; `ends` is its brackets: ``"[)"``."""
    above = value >= low if ends[0] == "[" else value > low
    below = value <= high if ends[1] == "]" else value < high
    if not (above and below and np.isfinite(value)):
        raise OptionError(
            f"{name} is {value}, expected a number in {ends[0]}{low}, {high}{ends[1]}"
        )


@dataclass(frozen=True, slots=True)
class Aim:
    """The objective of learning: the meaning of a reward in [0, 1].

    Parameters
    ----------
    objective : {"expected-loss", "preference", "cross-entropy", "logistic"}
        "expected-loss": the mean of 1 − reward. "preference": the same for pairs; the reward is the
        lead of the first sample. "cross-entropy": −E log p, weighted with rewards. "logistic": the
        logistic loss of pairs from one distribution; the reward is the certainty that the first
        sample is better, 1/2 for a tie.
    control : {"none", "mean", "sentence", "leave-one-out"}
        The baseline that is subtracted from the reward: nothing; the running mean over all
        sentences; the running mean over earlier visits of the same sentence (over all sentences at
        the first visit); or the mean over the other samples of the sentence under the same weights.
    clip : float
        Cross-entropy: smaller probabilities are replaced with this one; 0 disables clipping.
    temperature : float
        Potentials are divided by it: above 1, samples are more diverse.
    common_rate, own_rate : float
        How fast the running means follow, in (0, 1].
    opponent : {"opposite", "same"}
        Preference: the second sample of a pair is drawn from the opposite distribution, which
        negates the potentials, or from the same distribution as the first. If rewards only rank the
        two samples, the opposite is beaten long before the first is good; use "same" then.
    beta : float
        Logistic: log-odds of being better are beta times the difference of the log-probabilities.
    cap : float
        Rewards of a log: larger ratios of probabilities are replaced with this one; 0 disables the
        cap.
    draws : int
        Leave one out: samples of a sentence from the same weights, each with a reward, at least 2;
        else 1.

    Raises
    ------
    OptionError
        A value outside its range.
    """

    objective: Objective = "expected-loss"
    control: Control = "none"
    clip: float = 0.0
    temperature: float = 1.0
    common_rate: float = 1e-3
    own_rate: float = 0.2
    opponent: Opponent = "opposite"
    beta: float = 1.0
    cap: float = 0.0
    draws: int = 1

    def __post_init__(self) -> None:
        _one_of("objective", self.objective, Objective)
        _one_of("control", self.control, Control)
        _one_of("opponent", self.opponent, Opponent)
        _within("clip", self.clip, 0, 1, ends="[]")
        _within("temperature", self.temperature, 0, np.inf, ends="()")
        _within("common_rate", self.common_rate, 0, 1, ends="(]")
        _within("own_rate", self.own_rate, 0, 1, ends="(]")
        _within("beta", self.beta, 0, np.inf, ends="()")
        _within("cap", self.cap, 0, np.inf, ends="[)")
        if self.draws < 1 or (self.draws > 1) != (self.control == "leave-one-out"):
            raise OptionError(
                f"draws is {self.draws} with control {self.control!r}, expected at least 2 with "
                "'leave-one-out', else 1"
            )

    @property
    def pairs(self) -> bool:
        """Whether two samples are compared."""
        return self.objective in {"preference", "logistic"}


@dataclass(frozen=True, slots=True)
class Rule:
    """The rule for the size of a step along a sampled gradient.

    Parameters
    ----------
    name : {"constant", "momentum", "adadelta"}
    rate : float
        Factor of each step; ADADELTA's own is 1.
    decay : float
        L2: each step multiplies the weights by 1 − rate · decay, apart from the gradient; with
        momentum m by 1 − rate · decay / (1 − m), so that the penalty does not depend on m.
    momentum : float
        Of "momentum", in [0, 1).
    rho, epsilon : float
        Of "adadelta": the decay of its means, in (0, 1), and the constant that keeps them above
        zero.

    Raises
    ------
    OptionError
        A value outside its range.

    References
    ----------
    Polyak (1964); Zeiler (2012), ADADELTA.
    """

    name: RuleName = "constant"
    rate: float = 1e-4
    decay: float = 0.0
    momentum: float = 0.9
    rho: float = 0.95
    epsilon: float = 1e-5

    def __post_init__(self) -> None:
        _one_of("rule", self.name, RuleName)
        _within("rate", self.rate, 0, np.inf, ends="()")
        _within("decay", self.decay, 0, np.inf, ends="[)")
        _within("rate · decay", self.rate * self.decay, 0, 1, ends="[)")
        if self.name == "momentum":
            _within("momentum", self.momentum, 0, 1, ends="[)")
            _within("momentum", self.momentum, 0, self.kept, ends="[)")
        _within("rho", self.rho, 0, 1, ends="()")
        _within("epsilon", self.epsilon, 0, np.inf, ends="()")

    @property
    def kept(self) -> float:
        """The factor by which a step shrinks the weights before it moves them."""
        part = 1.0 - self.momentum if self.name == "momentum" else 1.0
        return 1.0 - self.rate * self.decay / part


@dataclass(slots=True)
class Descent:
    """Parameters on their way; changed in place.

    Parameters
    ----------
    theta : Parameters
        The true parameters are ``scale * theta``; −inf forbids.
    first, second : Parameters, optional
        The memory of the rule: velocities in units of theta, or the means of squared gradients and
        of squared changes. Zeros by default; the constant rate has no memory.
    touched : int64 [R], optional
        The step up to which each row of the tables is.
    scale : float
    step : int
        Steps so far.
    """

    theta: Parameters
    first: Parameters | None = None
    second: Parameters | None = None
    touched: Longs | None = None
    scale: float = 1.0
    step: int = 0

    def prepare(self, rule: Rule) -> None:
        """Allocate the memory of a rule if it is missing."""
        if rule.name == "constant":
            return
        if self.first is None:
            self.first = self.theta.zeros()
        if self.second is None and rule.name == "adadelta":
            self.second = self.theta.zeros()
        if self.touched is None:
            self.touched = np.full(len(self.theta.table), self.step, dtype=np.int64)

    def now(self, rule: Rule) -> Parameters:
        """Return a copy of the true parameters, all rows brought up to the present step."""
        table, *others = (array * self.scale for array in self.theta.arrays())
        if rule.name == "momentum" and self.first is not None:
            table += self._missed(rule) * self.first.table * self.scale
        return Parameters(table, *others)

    def settle(self, rule: Rule) -> None:
        """Bring all rows up to the present step, and the scale to one, before a rule changes."""
        if self.touched is not None and self.first is not None:
            if rule.name == "momentum":
                self.theta.table[:] += self._missed(rule) * self.first.table
                self.first.table[:] *= self._fallen(rule.momentum / rule.kept)
            elif rule.name == "adadelta" and self.second is not None:
                fallen = self._fallen(rule.rho)
                self.first.table[:] *= fallen
                self.second.table[:] *= fallen
            self.touched[:] = self.step
        if self.scale != 1.0:
            self.rescale(rule)

    def _missed(self, rule: Rule) -> Floats:
        """Return the factor of the velocities that rows have not been moved by, float64 [R, 1]."""
        ratio = rule.momentum / rule.kept
        return ratio * (1.0 - self._fallen(ratio)) / (1.0 - ratio)

    def _fallen(self, ratio: float) -> Floats:
        """Return the decay of the memory of each row since its last update, float64 [R, 1]."""
        if self.touched is None:
            return np.ones((1, 1))
        return np.power(ratio, np.float64(self.step) - self.touched)[:, None]

    def rescale(self, rule: Rule) -> None:
        """Make the scale one."""
        arrays = list(self.theta.arrays())
        if rule.name == "momentum" and self.first is not None:
            arrays += self.first.arrays()
        for array in arrays:
            np.multiply(array, self.scale, out=array)
        self.scale = 1.0


@dataclass(frozen=True, slots=True)
class Controls:
    """Running means of signals; changed in place.

    Parameters
    ----------
    mean, count : float64 [1 + B]
        The first element is for all sentences, the others for one sentence each.
    """

    mean: Floats
    count: Floats

    @classmethod
    def of(cls, sentences: int) -> Controls:
        """Return empty means."""
        return cls(np.zeros(1 + sentences), np.zeros(1 + sentences))


@dataclass(frozen=True, slots=True)
class Judge:
    """Rewards from gold labels.

    Parameters
    ----------
    gold : int32 [N]
        Gold labels.
    n_labels : int
    step : uint8 [L + 1, L + 1], optional
        The role of a label after another label: 1 begins a span, 2 continues the span, 0 is
        neither; label L represents both ends of the sentence. The reward is then the F of spans, 1
        where neither side has one; without it, the share of right labels.
    type : int32 [L + 1], optional
        Type of each label's spans.
    graded : bool
        For pairs: the reward is the difference between the rewards of both samples instead of 0 or
        1.

    Raises
    ------
    ShapeError
        Arrays that disagree.
    """

    gold: Ints
    n_labels: int
    step: Bytes | None = None
    type: Ints = field(default_factory=lambda: np.zeros(0, dtype=np.int32))
    graded: bool = False

    def __post_init__(self) -> None:
        if self.gold.size and not 0 <= self.gold.min() <= self.gold.max() < self.n_labels:
            raise ShapeError(f"gold holds numbers outside [0, {self.n_labels})")
        size = self.n_labels + 1
        if self.step is not None and (
            self.step.shape != (size, size) or self.type.shape != (size,)
        ):
            raise ShapeError(f"step and type are of other sizes than {size} labels and ends")


@dataclass(frozen=True, slots=True)
class Noise:
    """The noise of raters, for n samples.

    Parameters
    ----------
    error : float64 [n, 2]
        Added to the reward of the sample, and to the reward of the second sample of a pair.
    slip : float64 [n]
        A reward in [0, 1] that replaces the rating; a negative number keeps the rating.
    steps : int
        Single samples: rewards are multiples of 1 / steps; 0 leaves them as they are.

    Raises
    ------
    OptionError
        Fewer than 0 steps, or a reward above 1.
    """

    error: Floats
    slip: Floats
    steps: int = 0

    def __post_init__(self) -> None:
        if self.steps < 0 or not (self.slip <= 1.0).all():
            raise OptionError("noise needs steps of at least 0, and slip of at most 1")


# --- The C structures of learning from rewards ----------------------------------------------------


class FeedbackBatch:
    """Sentences ready for a `Feedback`; made by its `batch`."""

    def __init__(
        self, shared: dict[str, Any], graph: Any, offsets: Longs, design: SparseRows
    ) -> None:
        offsets = frozen(offsets)
        self.lengths = offsets[1:] - offsets[:-1]  # np.diff takes longer than all of one sentence
        if not len(offsets) or offsets[0] != 0 or self.lengths.min(initial=1) < 1:
            raise ShapeError("offsets must begin with 0 and rise: sentences are not empty")
        n = int(offsets[-1])
        if len(design) != n or design.n_columns != shared["R"]:
            raise ShapeError(
                f"design is {[len(design), design.n_columns]}, expected {[n, shared['R']]}"
            )
        self.offsets = offsets
        fields = {
            "indptr": array_in(design.indptr, np.int64, (n + 1,), "indptr"),
            "index": array_in(design.index, np.int32, design.index.shape, "index"),
        }
        if design.value is not None:
            fields["value"] = array_in(design.value, np.float32, design.value.shape, "value")
        starts = array_in(offsets, np.int64, (len(offsets),), "offsets")
        self.memory = [shared, *fields.values(), starts]
        self.learner = ffi.new("fc_learner *", {**shared, **fields})
        self.batch = ffi.new("fc_batch *", {"B": len(offsets) - 1, "offsets": starts})
        # Scratch for the longest sentence, and for the one with the most attributes.
        self.longest, size = int(self.lengths.max(initial=0)), ffi.new("int64_t *")
        structures, no = (graph, self.batch, self.learner), ffi.NULL
        check(lib.fc_feedback(*structures, 0, no, no, no, no, no, size), "feedback", size[0])
        self.work = ffi.from_buffer("double[]", np.empty(size[0]))
        bounds = design.indptr[offsets]
        self.most = int((bounds[1:] - bounds[:-1]).max(initial=0))

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def tokens(self, order: Longs) -> int:
        """Return the number of tokens of some sentences.

        Raises
        ------
        OptionError
            A number that is no sentence.
        """
        one = order.size == 1
        least, most = (order[0], order[0]) if one else (order.min(initial=0), order.max(initial=0))
        if order.size and not 0 <= least <= most < len(self):
            raise OptionError(f"order names an unknown sentence, expected 0 to {len(self) - 1}")
        return int(self.lengths[order[0]] if one else self.lengths[order].sum())


def controls(means: Controls, sentences: int) -> tuple[Any, ...]:
    """Return the C structure of running means, and its memory."""
    pointers = {
        name: array_in(getattr(means, name), np.float64, (1 + sentences,), name, writable=True)
        for name in ("mean", "count")
    }
    return ffi.new("fc_baseline *", pointers), pointers


def judge(known: Judge, tokens: int, n: int, noise: Noise | None) -> tuple[Any, ...]:
    """Return the C structure of a judge of n samples, and its memory."""
    fields: dict[str, Any] = {
        "L": known.n_labels,
        "gold": array_in(known.gold, np.int32, (tokens,), "gold"),
        "graded": int(known.graded),
    }
    if known.step is not None:
        fields["step"] = array_in(known.step, np.uint8, known.step.shape, "step")
        fields["type"] = array_in(known.type, np.int32, known.type.shape, "type")
    if noise is not None:
        fields["steps"] = noise.steps
        fields["error"] = array_in(noise.error, np.float64, (n, 2), "error")
        fields["slip"] = array_in(noise.slip, np.float64, (n,), "slip")
    return ffi.new("fc_judge *", fields), fields


def finite(status: int, what: str, order: Longs, where: Any) -> None:
    """Turn a status into an exception; numbers that are not finite have their own message."""
    if status == lib.FC_ENUMERIC:
        raise NumericError(
            f"{what}: the weights or a step are no longer finite at sentence "
            f"{order[where[0]]}: lower the rate, or clip"
        )
    check(status, what, where[0])


@lru_cache(maxsize=8)
def bandit(aim: Aim) -> Any:
    """Return the C structure of an aim."""
    return ffi.new(
        "fc_bandit *",
        {
            "objective": OBJECTIVES[aim.objective],
            "control": CONTROLS[aim.control],
            "clip": aim.clip,
            "temperature": aim.temperature,
            "common_rate": aim.common_rate,
            "own_rate": aim.own_rate,
            "alike": int(aim.opponent == "same"),
            "beta": aim.beta,
            "cap": aim.cap,
            "draws": aim.draws,
        },
    )
