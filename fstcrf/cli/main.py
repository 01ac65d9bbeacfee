"""The program: its commands, each imported when it is called, and the handling of failures."""

from __future__ import annotations

import gc
import importlib
import os
import sys
from collections.abc import Sequence
from typing import Any, NamedTuple

import click

from fstcrf import __version__
from fstcrf.cli.reporting import (
    DEBUG,
    INTERRUPTED,
    Failure,
    as_json,
    failed,
    interruptible,
    keep_stdout,
    open_streams,
    say,
    warned,
)
from fstcrf.errors import printable, shortened


class Listed(NamedTuple):
    """A command that is imported when it is called, and its entry in the list of commands."""

    module: str
    function: str
    help: str


GROUPS = {
    "Commands": {
        "train": Listed("cli.structures", "train", "Train a tagger, a pipeline of them, or rules."),
        "tag": Listed("cli.tag", "tag", "Tag a file, or files into a folder."),
        "eval": Listed("cli.evaluate", "evaluate", "Score a model on text with gold labels."),
        "info": Listed("cli.info", "info", "Describe a model, or explain the label of a token."),
        "compose": Listed("cli.compose", "compose", "Compose taggers, which then decide together."),
    },
    "Improve a model": {
        "tune": Listed("ext.tune.command", "tune", "Choose options of training on held-out data."),
        "calibrate": Listed(
            "ext.calibration.command", "calibrate", "Calibrate probabilities on held-out data."
        ),
        "report": Listed("ext.report.command", "report", "Write a page about a model's errors."),
        "inspect": Listed(
            "ext.inspect.command", "inspect", "Look into a model's lattices in a browser."
        ),
    },
    "Other tools": {
        "convert": Listed(
            "ext.foreign.command", "convert", "Convert a tagger from or to another program."
        ),
        "words": Listed("ext.words.command", "words", "Find the words of unspaced text."),
        "recipe": Listed("recipes.command", "recipe", "Repeat a published experiment."),
        "demo": Listed("cli.demo", "demo", "Train two taggers, compose them, add a rule."),
        "options": Listed("cli.settings", "options", "List the options of a command."),
    },
}
"""The commands by what they are for; the commonest first."""
COMMANDS = {name: one for group in GROUPS.values() for name, one in group.items()}


class Commands(click.Group):
    """Commands whose failures are one line on stderr and an exit status."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the commands, the commonest first."""
        del ctx
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return a command, whose module is imported only now."""
        del ctx
        listed = COMMANDS.get(cmd_name)
        if listed is None:
            return None
        command: click.Command = getattr(
            importlib.import_module(f"fstcrf.{listed.module}"), listed.function
        )
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command of arguments; an error names the most similar one."""
        if args and args[0] not in COMMANDS and args[0][:1] != "-":
            from fstcrf.arguments import closest  # numpy is not needed before

            near = closest(args[0], COMMANDS)
            advice = f"did you mean {near[0]!r}?" if near else "there are " + ", ".join(COMMANDS)
            raise click.UsageError(f"no such command {args[0]!r}; {advice}", ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of commands, without importing them."""
        del ctx
        wide = max(map(len, COMMANDS))
        for title, group in GROUPS.items():
            with formatter.section(title):
                formatter.write_dl([(name.ljust(wide), one.help) for name, one in group.items()])

    def main(  # type: ignore[override]  # click has overloads
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
        open_streams()
        if args is None:  # what is imported is kept: looking through it takes time
            gc.set_threshold(50_000)
        given = sys.argv[1:] if args is None else args
        if "numpy" not in sys.modules:  # it starts threads, which nothing here uses
            os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
        with as_json("log_json=true" in given):  # options may be wrong: they are not parsed yet
            status = self._status(args, extra)
        # If Ctrl-C interrupts Python while it executes a string (as it does for a dataclass),
        # `python -m` ends by the signal, with any status, until it executes another string.
        exec("")  # noqa: S102
        if args is None:  # Python would look through all objects once more
            gc.freeze()
        return sys.exit(status if isinstance(status, int) else 0)

    def _status(self, args: Sequence[str] | None, extra: dict[str, Any]) -> Any:
        """Run the program, report errors, and return the exit status."""
        try:
            return super().main(args, "fstcrf", standalone_mode=False, **extra)
        except click.Abort:
            _show(Failure("interrupted", INTERRUPTED))
            return INTERRUPTED
        except click.ClickException as error:
            _show(error)
            return error.exit_code
        except OSError as error:  # help, or the version, which click prints itself
            failure = failed(error)
            _show(failure)
            return failure.exit_code

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command; all its exceptions become messages."""
        try:
            with interruptible(), warned():
                result = super().invoke(ctx)
                keep_stdout()
        except (click.ClickException, click.exceptions.Exit):
            raise
        except (Exception, KeyboardInterrupt) as error:
            if os.environ.get(DEBUG):
                raise
            raise failed(error) from None
        return result


def _show(error: click.ClickException) -> None:
    message = printable(shortened(" ".join(error.format_message().split())))
    if isinstance(error, click.UsageError):
        path = error.ctx.command_path if error.ctx is not None else "fstcrf"
        message = f"{message.rstrip('.')} (see '{path} --help')"
    if message:
        event = "interrupted" if error.exit_code == INTERRUPTED else "error"
        say(message, event, status=error.exit_code)


@click.group(
    cls=Commands,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 80},
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
        raise click.UsageError("no command is given: try fstcrf demo, or fstcrf --help", ctx)
