"""Options of training by their names on the command line, also in messages.

==============  ===================================================================
spoken          a message of the library, its options named as the command has them
in_flags        errors of a block are worded so
given_options   what the command line has, without defaults
check_training  refuse options that do not go together, before any file is read
==============  ===================================================================
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

import click

from fstcrf import corpus
from fstcrf.errors import NumericError, OptionError, SchemeError
from fstcrf.lazy import LazyModule

if TYPE_CHECKING:
    from fstcrf import hyperparameters
    from fstcrf.model import options
else:  # tagging does not wait for what only training needs
    hyperparameters = LazyModule("fstcrf.hyperparameters")
    options = LazyModule("fstcrf.model.options")

__all__ = [
    "Assignment",
    "Choices",
    "CommaList",
    "Numbers",
    "SchemeName",
    "check_training",
    "given_options",
    "grammar_option",
    "in_flags",
    "input_options",
    "search_options",
    "spoken",
    "threads_option",
    "with_options",
]


def spoken(message: str, command: click.Command) -> str:
    """Return a message with ``--f-gamma`` for ``f_gamma``.

    A name of one word is an option where the message begins with it, before a quoted value, and as
    ``reads=``: elsewhere it is a word.
    """
    message = message.removeprefix("training options: ")
    for parameter in command.params:
        if isinstance(parameter, click.Option) and parameter.name is not None:
            name, where = re.escape(parameter.name), r"\b"
            if "_" not in parameter.name:
                name, where = f"(?:{name}=(?=[, ])|^{name}|{name}(?= '))", r"(?<![-\w])"
            message = re.sub(f"{where}{name}(?!\\w)", _flag(parameter), message)
    return message


@contextmanager
def in_flags(command: click.Command) -> Iterator[None]:
    """Word errors of options and of training as the command line has them.

    Raises
    ------
    OptionError, NumericError, SchemeError
        As they were raised, in other words.
    """
    try:
        yield
    except OptionError as error:
        raise OptionError(spoken(str(error), command)) from None
    except (NumericError, SchemeError) as error:
        raise type(error)(spoken(str(error), command)) from None


def given_options(context: click.Context, given: Mapping[str, Any]) -> dict[str, Any]:
    """Leave out the options of training that the command line does not have: their defaults.

    Parameters
    ----------
    context : click.Context
        Of the command.
    given : mapping of str to value
        Of the command; what is no option of training stays.
    """
    usual = click.core.ParameterSource.DEFAULT
    return {
        name: value
        for name, value in given.items()
        if name not in options.DEFAULTS or context.get_parameter_source(name) is not usual
    }


def check_training(given: Mapping[str, Any]) -> None:
    """Refuse options of training that do not go together.

    Parameters
    ----------
    given : mapping of str to value
        As `given_options` returns them; what is no option of training is not looked at.

    Raises
    ------
    OptionError
        They do not go together, one is outside what it may be, or is not read.
    """
    options.checked_options(
        {name: value for name, value in given.items() if name in options.DEFAULTS},
        reads=bool(given["reads"]),
        dev=given["dev"] is not None,
        warm_start=given["warm_start"] is not None,
    )


def _flag(option: click.Option) -> str:
    """Return how an option is given; of a switch that is on by default, how it is turned off."""
    off = option.is_flag and option.default is True and option.secondary_opts
    return max(option.secondary_opts if off else option.opts, key=len)


# --- Options that several commands share ----------------------------------------------------------

Command = TypeVar("Command", bound=Callable[..., Any])


class CommaList(click.ParamType):  # type: ignore[type-arg]
    """Names between commas, as a tuple."""

    name = "NAME,NAME,..."

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, ...]:
        """Split at commas."""
        if isinstance(value, tuple):
            return value
        names = tuple(name.strip() for name in str(value).split(","))
        if "" in names:
            self.fail(f"{value!r} has an empty name; write word,pos,chunk", param, ctx)
        return names


class Numbers(click.ParamType):  # type: ignore[type-arg]
    """Numbers between commas, as a tuple."""

    name = "NUMBER,NUMBER,..."

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[float, ...]:
        """Split at commas."""
        if isinstance(value, tuple):
            return value
        try:
            numbers = tuple(map(float, str(value).split(",")))
        except ValueError:
            self.fail(f"{value!r} is not numbers between commas, such as 1,0.5", param, ctx)
        return numbers


class Choices(click.ParamType):  # type: ignore[type-arg]
    """Numbers and ranges between commas, as a tuple."""

    name = "NUMBER|LOW..HIGH,..."

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[Any, ...]:
        """Split at commas; ``0.01..10`` becomes a `Range`."""
        if isinstance(value, tuple):
            return value
        found: list[Any] = []
        for part in str(value).split(","):
            low, dots, high = part.partition("..")
            try:
                found.append(
                    hyperparameters.Range(float(low), float(high)) if dots else float(part)
                )
            except ValueError:
                self.fail(f"{value!r} is not numbers or ranges, such as 0,0.01..10", param, ctx)
        return tuple(found)


class SchemeName(click.ParamType):  # type: ignore[type-arg]
    """The name of a tagging scheme, as the library knows it."""

    name = "SCHEME"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Look it up."""
        try:
            corpus.named_scheme(str(value))
        except OptionError as error:
            self.fail(str(error), param, ctx)
        return str(value)


class Assignment(click.ParamType):  # type: ignore[type-arg]
    """``LABEL=NUMBER``, as a pair."""

    name = "LABEL=NUMBER"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, float]:
        """Split at the last equals sign."""
        if isinstance(value, tuple):
            return value
        label, equals, number = str(value).rpartition("=")
        try:
            found = float(number)
        except ValueError:
            found = math.nan
        if not (equals and label and math.isfinite(found)):
            self.fail(f"{value!r} is not LABEL=NUMBER, such as O=-0.5", param, ctx)
        return label, found


_INPUT = (
    click.option(
        "--columns",
        type=CommaList(),
        help="Names of the columns of the input, one for each: word,pos,chunk. A model that knows "
        "columns by number takes 1,0 for them; where no name is a number, it goes by place.",
    ),
    click.option(
        "--format",
        "kind",
        type=click.Choice(["columns", "conllu"]),
        help="What the input is: a column file or CoNLL-U.",
    ),
    click.option(
        "--separator",
        type=click.Choice(["any", "tab", "space"]),
        default="any",
        show_default=True,
        help="Between columns: any run of tabs and spaces, or exactly one tab or space.",
    ),
)


def with_options(options: Sequence[Callable[[Any], Any]], command: Command) -> Command:
    """Add options, which stand in this order in the help."""
    for option in reversed(options):
        command = option(command)
    return command


def input_options(command: Command) -> Command:
    """Add the options that say how the input is to be read."""
    return with_options(_INPUT, command)


def grammar_option(command: Command) -> Command:
    """Add ``--grammar``."""
    option: Callable[[Command], Command] = click.option(
        "--grammar",
        metavar="[TAPE=]FILE",
        multiple=True,
        help="A .grm file that the labels must obey, or the name of a grammar that comes with "
        "fstcrf, such as bio. Repeatable.",
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
    """Add the options that say what a search for the best labels may cost, and what if it fails."""
    return with_options(_SEARCH, command)


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
