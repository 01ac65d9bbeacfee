"""Options of training by their names on the command line, also in messages.

==============  ===================================================================
spoken          a message of the library, its options named as the command has them
in_flags        errors of a block are worded so
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

__all__ = ["check_training", "in_flags", "spoken"]


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


def check_training(given: Mapping[str, Any]) -> None:
    """Refuse options of training that do not go together.

    Parameters
    ----------
    given : mapping of str to value
        Of a command; what is no option of training is not looked at.

    Raises
    ------
    OptionError
        They do not go together, or one is outside what it may be.
    """
    from fstcrf.model.options import Options, check_passing, checked_options

    known = set(Options.__struct_fields__)
    settings = checked_options({name: value for name, value in given.items() if name in known})
    check_passing(settings, given.get("reads", ()))


def _flag(option: click.Option) -> str:
    """Return how an option is given; of a switch that is on by default, how it is turned off."""
    off = option.is_flag and option.default is True and option.secondary_opts
    return max(option.secondary_opts if off else option.opts, key=len)
