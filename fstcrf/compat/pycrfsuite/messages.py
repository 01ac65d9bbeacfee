"""The training log, as CRFsuite words it: what logs are parsed for.

====  =================================================
Log   tells of each stage of a training run
====  =================================================

Each line is a message of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from fstcrf.compat.pycrfsuite.evaluation import Evaluation
from fstcrf.compat.pycrfsuite.parameters import Algorithm, Value
from fstcrf.interop.crfsuite import CRFsuiteModel
from fstcrf.train import Progress

__all__ = ["Log"]

_STAGES = 50
_NAMES = {
    ("lbfgs", "period"): "stop",
    ("lbfgs", "max_linesearch"): "linesearch.max_iterations",
}
# Of an iteration: the words before a measure, and its format.
_MEASURES = {
    "lbfgs": (
        ("Feature norm", "norm", "%f"),
        ("Error norm", "gradient", "%f"),
        ("Active features", "active", "%d"),
        ("Line search trials", "trials", "%d"),
        ("Line search step", "length", "%f"),
    ),
    "l2sgd": (
        ("Improvement ratio", "improvement", "%f"),
        ("Feature L2-norm", "norm", "%f"),
        ("Learning rate (eta)", "rate", "%f"),
        ("Total number of feature updates", "updates", "%.0f"),
    ),
}
_ONLINE_MEASURES = (("Feature norm", "norm", "%f"),)
_NO_FEATURES = -1020


class Log:
    """Tells of each stage of a training run.

    Parameters
    ----------
    algorithm : Algorithm
    values : mapping of str to value
        Of its parameters.
    tell : callable
        Receives each message.
    """

    def __init__(
        self, algorithm: Algorithm, values: Mapping[str, Value], tell: Callable[[str], object]
    ) -> None:
        self._algorithm, self._values, self._tell = algorithm, values, tell
        self._seconds = 0.0

    def holdout(self, group: int) -> None:
        """Tell which group is held out."""
        self._lines(f"Holdout group: {group + 1}", "")

    def generation(self) -> None:
        """Tell that features are being generated."""
        self._lines("Feature generation", "type: CRF1d")
        self._parameters("feature.")
        for stage in range(_STAGES + 1):
            self._tell("." if stage % 5 else str(stage // 5))
        self._lines("")

    def generated(self, features: int, seconds: float) -> None:
        """Tell of the features, and what is going to be done with them."""
        self._lines(f"Number of features: {features}", f"Seconds required: {seconds:.3f}", "")
        self._lines(self._algorithm.title)
        self._parameters("")
        self._lines("")
        if any(name.startswith("calibration.") for name in self._values):
            self._lines("Calibrating the learning rate (eta)")
            self._parameters("calibration.")
            self._lines("")

    def no_features(self) -> None:
        """Tell that there is nothing to train."""
        self._lines(f"L-BFGS terminated with error code ({_NO_FEATURES})")

    def iteration(
        self, progress: Progress, evaluation: Evaluation | None, labels: list[str]
    ) -> None:
        """Tell of an iteration."""
        method = self._algorithm.method
        measures = dict(progress.measures)
        if progress.gradient_norm is not None:
            measures["gradient"] = progress.gradient_norm
        word = "Epoch" if method == "l2sgd" else "Iteration"
        self._lines(f"***** {word} #{progress.iteration} *****", f"Loss: {progress.value:f}")
        for words, name, form in _MEASURES.get(method, _ONLINE_MEASURES):
            if name in measures:
                self._lines(f"{words}: {form % measures[name]}")
        spent, self._seconds = progress.seconds - self._seconds, progress.seconds
        self._lines(f"Seconds required for this iteration: {spent:.3f}")
        if evaluation is not None:
            self._evaluation(evaluation, labels)
        self._lines("")

    def _evaluation(self, found: Evaluation, labels: list[str]) -> None:
        self._lines("Performance by label (#match, #model, #ref) (precision, recall, F1):")
        rates = found.rates
        for i, label in enumerate(labels):
            counts = f"    {label}: ({found.match[i]}, {found.model[i]}, {found.ref[i]})"
            shown = [f"{rate:.4f}" if found.ref[i] else "******" for rate in rates[i].tolist()]
            self._lines(f"{counts} ({', '.join(shown)})")
        averages = ", ".join(f"{rate:f}" for rate in rates.mean(axis=0).tolist())
        self._lines(
            f"Macro-average precision, recall, F1: ({averages})",
            _share("Item accuracy", int(found.match.sum()), int(found.ref.sum())),
            _share("Instance accuracy", found.right, found.sequences),
        )

    def finished(self, reason: str, value: float, seconds: float) -> None:
        """Tell why training ended."""
        limited = reason.startswith("the limit")
        match self._algorithm.method:
            case "lbfgs":
                if limited:
                    why = "terminated with the maximum number of iterations"
                elif reason.startswith("gradient"):
                    why = "resulted in convergence"
                else:
                    why = "terminated with the stopping criteria"
                self._lines(f"L-BFGS {why}")
            case "l2sgd":
                why = "maximum number of iterations" if limited else "stopping criteria"
                self._lines(f"SGD terminated with the {why}", f"Loss: {value:f}")
            case _ if not limited:
                self._lines("Terminated with the stopping criterion", "")
        self.total(seconds)

    def total(self, seconds: float) -> None:
        """Tell how long it took."""
        self._lines(f"Total seconds required for training: {seconds:.3f}", "")

    def storing(self, model: CRFsuiteModel | None, features: int, attributes: int) -> None:
        """Tell what is stored: the weights that are not zero, of so many features."""
        kept = (0, 0, 0)
        if model is not None:
            kept = (len(model.features), model.n_attributes, len(model.labels))
        self._lines(
            "Storing the model",
            f"Number of active features: {kept[0]} ({features})",
            f"Number of active attributes: {kept[1]} ({attributes})",
            f"Number of active labels: {kept[2]} ({kept[2]})",
            "Writing labels",
            "Writing attributes",
            "Writing feature references for transitions",
            "Writing feature references for attributes",
        )

    def stored(self, seconds: float) -> None:
        """Tell that it is stored."""
        self._lines(f"Seconds required: {seconds:.3f}", "")

    def _parameters(self, prefix: str) -> None:
        """Tell the values of the parameters with a prefix, or of those without any."""
        for name, value in self._values.items():
            if name.startswith(prefix) if prefix else "." not in name:
                shown = f"{value:f}" if isinstance(value, float) else str(value)
                if isinstance(value, bool):
                    shown = str(int(value))
                if name == "calibration.samples":
                    shown = f"{value:.0f}"
                words = _NAMES.get((self._algorithm.method, name), name)
                self._lines(f"{words}: {shown}")

    def _lines(self, *lines: str) -> None:
        for line in lines:
            self._tell(f"{line}\n")


def _share(words: str, part: int, whole: int) -> str:
    return f"{words}: {part} / {whole} ({part / max(whole, 1):.4f})"
