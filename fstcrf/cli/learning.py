"""Models that a command trains: progress, interruption and end of training, for any kind."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, TypeVar

import click

from fstcrf.cli.options import in_flags
from fstcrf.cli.reporting import STOPPING, Reporter, reporter, stopping, warnings_to
from fstcrf.files import held


class Learnt(Protocol):
    """A model that knows how its training went."""

    @property
    def record(self) -> Any:
        """The record of training; `reason` tells why it ended."""


LearntT = TypeVar("LearntT", bound=Learnt)


def learn(
    context: click.Context,
    output: str,
    train: Callable[[Reporter], LearntT],
    save: Callable[[LearntT], None],
    *,
    as_json: bool,
) -> None:
    """Train a model by a function that receives a reporter, and save it, with a lock on the file.

    The command of the context has an option ``--max-iterations``.
    """
    most = context.params["max_iterations"]
    with held(output, "training"), reporter(as_json=as_json, max_iterations=most) as told:
        with in_flags(context.command), stopping(told.line(STOPPING)), warnings_to(told.data):
            model = train(told)
        save(model)
        told.done(f"{output}: {model!r}; {model.record.reason}", model=output)
