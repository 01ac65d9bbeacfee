"""Learning from rewards: samples of labellings, and gradient steps along them."""

from __future__ import annotations

import operator
from dataclasses import dataclass
from typing import Any

import numpy as np

from fstcrf.arrays import Bytes, Floats, Ints, Longs
from fstcrf.errors import OptionError, ShapeError
from fstcrf.ext.feedback import descent as call
from fstcrf.ext.feedback.descent import (
    RULES,
    Aim,
    Controls,
    Descent,
    FeedbackBatch,
    Judge,
    Noise,
    Rule,
)
from fstcrf.kernel.graphs import Graph, graph_view
from fstcrf.kernel.learners import parameters_view
from fstcrf.kernel.native import array_in, array_out, ffi, lib
from fstcrf.kernel.rows import SparseRows, padded

_LEAST_SCALE = 1e-9


@dataclass(frozen=True, slots=True)
class Proposals:
    """Samples, one after the other, of n sentences with N tokens in all.

    Parameters
    ----------
    order : int64 [n]
        The sentences.
    path, other : int32 [N]
        States of the samples; `other` has the states of the second sample of each pair, otherwise
        it is empty.
    node : float64 [N, S]
        The direction of each step: the sample less the posteriors, of states ...
    arc : float64 [n, M]
        ... and of arc slots.
    log_p : float64 [n]
        Log-probability of each (first) sample; for the logistic objective, minus the
        log-probability of the second.
    """

    order: Longs
    path: Ints
    other: Ints
    node: Floats
    arc: Floats
    log_p: Floats


@dataclass(frozen=True, slots=True)
class Reinforcement:
    """The results of learning from rewards, each float64 [n].

    Parameters
    ----------
    reward : float64 [n]
    log_p : float64 [n]
        As of the proposals.
    coefficient : float64 [n]
        Signal less control: the factor of each step's direction.
    """

    reward: Floats
    log_p: Floats
    coefficient: Floats


class Feedback:
    """A topology with parameters that learn from rewards; one thread at a time.

    Parameters
    ----------
    graph : Graph
        Structure; its potentials are not read.
    slots : int32 [S, K]
        Slots whose potentials a state sums.
    arc_slot : int32 [arcs]
        Slot of each arc.
    arc_mask : uint8 [M]
        1 if the weight of an arc slot is trained.
    label : int32 [S]
        Label of each state.
    ends : bool
        Are initial and final potentials trained.
    descent : Descent
        The parameters; changed in place.
    mask : uint8 [R, W], optional
        1 if a weight is trained; by default, all are.

    Raises
    ------
    ShapeError
        Sizes or dtypes that disagree, a graph with potentials per token, a slot out of range.
    """

    def __init__(
        self,
        graph: Graph,
        *,
        slots: Ints,
        arc_slot: Ints,
        arc_mask: Bytes,
        label: Ints,
        ends: bool,
        descent: Descent,
        mask: Bytes | None = None,
    ) -> None:
        rows, width = descent.theta.table.shape
        if graph.per_token or width != padded(width):
            raise ShapeError("shared arc potentials and rows of whole registers are expected")
        for name, numbers, limit in (
            ("slots", slots, width),
            ("arc_slot", arc_slot, len(arc_mask)),
        ):
            if numbers.size and not 0 <= numbers.min() <= numbers.max() < limit:
                raise ShapeError(f"{name} holds numbers outside [0, {limit})")
        states = graph.n_states
        self.descent, self.n_states, self.n_arc_slots = descent, states, len(arc_mask)
        self._graph, self._memory = graph_view(graph)
        pointers = {
            "slot": array_in(slots, np.int32, (states, slots.shape[1]), "slots"),
            "arc_slot": array_in(arc_slot, np.int32, (graph.n_arcs,), "arc_slot"),
            "arc_mask": array_in(arc_mask, np.uint8, arc_mask.shape, "arc_mask"),
            "label": array_in(label, np.int32, (states,), "label"),
        }
        if mask is not None:
            pointers["mask"] = array_in(mask, np.uint8, (rows, width), "mask")
        sizes = {"R": rows, "W": width, "K": slots.shape[1], "M": len(arc_mask), "ends": int(ends)}
        self._shared: dict[str, Any] = {**sizes, **pointers}
        self._place = np.zeros(0, dtype=np.int32)
        self._prepared: _Prepared | None = None
        self._means: tuple[Controls, int, tuple[Any, ...]] | None = None

    def batch(self, offsets: Longs, design: SparseRows) -> FeedbackBatch:
        """Return sentences, int64 [B + 1], over a design [N, R], ready for the calls below.

        Raises
        ------
        ShapeError
            Sizes that disagree, or an empty sentence.
        """
        return FeedbackBatch(self._shared, self._graph, offsets, design)

    def propose(
        self, batch: FeedbackBatch, order: Longs, aim: Aim, rule: Rule, uniform: Floats
    ) -> Proposals:
        """Return exact samples for sentences, all at the parameters of now.

        Parameters
        ----------
        batch : FeedbackBatch
        order : int64 [n]
            Sentences.
        aim : Aim
        rule : Rule
            The one of the steps that will follow.
        uniform : float64 [N] or [2 N] for pairs
            Numbers in [0, 1).

        Raises
        ------
        NumericError
            A sentence without a path, or potentials that are not finite.
        """
        n, tokens = len(order), batch.tokens(order)
        other = np.empty(tokens if aim.pairs else 0, dtype=np.int32)
        made = Proposals(
            order,
            np.empty(tokens, dtype=np.int32),
            other,
            np.empty((tokens, self.n_states)),
            np.empty((n, self.n_arc_slots)),
            np.empty(n),
        )
        turns = self._kept(made)
        turns["uniform"] = array_in(uniform, np.float64, (tokens * (1 + aim.pairs),), "uniform")
        self._run("propose", batch, order, aim, rule, turns)
        return made

    def judge(
        self,
        batch: FeedbackBatch,
        made: Proposals,
        aim: Aim,
        judge: Judge,
        noise: Noise | None = None,
    ) -> Floats:
        """Return the rewards of samples, float64 [n] in [0, 1], with the noise of raters."""
        reward = np.empty(len(made.order))
        verdict, _memory = call.judge(judge, int(batch.offsets[-1]), len(made.order), noise)
        turns = {**self._kept(made), "judge": verdict, "reward": array_out(reward)}
        self._run("judge", batch, made.order, aim, None, turns)
        return reward

    def reinforce(
        self,
        batch: FeedbackBatch,
        made: Proposals,
        aim: Aim,
        rule: Rule,
        controls: Controls,
        reward: Floats,
    ) -> Reinforcement:
        """Make a step for each proposal, in their order.

        Parameters
        ----------
        batch : FeedbackBatch
            The sentences of the proposals.
        made : Proposals
        aim, rule : Aim, Rule
        controls : Controls
            Changed in place.
        reward : float64 [n]
            In [0, 1]; of pairs, how far the first is ahead.

        Raises
        ------
        OptionError
            A reward outside [0, 1], or, to leave one out, samples that are no groups of one
            sentence each.
        NumericError
            A step that is not finite; the steps before it are done.
        """
        if aim.draws > 1:
            _check_groups(made.order, aim.draws)
        right = (reward >= 0.0) & (reward <= 1.0)
        if not right.all():
            wrong = int(right.argmin())
            raise OptionError(
                f"the reward of proposal {wrong} is {reward[wrong]}, expected one in [0, 1]"
            )
        heard = Reinforcement(reward, made.log_p, np.empty(len(made.order)))
        turns = self._kept(made) | self._learnt(heard, controls, batch)
        self._run("reinforce", batch, made.order, aim, rule, turns)
        return heard

    def epoch(
        self,
        batch: FeedbackBatch,
        order: Longs,
        aim: Aim,
        rule: Rule,
        controls: Controls,
        judge: Judge,
        uniform: Floats,
        noise: Noise | None = None,
    ) -> Reinforcement:
        """Propose, judge and step, one sentence after the other; arguments as above.

        Raises
        ------
        OptionError
            One is to be left out: propose, judge and reinforce groups.
        NumericError
            A step that is not finite; the steps before it are done.
        """
        if aim.draws > 1:
            raise OptionError(
                "leave-one-out control needs groups of samples, not single ones: use "
                "propose, judge and reinforce"
            )
        n, tokens = len(order), batch.tokens(order)
        heard = Reinforcement(np.empty(n), np.empty(n), np.empty(n))
        verdict, _memory = call.judge(judge, int(batch.offsets[-1]), n, noise)
        path, other = np.empty((2, batch.longest), dtype=np.int32)
        turns = {
            **self._learnt(heard, controls, batch),
            **self._direction(batch),
            "judge": verdict,
            "uniform": array_in(uniform, np.float64, (tokens * (1 + aim.pairs),), "uniform"),
            "path": array_out(path),
            "other": array_out(other),
        }
        self._run("feedback", batch, order, aim, rule, turns)
        return heard

    def replay(
        self,
        batch: FeedbackBatch,
        order: Longs,
        aim: Aim,
        rule: Rule,
        controls: Controls,
        path: Ints,
        reward: Floats,
        drawn: Floats,
    ) -> Reinforcement:
        """Make a step for each sample of a log, one after the other.

        Parameters
        ----------
        batch : FeedbackBatch
            A sentence for each of its B samples.
        order : int64 [n]
            Samples.
        aim, rule : Aim, Rule
        controls : Controls
            Changed in place.
        path : int32 [N]
            States of the samples.
        reward, drawn : float64 [B]
            Rewards in [0, 1]; log-probabilities with which the samples were drawn.

        Returns
        -------
        Reinforcement
            `log_p` has the log-probabilities at each step.

        Raises
        ------
        OptionError
            Pairs, the control "leave-one-out", or a path that is not in the graph.
        NumericError
            A step that is not finite, or a path of probability 0; the steps before it are done.
        """
        if aim.pairs or aim.draws > 1:
            raise OptionError(
                "a log has single samples: expected the objective expected-loss or cross-entropy, "
                "and another control than leave-one-out"
            )
        n, heard = (
            len(order),
            Reinforcement(reward[order], np.empty(len(order)), np.empty(len(order))),
        )
        batch.tokens(order)
        turns = {
            **self._learnt(heard, controls, batch),
            **self._direction(batch),
            "start": array_in(batch.offsets[order], np.int64, (n,), "start"),
            "path": array_in(path, np.int32, (int(batch.offsets[-1]),), "path"),
            "drawn": array_in(drawn[order], np.float64, (n,), "drawn"),
        }
        self._run("replay", batch, order, aim, rule, turns)
        return heard

    def _run(
        self,
        what: str,
        batch: FeedbackBatch,
        order: Longs,
        aim: Aim,
        rule: Rule | None,
        turns: dict[str, Any],
    ) -> None:
        """Draw, judge and step, as far as `turns` has the arrays; without a rule, only judge."""
        descent = None if rule is None else self._descent(rule, batch)
        numbers = array_in(order, np.int64, (len(order),), "order")
        inputs = self._graph, batch.batch, batch.learner, len(order), numbers, call.bandit(aim)
        state = ffi.NULL if descent is None else descent.pointer
        where, view = ffi.new("int64_t *"), ffi.new("fc_turns *", turns)
        status = lib.fc_feedback(*inputs, state, view, batch.work, where)
        if descent is not None and rule is not None and "baseline" in turns:
            self._read_back(descent, rule)
        if status == lib.FC_EINVAL and "start" in turns:
            raise OptionError(f"the labels of sample {order[where[0]]} are not legal")
        call.finite(status, what, order, where)

    def _kept(self, made: Proposals) -> dict[str, Any]:
        """Return the fields of turns for samples and directions that are kept."""
        n, tokens = len(made.order), len(made.path)
        fields = {
            "keeps": 1,
            "path": array_in(made.path, np.int32, (tokens,), "path"),
            "node": array_in(made.node, np.float64, (tokens, self.n_states), "node"),
            "arc": array_in(made.arc, np.float64, (n, self.n_arc_slots), "arc"),
            "log_p": array_in(made.log_p, np.float64, (n,), "log_p"),
        }
        if len(made.other):
            fields["other"] = array_in(made.other, np.int32, (tokens,), "other")
        return fields

    def _learnt(
        self, heard: Reinforcement, controls: Controls, batch: FeedbackBatch
    ) -> dict[str, Any]:
        """Return the fields of turns for what is learnt."""
        shape = heard.coefficient.shape
        return {
            "baseline": self._baseline(controls, batch)[0],
            "reward": array_in(heard.reward, np.float64, shape, "reward"),
            "log_p": array_in(heard.log_p, np.float64, shape, "log_p"),
            "coefficient": array_out(heard.coefficient),
        }

    def _direction(self, batch: FeedbackBatch) -> dict[str, Any]:
        """Return the fields of turns for the direction of one sentence."""
        node, arc = np.empty((batch.longest, self.n_states)), np.empty(self.n_arc_slots)
        return {"node": array_out(node), "arc": array_out(arc)}

    def _baseline(self, controls: Controls, batch: FeedbackBatch) -> tuple[Any, ...]:
        """Return the C structure of running means and its memory, usually from the last call."""
        known, size = self._means, len(batch)
        if known is None or known[0] is not controls or known[1] != size:
            known = self._means = (controls, size, call.controls(controls, size))
        return known[2]

    def _descent(self, rule: Rule, batch: FeedbackBatch) -> _Prepared:
        """Return the C structure of the descent, and the owner of its memory."""
        state = self.descent
        state.prepare(rule)
        known = self._prepared
        if known is None or not known.serves(state, rule, batch.most):
            known = self._prepared = self._structure(rule, batch.most)
        known.fields["scale"][0], known.fields["step"][0] = state.scale, state.step
        return known

    def _structure(self, rule: Rule, most: int) -> _Prepared:
        """Return the C structure of a rule over the parameters of now."""
        state, (rows, width) = self.descent, self.descent.theta.table.shape
        fields: dict[str, Any] = {
            "rule": RULES[rule.name],
            "rate": rule.rate,
            "decay": rule.decay,
            "momentum": rule.momentum if rule.name == "momentum" else 0.0,
            "rho": rule.rho,
            "epsilon": rule.epsilon,
            "scale": ffi.new("double *"),
            "step": ffi.new("int64_t *"),
            "small": ffi.new("double[]", max(self.n_arc_slots, 2 * self.n_states)),
        }
        keep: list[Any] = []
        for name, held in zip(
            ("theta", "first", "second"), (state.theta, state.first, state.second), strict=True
        ):
            # Memory that a rule lacks is never read; the struct needs an address nevertheless.
            part, memory = parameters_view(
                held or state.theta, (rows, width), self.n_arc_slots, self.n_states
            )
            fields[name] = part
            keep += memory
        if rule.name != "constant" and state.touched is not None:
            if not len(self._place):
                self._place = np.zeros(rows, dtype=np.int32)
            fields["touched"] = array_in(state.touched, np.int64, (rows,), "touched", writable=True)
            fields["place"] = array_in(self._place, np.int32, (rows,), "place", writable=True)
            fields["rows"] = ffi.new("int32_t[]", max(most, 1))
            fields["sums"] = ffi.from_buffer("double[]", np.empty(max(most, 1) * width))
        held_now = (state.theta, state.first, state.second, state.touched)
        return _Prepared(rule, held_now, most, ffi.new("fc_descent *", fields), fields, keep)

    def _read_back(self, descent: _Prepared, rule: Rule) -> None:
        state = self.descent
        state.scale, state.step = descent.fields["scale"][0], descent.fields["step"][0]
        if state.scale < _LEAST_SCALE:
            state.rescale(rule)


def _check_groups(order: Longs, draws: int) -> None:
    """Check that each sentence has `draws` consecutive samples."""
    groups = order[: len(order) // draws * draws].reshape(-1, draws)
    if len(order) % draws or (groups != groups[:, :1]).any():
        raise OptionError(f"samples are no groups of {draws}, each of one sentence")


@dataclass(frozen=True, slots=True)
class _Prepared:
    """The C structure of a descent: good for further calls with the same rule and arrays."""

    rule: Rule
    arrays: tuple[Any, ...]
    most: int
    pointer: Any
    fields: dict[str, Any]
    memory: list[Any]

    def serves(self, state: Descent, rule: Rule, most: int) -> bool:
        """Return whether the structure still fits a call."""
        now = (state.theta, state.first, state.second, state.touched)
        same = all(map(operator.is_, self.arrays, now))
        return same and most <= self.most and rule == self.rule
