"""Training logs: what the trainer says, and what the parser reads in it."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from fstcrf.ext.compat.pycrfsuite import Trainer
from fstcrf.ext.compat.pycrfsuite.log import Evaluation, LabelScore, TrainLogParser
from tests.support.compat_data import WEATHER, sequences

ALGORITHMS = ("lbfgs", "l2sgd", "ap", "pa", "arow")


class Listening(Trainer):
    """Keeps what it is told."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.messages: list[str] = []
        self.events: list[tuple[str, Any]] = []

    def message(self, message: str) -> None:
        self.messages.append(message)
        super().message(message)

    def on_start(self, log: str) -> None:
        self.events.append(("start", log))

    def on_featgen_progress(self, log: str, percent: int) -> None:  # noqa: ARG002
        self.events.append(("progress", percent))

    def on_featgen_end(self, log: str) -> None:
        self.events.append(("featgen_end", log))

    def on_prepared(self, log: str) -> None:
        self.events.append(("prepared", log))

    def on_prepare_error(self, log: str) -> None:
        self.events.append(("prepare_error", log))

    def on_iteration(self, log: str, info: dict[str, Any]) -> None:  # noqa: ARG002
        self.events.append(("iteration", info))

    def on_optimization_end(self, log: str) -> None:
        self.events.append(("optimization_end", log))

    def on_end(self, log: str) -> None:
        self.events.append(("end", log))


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_events_in_their_order(algorithm: str, tmp_path: Any) -> None:
    trainer = Listening(algorithm, {"max_iterations": 4})
    for items, labels in zip(*sequences(0), strict=True):
        trainer.append(items, labels)
    trainer.train(tmp_path / "m")
    names = [name for name, _ in trainer.events]
    assert names[0] == "start"
    assert [percent for name, percent in trainer.events if name == "progress"] == [
        *range(0, 101, 2)
    ]
    assert names[52:54] == ["featgen_end", "prepared"]
    n = len(names) - 56
    assert names[54:] == ["iteration"] * n + ["optimization_end", "end"]
    assert 1 <= n <= 4
    log = trainer.logparser
    assert log is not None
    assert [info["num"] for info in log.iterations] == [*range(1, n + 1)]
    assert all(info["loss"] >= 0 and info["time"] >= 0 for info in log.iterations)
    assert log.last_iteration == log.iterations[-1]
    assert log.featgen_num_features is not None
    assert log.featgen_num_features > 0
    assert None not in {log.featgen_seconds, log.training_seconds, log.storing_seconds}
    # Every message is in the text of one event, in order.
    texts = [log.log[first:end] for _, first, end in log.events]
    assert [*itertools.chain.from_iterable(texts)] == trainer.messages
    assert all(message.count("\n") <= 1 for message in trainer.messages)


def test_counts_by_label() -> None:
    gold = np.array([0, 0, 1, 2, 2], dtype=np.int32)
    predicted = np.array([0, 1, 1, 2, 3], dtype=np.int32)
    found = Evaluation.of(gold, predicted, np.array([0, 2, 3, 5]), 4)
    assert found.match.tolist() == [1, 1, 1, 0]
    assert found.model.tolist() == [1, 2, 1, 1]
    assert found.ref.tolist() == [2, 1, 2, 0]
    assert (found.sequences, found.right) == (3, 1)
    third = [2 / 3] * 3
    assert found.rates[:, 0].tolist() == [1, 0.5, 1, 0]
    assert found.rates[:, 1].tolist() == [0.5, 1, 0.5, 0]
    assert found.rates[:3, 2] == pytest.approx(third)


def test_a_label_that_the_data_does_not_have() -> None:
    parser = TrainLogParser()
    head = ["Feature generation\n", "Number of features: 1\n", "Seconds required: 0.001\n"]
    for message in [*head, "***** Iteration #7 *****\n"]:
        parser.feed(message)
    for message in (
        "    a: b: (1, 2, 3) (0.5000, 0.3333, 0.4000)\n",
        "    c: (0, 2, 0) (******, ******, ******)\n",
        "Item accuracy: 0 / 0 (0.0000)\n",
    ):
        assert parser.feed(message) is None
    assert parser.feed("\n") == "iteration"
    assert parser.last_iteration is not None
    assert parser.last_iteration["scores"] == {
        "a: b": LabelScore(1, 2, 3, 0.5, 0.3333, 0.4),
        "c": LabelScore(0, 2, 0, None, None, None),
    }
    assert parser.last_iteration["item_accuracy"] == 0


def test_verbose_prints_everything_once(tmp_path: Any, capsys: pytest.CaptureFixture[str]) -> None:
    trainer = Trainer("lbfgs", {"max_iterations": 2})
    trainer.append(*WEATHER)
    trainer.train(tmp_path / "m")
    assert trainer.logparser is not None
    assert capsys.readouterr().out == "".join(trainer.logparser.log)
    trainer.verbose = False
    trainer.train(tmp_path / "m")
    assert capsys.readouterr().out == ""


def test_an_error_of_the_listener_ends_training(tmp_path: Any) -> None:
    class TiredError(Exception):
        pass

    class Tired(Trainer):
        def on_iteration(self, *_: Any) -> None:
            raise TiredError

    trainer = Tired()
    trainer.append(*WEATHER)
    with pytest.raises(TiredError):
        trainer.train(tmp_path / "m")
    assert not (tmp_path / "m").exists()
