"""A tagger that proposes labels, receives rewards, and learns from them."""

from __future__ import annotations

import math
import operator
import os
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, NamedTuple, NoReturn, Self

import msgspec
import numpy as np

from fstcrf.errors import DataError, ModelFileError, NumericError, OptionError
from fstcrf.ext.feedback.bandit import feedback_over
from fstcrf.ext.feedback.descent import Aim, Descent, FeedbackBatch, Rule
from fstcrf.ext.feedback.folder import (
    Event,
    LearnerFolder,
    LearnerSettings,
    Proposal,
    Proposed,
    Rewarded,
    State,
    Sync,
    UniformDraws,
    Withdrawn,
    decoded,
)
from fstcrf.ext.feedback.kernel import Proposals
from fstcrf.ext.feedback.simulation import completed
from fstcrf.kernel import SparseRows
from fstcrf.lazy import Turns
from fstcrf.taggers import CRF
from fstcrf.text.sentences import SentenceLike, read_sentences
from fstcrf.training.online import collect_parameters, online_parameters

_RECENT = 256
_FIRST = np.zeros(1, dtype=np.int64)


class _Recent(NamedTuple):
    """A proposal of this process in the kernel's form, because most answers arrive soon."""

    shown: Proposal
    batch: FeedbackBatch
    made: Proposals


class FeedbackLearner:
    """Proposes labels and learns from their rewards.

    Made by `create` and `open`. When a call returns, its events are stored in the folder. A process
    that dies at any moment therefore loses nothing, and proposals may be answered days later, by
    another process. Calls from several threads wait for each other. After `close`, and in child
    processes, its attributes can still be read; everything else raises OptionError.

    Attributes
    ----------
    settings : LearnerSettings
        Aim, rule and seed.
    """

    def __init__(self, folder: LearnerFolder, model: CRF, settings: LearnerSettings) -> None:
        self.settings = settings
        self._folder, self._model = folder, model
        self._state = State(Descent(online_parameters(model.space, model.theta)))
        self._feedback = feedback_over(model.space, self._state.descent)
        self._names = [model.labels[i] for i in model.topology.state_label.tolist()]
        self._turns = Turns()
        self._recent: dict[int, _Recent] = {}
        self._draws = UniformDraws(settings.seed)

    def __reduce__(self) -> NoReturn:
        raise OptionError(
            f"a FeedbackLearner cannot be pickled: its state is {str(self._folder.path)!r}, a "
            "folder that FeedbackLearner.open reads in another process once this one has closed it"
        )

    # --- Beginning and ending -------------------------------------------------------------------

    @classmethod
    def create(
        cls,
        path: str | os.PathLike[str],
        model: CRF,
        *,
        aim: Aim = Aim(),  # noqa: B008 (frozen)
        rule: Rule = Rule(rate=0.02),  # noqa: B008 (frozen)
        seed: int = 0,
        sync: Sync = "always",
    ) -> Self:
        """Begin to learn, in a folder that is new or empty, or where beginning was cut short.

        Parameters
        ----------
        path : path
            The folder.
        model : CRF
            Where to start: `untrained`, or a trained tagger.
        aim, rule : Aim, Rule
            The objective of learning, and the rule for the size of a step.
        seed : int
            Of the samples.
        sync : {"always", "process"}
            When a call returns, its events are on the disk, or have been passed to the operating
            system: they then survive the death of the process, but not of the machine.

        Raises
        ------
        OptionError
            The folder is not empty; a control that needs several rewards of a sentence; a
            negative seed.
        OSError
            The folder cannot be written.
        """
        if aim.control == "sentence":
            raise OptionError(
                "control 'sentence' needs several rewards for the same sentence, which a "
                "learner does not have: use 'mean'"
            )
        if aim.control == "leave-one-out":
            raise OptionError(
                "control 'leave-one-out' needs several rewards per sentence before it "
                "learns, but a learner gets one at a time: use 'mean'"
            )
        folder = LearnerFolder.new(path, sync)
        try:
            start = completed(model)
            learner = cls(folder, start, LearnerSettings(aim, rule, seed))
            start.save(folder.model)
            folder.renew(learner._state, learner.settings)
        except BaseException:
            folder.close()
            raise
        return learner

    @classmethod
    def open(cls, path: str | os.PathLike[str], *, sync: Sync = "always") -> Self:
        """Open the folder of a learner and continue with its complete state.

        Raises
        ------
        ModelFileError
            A file that is missing or damaged; a record being written when the process died is
            neither, it is dropped.
        OptionError
            Another process learns there.
        OSError
            The folder does not exist or cannot be written.
        """
        folder = LearnerFolder.existing(path, sync)
        try:
            learner = cls(folder, CRF.load(folder.model), LearnerSettings(Aim(), Rule(), 0))
            learner.settings = learner._state.load(folder.state)
            learner._draws = UniformDraws(learner.settings.seed)
            learner._replay()
        except BaseException:
            folder.close()
            raise
        return learner

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Release the folder; `open` continues from it.

        Omitting this loses nothing.
        """
        with self._turns.lock:
            self._folder.close()

    def save(self) -> None:
        """Write the state that was reached, so that opening need not repeat all steps.

        Raises
        ------
        OSError
            The state cannot be written; nothing is lost.
        """
        with self._turns.lock:
            self._folder.renew(self._state, self.settings)

    # --- Proposing and learning -----------------------------------------------------------------

    def propose(self, sentence: SentenceLike) -> Proposal:
        """Return labels for a sentence, drawn from the tagger's distribution.

        Parameters
        ----------
        sentence : as for `CRF.tag`
            Not empty.

        Raises
        ------
        DataError
            An empty sentence, or one that lacks a column.
        NumericError
            Potentials that are not finite.
        OSError
            The journal cannot be written: no proposal was made.
        """
        return self.propose_all([sentence])[0]

    def propose_all(self, sentences: Iterable[SentenceLike]) -> list[Proposal]:
        """Return labels for several sentences, written to the journal at once."""
        with self._turns.lock:
            self._folder.check_held()
            made: list[tuple[_Recent, Proposed]] = []
            for sentence in sentences:
                made.append(self._proposed(sentence, self._state.made + len(made)))
            with self._folder.recorded([kept for _, kept in made]):
                for recent, kept in made:
                    self._remember(kept)
                    self._recent[kept.id] = recent
            while len(self._recent) > _RECENT:
                del self._recent[next(iter(self._recent))]
            return [recent.shown for recent, _ in made]

    def feedback(self, proposal: Proposal | int, reward: float) -> None:
        """Give the reward of a proposal, and learn from it.

        Parameters
        ----------
        proposal : Proposal or int
            One that was made and not answered yet, or its number.
        reward : float
            In [0, 1], 1 the best. For pairs, the lead of the first labels over the others, 0 if
            they do not lead; for the logistic objective, the certainty that they are better, 1/2
            for a tie.

        Raises
        ------
        OptionError
            A reward that is no number in [0, 1]; a proposal that was never made, or was answered
            already.
        NumericError
            The step would leave the finite numbers; it is not made, the proposal is answered.
        OSError
            The journal cannot be written: nothing was learnt; give the reward again.
        """
        self.feedback_all([(proposal, reward)])

    def feedback_all(self, answers: Iterable[tuple[Proposal | int, float]]) -> None:
        """Give the rewards of several proposals, written to the journal at once; all or nothing.

        Raises
        ------
        OptionError, NumericError, OSError
            As for `feedback`; before anything is learnt, but for NumericError.
        """
        with self._turns.lock:
            self._folder.check_held()
            given = list(answers)
            events = [Rewarded(_number(p), _reward(p, reward)) for p, reward in given]
            self._check_open([p for p, _ in given])
            with self._folder.recorded(events):
                failed = [event.id for event in events if not self._learn(event)]
            if failed:
                raise NumericError(
                    f"proposal {failed[0]}: the step gave weights that are not finite, and was "
                    "not made: create a learner with a lower rate, or with clipping"
                )

    def withdraw(self, proposal: Proposal | int) -> None:
        """Discard a proposal that will receive no reward.

        Raises
        ------
        OptionError
            It was never made, or was answered already.
        """
        with self._turns.lock:
            self._folder.check_held()
            event = Withdrawn(_number(proposal))
            self._check_open([proposal])
            with self._folder.recorded([event]):
                del self._state.pending[event.id]
                self._recent.pop(event.id, None)

    # --- Looking at it --------------------------------------------------------------------------

    @property
    def pending(self) -> tuple[int, ...]:
        """Numbers of the unanswered proposals."""
        return tuple(self._state.pending)

    @property
    def rewards(self) -> int:
        """Rewards so far."""
        return self._state.rewards

    @property
    def mean_reward(self) -> float:
        """The mean of all rewards, 0 if there are no rewards."""
        return self._state.reward_sum / max(self._state.rewards, 1)

    def model(self) -> CRF:
        """Return the tagger with the weights of now."""
        with self._turns.lock:
            weights = self._state.descent.now(self.settings.rule)
            theta = collect_parameters(self._model.space, weights)
            return replace(self._model, theta=theta)

    # --- Inside ---------------------------------------------------------------------------------

    def _proposed(self, sentence: SentenceLike, number: int) -> tuple[_Recent, Proposed]:
        model, aim, rule = self._model, self.settings.aim, self.settings.rule
        data = read_sentences(model.index, [sentence], model.columns, model.reads)
        if not data.lengths[0]:
            raise DataError("the sentence is empty, expected at least one token")
        design = data.design(0, 1).node
        batch = self._batch(design)
        uniform = self._draws(number, len(design) * (1 + aim.pairs))
        made = self._feedback.propose(batch, _FIRST, aim, rule, uniform)
        return _Recent(self._shown(number, made), batch, made), Proposed.of(number, design, made)

    def _shown(self, number: int, made: Proposals) -> Proposal:
        name = self._names.__getitem__
        first, second = (tuple(map(name, path.tolist())) for path in (made.path, made.other))
        log_p = float(made.log_p[0])
        if self.settings.aim.objective == "logistic":  # it is a margin
            return Proposal(number, first, second, 1.0 / (1.0 + math.exp(min(-log_p, 700.0))))
        return Proposal(number, first, second, math.exp(log_p))

    def _of(self, kept: Proposed) -> _Recent:
        """Return a proposal as the kernel has it."""
        recent = self._recent.get(kept.id)
        if recent is None:
            made = kept.proposals(self._feedback.n_states)
            batch = self._batch(kept.design(self._model.space.n_node_rows))
            recent = _Recent(self._shown(kept.id, made), batch, made)
        return recent

    def _batch(self, design: SparseRows) -> FeedbackBatch:
        return self._feedback.batch(np.asarray([0, len(design)]), design)

    def _check_open(self, proposals: Sequence[Proposal | int]) -> None:
        """Refuse proposals that this learner never made, or that were already answered."""
        state, numbers = self._state, [_number(p) for p in proposals]
        for place, (proposal, number) in enumerate(zip(proposals, numbers, strict=True)):
            if not 0 <= number < state.made:
                raise OptionError(f"proposal {number} was never made; there are {state.made}")
            if number not in state.pending or number in numbers[:place]:
                raise OptionError(f"proposal {number} was answered already, or withdrawn")
            if isinstance(proposal, Proposal) and proposal != self._of(state.pending[number]).shown:
                raise OptionError(f"proposal {number} was made by another learner")

    def _remember(self, kept: Proposed) -> None:
        self._state.pending[kept.id] = kept
        self._state.made = kept.id + 1

    def _learn(self, event: Rewarded) -> bool:
        """Make the step of a reward; return False if it would not be finite."""
        state, settings = self._state, self.settings
        one = self._of(state.pending.pop(event.id))
        self._recent.pop(event.id, None)
        state.rewards += 1
        state.reward_sum += event.reward
        reward = np.asarray([event.reward])
        try:
            self._feedback.reinforce(
                one.batch, one.made, settings.aim, settings.rule, state.controls, reward
            )
        except NumericError:
            state.refused += 1
            return False
        return True

    def _replay(self) -> None:
        for place, record in enumerate(self._folder.journal.records()):
            try:
                event = decoded(record)
                self._repeat(event)
            except (LookupError, ValueError, ArithmeticError, msgspec.DecodeError) as error:
                path = self._folder.journal.path
                raise ModelFileError(f"{path}: record {place} cannot be read: {error}") from None
        for kept in self._state.pending.values():
            try:
                self._of(kept)
            except (LookupError, ValueError, ArithmeticError) as error:
                path = self._folder.path
                raise ModelFileError(
                    f"{path}: proposal {kept.id} cannot be read: {error}"
                ) from None

    def _repeat(self, event: Event) -> None:
        if isinstance(event, Proposed):
            self._remember(event)
        elif isinstance(event, Rewarded):
            self._learn(event)
        else:
            del self._state.pending[event.id]


def _number(proposal: Proposal | int) -> int:
    if isinstance(proposal, Proposal):
        return proposal.id
    try:
        return operator.index(proposal)
    except TypeError:
        raise OptionError(f"{proposal!r} is neither a Proposal nor the number of one") from None


def _reward(proposal: Proposal | int, reward: Any) -> float:
    value = math.nan
    if not isinstance(reward, str | bytes):
        with suppress(TypeError, ValueError):
            value = float(reward)
    if not 0.0 <= value <= 1.0:
        raise OptionError(
            f"the reward of proposal {_number(proposal)} is {reward!r}, expected a number in [0, 1]"
        )
    return value
