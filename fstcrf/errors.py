"""The exceptions of fstcrf: one tree, each leaf also the built-in error that a caller would expect.

::

    FstcrfError
      DataError (ValueError)              a file, sentence or value that is not valid
        SchemeError                       labels that break their tagging scheme
        TemplateError                     a feature template that cannot be read or applied
        GrammarError                      a grammar that cannot be read or bound to labels
        EpsilonCycleError                 a transducer that may write for ever without reading
      OptionError (ValueError)            an argument that is not allowed
      ShapeError (ValueError)             arrays whose shapes or dtypes disagree
      LabelError (LookupError)            a label that the model or the scheme does not have
      TooLargeError (ValueError)          a product too large to expand
      NoPathError (ArithmeticError)       every label sequence is forbidden
        ContradictionError                of any length: also a GrammarError
      NumericError (ArithmeticError)      NaN or +inf in place of a potential; divergence
      ModelFileError (OSError)            a model file that is foreign, damaged or too new
      ClusterError (RuntimeError)         workers elsewhere do not answer, or are of another version
      MissingDependencyError (ImportError)  an optional package is needed, with how to get it
      KernelError (RuntimeError)          the kernel reports what Python should have prevented

LabelWarning (UserWarning): gold labels that break their scheme were repaired or left out
InexactWarning (UserWarning): answers are the best found, not proven to be the best
CostWarning (UserWarning): an answer costs much more than another option would

RecoveryWarning (UserWarning): an incomplete entry from before a crash was dropped
LearningWarning (UserWarning): learning from rewards has no effect, or a rule never matches

Messages are one line: the problem, its place (file, line, token, label, shape), the expectation,
and the remedy. The middle of long messages, such as ones with a label of a megabyte, is omitted;
unprintable characters, such as lone surrogates, are escaped.
"""

from __future__ import annotations

import sys
import warnings

__all__ = [
    "ClusterError",
    "ContradictionError",
    "CostWarning",
    "DataError",
    "EpsilonCycleError",
    "FstcrfError",
    "GrammarError",
    "InexactWarning",
    "KernelError",
    "LabelError",
    "LabelWarning",
    "LearningWarning",
    "MissingDependencyError",
    "ModelFileError",
    "NoPathError",
    "NumericError",
    "OptionError",
    "RecoveryWarning",
    "SchemeError",
    "ShapeError",
    "TemplateError",
    "TooLargeError",
]


_LONGEST, _END = 600, 200  # characters of a message, and characters of its end


def shortened(message: str) -> str:
    """Return a message without its middle if it is long: the end has the remedy.

    Examples
    --------
    >>> len(shortened("a" * 1_000_000))
    600
    """
    if len(message) <= _LONGEST:
        return message
    return f"{message[: _LONGEST - _END - 3]} … {message[-_END:]}"


def printable(message: str) -> str:
    r"""Return a message with escapes for unprintable characters: it is one line.

    Examples
    --------
    >>> print(printable("label '\ud800' behind\n'Zürich'"))
    label '\ud800' behind\n'Zürich'
    """
    if message.isprintable():
        return message
    shown = (c if c.isprintable() else c.encode("unicode_escape").decode() for c in message)
    return "".join(shown)


class FstcrfError(Exception):
    """Base of all exceptions that fstcrf raises on purpose."""

    def __str__(self) -> str:
        return printable(shortened(super().__str__()))


class DataError(FstcrfError, ValueError):
    """A file, sentence or value is not valid.

    Parameters
    ----------
    message : str
        The problem, and the expected value.
    path : str, optional
        File it was read from.
    line : int, optional
        Line in that file, from 1.
    sentence : int, optional
        Index of the sentence, from 0.
    token : int, optional
        Index of the token in its sentence, from 0.
    column : int, optional
        Column in that line, from 1.
    """

    def __init__(
        self,
        message: str,
        *,
        path: str | None = None,
        line: int | None = None,
        sentence: int | None = None,
        token: int | None = None,
        column: int | None = None,
    ) -> None:
        self.message = message
        self.path, self.line, self.sentence, self.token = path, line, sentence, token
        self.column = column
        super().__init__(_located(message, path, line, sentence, token, column))


def _located(
    message: str,
    path: str | None,
    line: int | None,
    sentence: int | None,
    token: int | None,
    column: int | None = None,
) -> str:
    file = path if line is None else f"{path or '<input>'}:{line}"
    file = file if column is None else f"{file}:{column}"
    places = (
        file,
        None if sentence is None else f"sentence {sentence}",
        None if token is None else f"token {token}",
    )
    return ": ".join([", ".join(p for p in places if p), message]) if any(places) else message


class SchemeError(DataError):
    """Labels that break the tagging scheme they are read under."""


class TemplateError(DataError):
    """A feature template that cannot be read, or that needs data which do not exist."""


class EpsilonCycleError(DataError):
    """A transducer with a cycle that reads no input: the message names its states."""


class AmbiguousError(DataError):
    """A tropical transducer with several runs over one string, which cannot be summed."""


class GrammarError(DataError):
    """A grammar that cannot be read, that names unknown labels, or accepts no labelling."""


class OptionError(FstcrfError, ValueError):
    """An argument that is out of range, or not one of the allowed values."""


class ShapeError(FstcrfError, ValueError):
    """Arrays whose shapes or dtypes disagree."""


class LabelError(FstcrfError, LookupError):
    """A label that the model or the scheme does not have."""


class NoPathError(FstcrfError, ArithmeticError):
    """Every label sequence is forbidden.

    Parameters
    ----------
    message : str
        The reason.
    position : int, optional
        First position without a legal continuation.
    sentence : int, optional
        Index of the sentence in its batch.
    constraints : tuple of str
        Names of constraints that have no path together: without any one of them there is a path.
        Empty if they are not known, or if there is no path even without constraints.
    blame : str
        A single cause that forbids every label sequence (forced labels, grammar or scheme), in
        words; empty without such a cause.

    Attributes
    ----------
    reason : str
        The message without its place and without blame.
    """

    def __init__(
        self,
        message: str,
        *,
        position: int | None = None,
        sentence: int | None = None,
        constraints: tuple[str, ...] = (),
        blame: str = "",
    ) -> None:
        self.position, self.sentence, self.constraints = position, sentence, constraints
        self.reason, self.blame = message, blame
        text = f"{blame}: {message}" if blame else message
        super().__init__(_located(text, None, None, sentence, position))

    def of_sentence(self, number: int | None) -> NoPathError:
        """Return the error of a sentence of a batch, by its number."""
        return NoPathError(
            self.reason,
            position=self.position,
            sentence=number,
            constraints=self.constraints,
            blame=self.blame,
        )


class ContradictionError(GrammarError, NoPathError):
    """Constraints that no sentence of any length satisfies together.

    Parameters
    ----------
    message : str
        The constraints.
    constraints : tuple of str
        Their names; without any one of them there is a labelling.
    """

    def __init__(self, message: str, *, constraints: tuple[str, ...] = ()) -> None:
        self.path = self.line = self.token = self.column = None
        NoPathError.__init__(self, message, constraints=constraints)


class TooLargeError(FstcrfError, ValueError):
    """A product too large to expand, or a sentence too long; the message has a remedy.

    Parameters
    ----------
    message : str
        The size, and a remedy.
    tokens : int, optional
        The length of the sentence that is too long.
    """

    def __init__(self, message: str, *, tokens: int | None = None) -> None:
        self.tokens = tokens
        super().__init__(message)


class NumericError(FstcrfError, ArithmeticError):
    """NaN or +inf in place of a potential, or an optimiser that diverges."""


class ModelFileError(FstcrfError, OSError):
    """A model file that is foreign, damaged or too new."""


class ClusterError(FstcrfError, RuntimeError):
    """Workers on other machines that do not answer, are gone, or have another version."""


class MissingDependencyError(FstcrfError, ImportError):
    """An optional package is needed; the message explains how to install it."""


class LabelWarning(UserWarning):
    """Gold labels were repaired or left out (`on_illegal`), are unknown, or cannot be predicted.

    Or no legal labelling of a grammar's scheme contains some labels of a tagger. Or a text has
    symbols that other programs use for an empty input or output. Or a lattice has the labels of a
    transducer's output tape, but another tape name.
    """


class MemoryWarning(UserWarning):
    """Training is expected to take more memory than there is."""


class CostWarning(UserWarning):
    """A question costs much more than a similar one; issued once for each composition."""


class RecoveryWarning(UserWarning):
    """An unacknowledged entry of a journal, from before a crash, was dropped."""


class LearningWarning(UserWarning):
    """Learning has no effect: rewards are low, weights diverge, or a rule never matches."""


class KernelError(FstcrfError, RuntimeError):
    """The kernel reports a condition that the Python side should have prevented."""


class InexactWarning(UserWarning):
    """Answers are the best that a search found before its budget ended, not proven to be the best.

    The answers are marked: `Path.exact` and `Path.bound`. It is issued once a call; turn it into an
    error, or ignore it, with `warnings.simplefilter`.
    """


# --- Where warnings point to ----------------------------------------------------------------------


def warn(message: str, category: type[Warning]) -> None:
    """Warn, and point to the line of the first caller outside the package."""
    level, frame = 1, sys._getframe()  # noqa: SLF001 (inspect.stack reads source files)
    inside = {__name__.partition(".")[0], "contextlib"}
    while frame.f_back and frame.f_globals.get("__name__", "").partition(".")[0] in inside:
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)
