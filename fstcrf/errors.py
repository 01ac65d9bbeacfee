"""What fstcrf raises: one tree, each leaf also the built-in error that a caller would expect.

::

    FstcrfError
      DataError (ValueError)              a file, sentence or value is not what it claims to be
        SchemeError                       labels that break their tagging scheme
        TemplateError                     a feature template that cannot be read or applied
        GrammarError                      a grammar that cannot be read or bound to labels
        EpsilonCycleError                 a transducer that may write for ever without reading
      OptionError (ValueError)            an argument outside what it may be
      ShapeError (ValueError)             arrays whose shapes or dtypes disagree
      LabelError (LookupError)            a label that the model or the scheme does not have
      TooLargeError (ValueError)          a product too large to expand
      NoPathError (ArithmeticError)       every label sequence is forbidden
        ContradictionError                of any length: also a GrammarError
      NumericError (ArithmeticError)      NaN or +inf where a potential is expected; divergence
      ModelFileError (OSError)            a model file that is foreign, damaged or too new
      ClusterError (RuntimeError)         workers elsewhere do not answer, or are of another version
      MissingDependencyError (ImportError)  an optional package is needed; says how to get it
      KernelError (RuntimeError)          the kernel reports what Python should have prevented

LabelWarning (UserWarning) says what was done to gold labels that break their scheme.
InexactWarning (UserWarning): answers are the best found, not proven to be the best

RecoveryWarning (UserWarning): what a machine's end left half written was dropped
LearningWarning (UserWarning): learning from rewards is of no use, a rule never matches

Messages are one line: what (file, line, token, label, shape), what was expected, what to do.
The middle of long ones, such as those that show a label of a megabyte, is left out; what cannot be
printed, such as lone surrogates, is escaped.
"""

from __future__ import annotations

import sys

__all__ = [
    "ClusterError",
    "ContradictionError",
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


_LONGEST, _END = 600, 200  # characters of a message, and those of them that are its end


def shortened(message: str) -> str:
    """Return a message without its middle where it is long: it ends with what to do.

    Examples
    --------
    >>> len(shortened("a" * 1_000_000))
    600
    """
    if len(message) <= _LONGEST:
        return message
    return f"{message[: _LONGEST - _END - 3]} … {message[-_END:]}"


def printable(message: str) -> str:
    r"""Return a message with escapes for what no terminal or file can show: it is one line.

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
    """Base of everything that fstcrf raises on purpose."""

    def __str__(self) -> str:
        return printable(shortened(super().__str__()))


class DataError(FstcrfError, ValueError):
    """A file, sentence or value is not what it claims to be.

    Parameters
    ----------
    message : str
        What is wrong and what was expected.
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
    """A feature template that cannot be read, or that names what the data does not have."""


class EpsilonCycleError(DataError):
    """A transducer that goes in a circle without reading: its states are named."""


class AmbiguousError(DataError):
    """A tropical transducer with several runs over one string, which cannot be summed."""


class GrammarError(DataError):
    """A grammar that cannot be read, that names labels which are not there, or accepts nothing."""


class OptionError(FstcrfError, ValueError):
    """An argument outside what it may be."""


class ShapeError(FstcrfError, ValueError):
    """Arrays whose shapes or dtypes disagree."""


class LabelError(FstcrfError, LookupError):
    """A label that the model or the scheme does not have."""


class NoPathError(FstcrfError, ArithmeticError):
    """Every label sequence is forbidden.

    Parameters
    ----------
    message : str
        What forbids it.
    position : int, optional
        First position at which every continuation is dead.
    sentence : int, optional
        Index of the sentence in its batch.
    constraints : tuple of str
        Names of constraints that have no path together: with any one fewer there is one. Empty
        where that is not known, or where no constraint is needed for it.
    blame : str
        What by itself forbids every label sequence, forced labels, grammar or scheme, in words;
        empty where nothing is forced.

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
        Which ones.
    constraints : tuple of str
        Their names; without any one of them there is a labelling.
    """

    def __init__(self, message: str, *, constraints: tuple[str, ...] = ()) -> None:
        self.path = self.line = self.token = self.column = None
        NoPathError.__init__(self, message, constraints=constraints)


class TooLargeError(FstcrfError, ValueError):
    """A product too large to expand, or a sentence too long; the message says what to do.

    Parameters
    ----------
    message : str
        How large it is, and what to do.
    tokens : int, optional
        The length of the sentence that is too long.
    """

    def __init__(self, message: str, *, tokens: int | None = None) -> None:
        self.tokens = tokens
        super().__init__(message)


class NumericError(FstcrfError, ArithmeticError):
    """NaN or +inf where a potential is expected, or an optimiser that diverges."""


class ModelFileError(FstcrfError, OSError):
    """A model file that is foreign, damaged or too new."""


class ClusterError(FstcrfError, RuntimeError):
    """Workers on other machines that do not answer, are gone, or have another version."""


class MissingDependencyError(FstcrfError, ImportError):
    """An optional package is needed; the message says how to install it."""


class LabelWarning(UserWarning):
    """Gold labels were repaired or left out (`on_illegal`), are not known, or in no answer.

    Or labels of a tagger are in no labelling that the scheme of a grammar allows. Or a text has
    symbols that other programs write for an empty input or output. Or a lattice has the labels of
    a tape that a transducer writes, but not its name.
    """


class MemoryWarning(UserWarning):
    """Training is expected to take more memory than there is."""


class RecoveryWarning(UserWarning):
    """What had not been acknowledged when a machine stopped was dropped from a journal."""


class LearningWarning(UserWarning):
    """Nothing is learned: rewards are low or weights diverge, a rule never matches; what to do."""


class KernelError(FstcrfError, RuntimeError):
    """The kernel reports a condition that the Python side should have prevented."""


class InexactWarning(UserWarning):
    """Answers are the best that a search found before its budget ended, not proven to be the best.

    The answers themselves say which: `Path.exact` and `Path.bound`. It is given once a call; turn
    it into an error, or ignore it, with `warnings.simplefilter`.
    """


# --- Where warnings point to ----------------------------------------------------------------------


def level_outside() -> int:
    """Return the stack level, for the function that warns, of whoever called the package."""
    level, frame = 1, sys._getframe(1)  # noqa: SLF001 (inspect.stack reads source files)
    inside = {__name__.partition(".")[0], "contextlib"}
    while frame.f_back and frame.f_globals.get("__name__", "").partition(".")[0] in inside:
        level, frame = level + 1, frame.f_back
    return level
