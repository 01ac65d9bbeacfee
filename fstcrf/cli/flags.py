"""Options of training by their names on the command line, also in messages.

==============  ===================================================================
spoken          a message of the library, its options named as the command has them
in_flags        errors of a block are worded so
given_options   what the command line has, without defaults
check_training  refuse options that do not go together, before any file is read
==============  ===================================================================
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import click

from fstcrf.errors import NumericError, OptionError, SchemeError

__all__ = ["check_training", "given_options", "in_flags", "spoken"]


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
    from fstcrf.model.options import DEFAULTS

    usual = click.core.ParameterSource.DEFAULT
    return {
        name: value
        for name, value in given.items()
        if name not in DEFAULTS or context.get_parameter_source(name) is not usual
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
    import msgspec

    from fstcrf.model.options import DEFAULTS, checked_options
    from fstcrf.model.readers import check_given

    options = {name: value for name, value in given.items() if name in DEFAULTS}
    check_given(
        options,
        msgspec.structs.asdict(checked_options(options)),
        reads=bool(given["reads"]),
        dev=given["dev"] is not None,
        warm_start=given["warm_start"] is not None,
    )


def _flag(option: click.Option) -> str:
    """Return how an option is given; of a switch that is on by default, how it is turned off."""
    off = option.is_flag and option.default is True and option.secondary_opts
    return max(option.secondary_opts if off else option.opts, key=len)
