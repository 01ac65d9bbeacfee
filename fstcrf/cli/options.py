"""Options that several commands share, their names in messages, and checks of outputs."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from fstcrf import files
from fstcrf.errors import DataError, NumericError, OptionError, SchemeError
from fstcrf.files import resolved
from fstcrf.lazy import LazyModule
from fstcrf.text import corpus

if TYPE_CHECKING:
    from fstcrf.ext import tune
    from fstcrf.training import options
else:  # tagging need not wait for imports of training
    tune = LazyModule("fstcrf.ext.tune")
    options = LazyModule("fstcrf.training.options")


def spoken(message: str, command: click.Command) -> str:
    """Return a message with ``--f-gamma`` for ``f_gamma``.

    A name of one word is an option at the beginning of the message, before a quoted value, and as
    ``reads=``; elsewhere it is a word.
    """
    message = message.removeprefix("training options: ")
    for parameter in command.params:
        if isinstance(parameter, click.Option) and parameter.name is not None:
            name, where = re.escape(parameter.name), r"\b"
            if "_" not in parameter.name:
                name, where = f"(?:{name}=(?=[, ]|$)|^{name}|{name}(?= '))", r"(?<![-\w])"
            message = re.sub(f"{where}{name}(?!\\w)", _flag(parameter), message)
    return message


@contextmanager
def in_flags(command: click.Command) -> Iterator[None]:
    """Word errors of options and of training as the command line has them."""
    try:
        yield
    except OptionError as error:
        raise OptionError(spoken(str(error), command)) from None
    except (NumericError, SchemeError) as error:
        raise type(error)(spoken(str(error), command)) from None
    except DataError as error:
        if "on_missing=" not in error.message:
            raise
        raise DataError(spoken(str(error), command)) from None


def given_options(context: click.Context, given: Mapping[str, Any]) -> dict[str, Any]:
    """Leave out those options of training that the command line does not have: their defaults."""
    usual = click.core.ParameterSource.DEFAULT
    return {
        name: value
        for name, value in given.items()
        if name not in options.DEFAULTS or context.get_parameter_source(name) is not usual
    }


def check_training(given: Mapping[str, Any]) -> None:
    """Refuse options of training that do not fit together; other options are ignored."""
    options.checked_options(
        {name: value for name, value in given.items() if name in options.DEFAULTS},
        reads=bool(given["reads"]),
        dev=given["dev"] is not None,
        start=given["start"] is not None,
    )


def _flag(option: click.Option) -> str:
    """Return the flag of an option; for a switch that is on by default, its off flag."""
    off = option.is_flag and option.default is True and option.secondary_opts
    return max(option.secondary_opts if off else option.opts, key=len)


# --- Where outputs go -----------------------------------------------------------------------------

STDOUT = "-"


def check_outputs(
    outputs: Mapping[str, str | None],
    inputs: Iterable[str | None] = (),
    *,
    text: Collection[str] = (),
) -> None:
    """Check before the work which files its outputs overwrite, and whether they are writable.

    Parameters
    ----------
    outputs : mapping of str to str, or None
        Files by the options or arguments that name them; `None` for an omitted one.
    inputs : iterable of str, or None
        Files that are read, also as ``TAPE=FILE``; names of fstcrf's grammars, and standard input,
        are not files.
    text : collection of str
        Those options whose output is text, which may be standard output.

    Raises
    ------
    click.UsageError
        An output that is an input, or another output; standard output instead of a file.
    OSError
        As for `fstcrf.files.check_writable`.
    """
    read = list(inputs)
    written: dict[str, str] = {}
    for option, path in outputs.items():
        if path is None:
            continue
        if path == STDOUT:
            if option not in text:
                raise click.UsageError(
                    f"{option} -: expected the name of a file; it cannot be standard output"
                )
            continue
        spare_inputs(path, read, option=option)
        others = [other for other, earlier in written.items() if _same_name(path, earlier)]
        if others:
            raise click.UsageError(
                f"{option} {path} would overwrite the file of {others[0]}: give another file name"
            )
        files.check_writable(path)
        written[option] = path


def spare_inputs(output: str, inputs: Iterable[str | None], *, option: str = "--output") -> None:
    """Refuse an output, which an option names, if it is one of the inputs of `check_outputs`."""
    if Path(output).exists() and any(Path(output).samefile(path) for path in _files(inputs)):
        raise click.UsageError(f"{option} {output} would overwrite an input")


def _files(inputs: Iterable[str | None]) -> Iterator[str]:
    """Yield the files that inputs are."""
    for given in inputs:
        if given is None or given == STDOUT:
            continue
        for name in (given, given.rpartition("=")[2]):
            if Path(name).is_file():
                yield name
                break


def _same_name(output: str, other: str) -> bool:
    """Return whether two outputs are one file; a device may be both."""
    plain = Path(output).is_file() or not Path(output).exists()
    return plain and resolved(output) == resolved(other)


def written_path(output: str) -> str:
    """Return the path of an output for functions that only write to paths."""
    return "/dev/stdout" if output == STDOUT else output


def shown_output(output: str) -> str:
    """Return the name of an output in messages."""
    return "standard output" if output == STDOUT else output


# --- Options that several commands share ----------------------------------------------------------

Command = TypeVar("Command", bound=Callable[..., Any])


class Parsed(click.ParamType):  # type: ignore[type-arg]  # old click: not generic
    """A value that a function reads from text; its exceptions are usage errors."""

    def __init__(self, name: str, parse: Callable[[str], Any]) -> None:
        self.name, self._parse = name, parse

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the value of a text; another value is one already."""
        if not isinstance(value, str):
            return value
        try:
            return self._parse(value)
        except (ValueError, OptionError) as error:
            self.fail(str(error), param, ctx)


def _names(value: str) -> tuple[str, ...]:
    names = tuple(name.strip() for name in value.split(","))
    if "" in names:
        raise ValueError(f"{value!r} has an empty name; write word,pos,chunk")
    return names


def _numbers(value: str) -> tuple[float, ...]:
    try:
        return tuple(map(float, value.split(",")))
    except ValueError:
        raise ValueError(f"{value!r} is not numbers between commas, such as 1,0.5") from None


def _choices(value: str) -> tuple[Any, ...]:
    """Return numbers, and ``0.01..10`` as a `Range`."""
    found: list[Any] = []
    try:
        for part in value.split(","):
            low, dots, high = part.partition("..")
            found.append(tune.Range(float(low), float(high)) if dots else float(part))
    except ValueError:
        raise ValueError(f"{value!r} is not numbers or ranges, such as 0,0.01..10") from None
    return tuple(found)


def _scheme(value: str) -> str:
    corpus.named_scheme(value)
    return value


def _assignment(value: str) -> tuple[str, float]:
    label, equals, number = value.rpartition("=")
    try:
        found = float(number)
    except ValueError:
        found = math.nan
    if not (equals and label and math.isfinite(found)):
        raise ValueError(f"{value!r} is not LABEL=NUMBER, such as O=-0.5")
    return label, found


NAMES = Parsed("NAME,NAME,...", _names)
NUMBERS = Parsed("NUMBER,NUMBER,...", _numbers)
CHOICES = Parsed("NUMBER|LOW..HIGH,...", _choices)
SCHEME = Parsed("SCHEME", _scheme)
ASSIGNMENT = Parsed("LABEL=NUMBER", _assignment)


AT_LEAST_0 = click.FloatRange(min=0)


def shown(
    flag: str, metavar: str | None, kind: Any, default: Any, says: str, *, name: str | None = None
) -> Callable[[Any], Any]:
    """Return an option whose help shows its default; its parameter may have another name."""
    names = (flag,) if name is None else (flag, name)
    return click.option(
        *names, metavar=metavar, type=kind, default=default, show_default=True, help=says
    )


def choice(
    flag: str,
    choices: Sequence[str],
    says: str,
    *,
    default: str | None = None,
    name: str | None = None,
) -> Callable[[Any], Any]:
    """Return an option with some values; the first is the default, if no other is named."""
    usual = choices[0] if default is None else default
    return shown(flag, None, click.Choice(list(choices)), usual, says, name=name)


LOG_JSON = click.option(
    "--log-json", is_flag=True, help="Progress as JSON lines on standard error."
)
SEPARATOR = choice(
    "--separator",
    ("any", "tab", "space"),
    "Between columns: any run of tabs and spaces, or exactly one tab or space.",
)

_INPUT = (
    click.option(
        "--columns",
        type=NAMES,
        help=(
            "Names of the columns of the input, one for each: word,pos,chunk. For a model "
            "with numbered columns, give their numbers, such as 1,0. If all names are words, "
            "columns are matched by position."
        ),
    ),
    click.option(
        "--format",
        "kind",
        type=click.Choice(["columns", "conllu"]),
        help="Format of the input: a column file or CoNLL-U.",
    ),
    SEPARATOR,
)


QUASI_NEWTON = (
    shown("--l2", "X", AT_LEAST_0, 1.0, "Strength of the penalty l2 · |weights|²."),
    shown("--l1", "X", AT_LEAST_0, 0.0, "Strength of the penalty l1 · sum |weights|."),
    shown("--max-iterations", "N", click.IntRange(min=1), 200, "Iterations at most."),
    click.option("--checkpoint", metavar="FILE", help="Where the state of the run is saved."),
    click.option("--resume", is_flag=True, help="Go on from the checkpoint, if it exists."),
)
"""Options of taggers that L-BFGS trains."""


def with_options(options: Sequence[Callable[[Any], Any]], command: Command) -> Command:
    """Add options in the order of the help."""
    for option in reversed(options):
        command = option(command)
    return command


def input_options(command: Command) -> Command:
    """Add the options of reading the input."""
    return with_options(_INPUT, command)


def grammar_option(command: Command) -> Command:
    """Add ``--grammar``."""
    option: Callable[[Command], Command] = click.option(
        "--grammar",
        metavar="[TAPE=]FILE",
        multiple=True,
        help=(
            "A .grm file that the labels must obey, or the name of a built-in grammar, such "
            "as bio. Repeatable."
        ),
    )
    return option(command)


_SEARCH = (
    click.option(
        "--on-no-path",
        type=click.Choice(["error", "skip", "relax"]),
        default="error",
        show_default=True,
        help="Where no label sequence is legal: stop, print _ as labels, or do without the "
        "grammar, and if that is not enough without labels known beforehand.",
    ),
    click.option(
        "--search",
        type=click.Choice(["auto", "lazy", "expanded"]),
        help=(
            "How to find the best labels under a grammar. lazy: search, and make states when "
            "they are reached. expanded: multiply the grammar out first. auto: use the "
            "cheaper of the two.  [default: the setting of the model, else auto]"
        ),
    ),
    click.option(
        "--max-states",
        metavar="N",
        type=click.IntRange(min=1),
        help="Where a grammar is too large to multiply out: states of a sentence to look at, "
        "before the best labels found are given as not proven. With a chain, labellings of a tape."
        "  [default: 250,000; 64 with a chain]",
    ),
    click.option(
        "--max-seconds",
        metavar="S",
        type=click.FloatRange(min=0, min_open=True),
        help="The same, for each run of some thousand tokens.",
    ),
)


def search_options(command: Command) -> Command:
    """Add the options that limit the search for best labels, and handle its failure."""
    return with_options(_SEARCH, command)


def seed_option(of: str) -> Callable[[Command], Command]:
    """Return a decorator that adds ``--seed``; `of` is its help text."""
    return click.option(
        "--seed", metavar="N", type=click.IntRange(min=0), default=0, show_default=True, help=of
    )


def threads_option(command: Command) -> Command:
    """Add ``--threads``."""
    option: Callable[[Command], Command] = click.option(
        "--threads",
        metavar="N",
        type=click.IntRange(min=1),
        default=1,
        show_default=True,
        help="Threads to use; the result does not depend on it.",
    )
    return option(command)
