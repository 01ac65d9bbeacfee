"""The program: its commands, and what happens when one fails."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Any

import click

from fstcrf import __version__
from fstcrf.cli.compose import compose
from fstcrf.cli.convert import convert
from fstcrf.cli.demo import demo
from fstcrf.cli.documents import consistency, fields
from fstcrf.cli.evaluate import evaluate
from fstcrf.cli.info import explain, info
from fstcrf.cli.pipeline import pipeline
from fstcrf.cli.recipe import recipe
from fstcrf.cli.reporting import (
    DEBUG,
    INTERRUPTED,
    Failure,
    as_failure,
    as_json,
    interruptible,
    keep_stdout,
    say,
    warned,
)
from fstcrf.cli.tag import tag
from fstcrf.cli.train import train
from fstcrf.cli.tune import tune

__all__ = ["Program", "main"]


class Program(click.Group):
    """Commands whose failures are one line on stderr and an exit status."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the commands in the order of their use."""
        del ctx
        return list(self.commands)

    def main(  # type: ignore[override]
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        *,
        standalone_mode: bool = True,
        **extra: Any,
    ) -> Any:
        """Run the program and exit; with ``standalone_mode=False`` return or raise instead."""
        if not standalone_mode:
            return super().main(args, prog_name, standalone_mode=False, **extra)
        given = sys.argv[1:] if args is None else args
        with as_json("--log-json" in given):  # options may be what is wrong: nothing is parsed yet
            status = self._status(args, extra)
        return sys.exit(status if isinstance(status, int) else 0)

    def _status(self, args: Sequence[str] | None, extra: dict[str, Any]) -> Any:
        """Run the program; say what went wrong, and return the exit status."""
        try:
            return super().main(args, "fstcrf", standalone_mode=False, **extra)
        except click.Abort:
            _show(Failure("interrupted", INTERRUPTED))
            return INTERRUPTED
        except click.ClickException as error:
            _show(error)
            return error.exit_code

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command; whatever it raises becomes a message.

        Raises
        ------
        Failure
            The command failed or was interrupted.
        """
        try:
            with interruptible(), warned():
                result = super().invoke(ctx)
                keep_stdout()
        except (click.ClickException, click.exceptions.Exit):
            raise
        except (Exception, KeyboardInterrupt) as error:
            if os.environ.get(DEBUG):
                raise
            _release_stdout()
            raise as_failure(error) from None
        return result


def _release_stdout() -> None:
    try:
        keep_stdout()
    except OSError:
        return  # it is the failure that is being reported, or follows from it


def _show(error: click.ClickException) -> None:
    message = " ".join(error.format_message().split())
    if isinstance(error, click.UsageError):
        path = error.ctx.command_path if error.ctx is not None else "fstcrf"
        message = f"{message.rstrip('.')} (see '{path} --help')"
    if message:
        event = "interrupted" if error.exit_code == INTERRUPTED else "error"
        say(message, event, status=error.exit_code)


@click.group(
    cls=Program,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(__version__, prog_name="fstcrf", message="%(prog)s %(version)s")
@click.pass_context
def main(ctx: click.Context) -> None:
    """Train, use and inspect sequence taggers: conditional random fields as transducers.

    Results go to standard output, progress and messages to standard error. Exit status: 0 done,
    1 a failure of the work, 2 wrong usage, 130 interrupted.

    \b
    New here?   fstcrf demo
    """
    if ctx.invoked_subcommand is None:
        raise click.UsageError("no command; fstcrf demo shows what it can do", ctx)


_COMMANDS = (
    demo,
    train,
    tune,
    compose,
    pipeline,
    consistency,
    fields,
    tag,
    evaluate,
    info,
    explain,
    convert,
    recipe,
)

for _command in _COMMANDS:
    main.add_command(_command)
