"""The ``fstcrf train`` command that repeats a training.

==========  ======================================
train_line  options as a command, for a shell
==========  ======================================
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Any

import click

from fstcrf.cli.train import train

__all__ = ["train_line"]


def train_line(given: Mapping[str, Any]) -> str:
    """Return the command that trains with options, without those that have their defaults.

    Parameters
    ----------
    given : mapping of str to value
        Values by the names that the options of ``fstcrf train`` have; others are ignored.
    """
    words = ["fstcrf", "train"]
    with click.Context(train) as context:
        for parameter in train.params:
            name = str(parameter.name)
            if isinstance(parameter, click.Argument):
                words += given[name]
            elif isinstance(parameter, click.Option) and name in given:
                usual = parameter.get_default(context)
                words += [] if given[name] == usual else _words(parameter, given[name])
    return shlex.join(words)


def _words(option: click.Option, value: Any) -> list[str]:
    if value is None or value == ():
        return []
    if option.is_flag:
        return [*option.opts[:1]] if value else option.secondary_opts[:1]
    name = "-o" if "-o" in option.opts else option.opts[0]
    if option.multiple:
        return [word for one in value for word in (name, _text(one, between="="))]
    return [name, _text(value)]


def _text(value: Any, *, between: str = ",") -> str:
    if isinstance(value, tuple):
        return between.join(map(_text, value))
    return repr(value) if isinstance(value, float) else str(value)
