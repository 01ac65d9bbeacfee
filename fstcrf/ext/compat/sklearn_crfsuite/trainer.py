"""The trainer of the estimator: a line an iteration, and a table at the end."""

from __future__ import annotations

from collections.abc import Mapping

from fstcrf.ext.compat.pycrfsuite import Trainer
from fstcrf.ext.compat.pycrfsuite.log import LabelScore

_COLUMNS = (
    ("time", "time={:<5.2f}"),
    ("loss", "loss={:<8.2f}"),
    ("active_features", "active={:<5}"),
    ("avg_precision", "precision={:.3f}"),
    ("avg_recall", "recall={:.3f}"),
    ("avg_f1", "F1={:.3f}"),
    ("item_accuracy_float", "Acc(item/seq)={:.3f}"),
    ("instance_accuracy_float", "{:.3f}"),
    ("feature_norm", "feature_norm={:<8.2f}"),
)


class LinePerIterationTrainer(Trainer):
    """A trainer that prints a line for each iteration."""

    def on_iteration(self, log: str, info: dict[str, object]) -> None:  # noqa: ARG002
        """Print one line."""
        parts = [form.format(info[name]) for name, form in _COLUMNS if name in info]
        print(f"Iter {info['num']:<3} {' '.join(parts)}".rstrip())  # noqa: T201

    def on_optimization_end(self, log: str) -> None:
        """Print how the last iteration does on held-out data, label by label."""
        last = None if self.logparser is None else self.logparser.last_iteration
        if last and last["scores"]:
            print(_table(last["scores"]))  # noqa: T201
        super().on_optimization_end(log)


def _table(scores: Mapping[str, LabelScore]) -> str:
    """Return precision, recall, F and number of tokens of each label as a table."""
    width = max(len("Label"), *map(len, scores))
    head = f"{'Label':<{width}}  {'Precision':>9}  {'Recall':>6}  {'F1':>5}  {'Support':>7}"
    lines = [
        f"{label:<{width}}  {score.precision or 0:>9.3f}  {score.recall or 0:>6.3f}  "
        f"{score.f1 or 0:>5.3f}  {score.ref:>7}"
        for label, score in sorted(scores.items())
    ]
    return "\n".join(["=" * len(head), head, *lines, "-" * len(head)])
