"""The program: its commands, each imported when it is called, and the handling of failures."""

from __future__ import annotations

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


COMMANDS = {
    "demo": Listed(
        "fstcrf.cli.demo",
        "demo",
        "Train two taggers, let them decide together, add a rule and a transducer.",
    ),
    "train": Listed("fstcrf.cli.train", "train", "Train a tagger."),
    "tune": Listed(
        "fstcrf.ext.tune.command", "tune", "Choose options of training on held-out data."
    ),
    "compose": Listed(
        "fstcrf.cli.compose",
        "compose",
        "Compose taggers that were trained separately: they decide together.",
    ),
    "pipeline": Listed(
        "fstcrf.cli.pipeline",
        "pipeline",
        "Train and use taggers in a row, each reading the labels of those before it.",
    ),
    "rules": Listed(
        "fstcrf.ext.rules.command",
        "rules",
        "Learn the costs of rules, a grammar file, on top of a tagger or together with it.",
    ),
    "segments": Listed(
        "fstcrf.cli.segments",
        "segments",
        "Train taggers of segments: features of whole stretches of tokens.",
    ),
    "consistency": Listed(
        "fstcrf.ext.documents.command",
        "consistency",
        "Estimate penalties for one token sequence with several types in a document.",
    ),
    "fields": Listed(
        "fstcrf.ext.documents.command",
        "fields",
        "Write a model of fields that agree throughout a document.",
    ),
    "tag": Listed("fstcrf.cli.tag", "tag", "Tag a file, or files into a folder."),
    "words": Listed(
        "fstcrf.ext.words.command", "words", "Find the words of unspaced text, by a lexicon."
    ),
    "eval": Listed(
        "fstcrf.cli.evaluate",
        "evaluate",
        "Score a model on a file, or labels in files, with conlleval's numbers.",
    ),
    "calibrate": Listed(
        "fstcrf.ext.calibration.command",
        "calibrate",
        "Put a model's probabilities right on held-out data.",
    ),
    "info": Listed(
        "fstcrf.cli.info",
        "info",
        "Describe a model: labels, columns, templates, training, largest weights.",
    ),
    "explain": Listed(
        "fstcrf.cli.info",
        "explain",
        "Show which features pushed which label at one token, and by how much.",
    ),
    "report": Listed(
        "fstcrf.ext.report.command",
        "report",
        "Write one page about a model on text with gold labels: scores, confusions, errors.",
    ),
    "inspect": Listed(
        "fstcrf.ext.inspect.command", "inspect", "Look into a model's lattices in a browser."
    ),
    "convert": Listed(
        "fstcrf.ext.foreign.command",
        "convert",
        "Convert a tagger: from another program's format, or to it.",
    ),
    "recipe": Listed(
        "fstcrf.recipes.command",
        "recipe",
        "Repeat an experiment and print its numbers next to the published ones.",
    ),
}
"""The commands in the order of their use."""


class Commands(click.Group):
    """Commands whose failures are one line on stderr and an exit status."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the commands in the order of their use."""
        del ctx
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return a command, whose module is imported only now."""
        del ctx
        listed = COMMANDS.get(cmd_name)
        if listed is None:
            return None
        command: click.Command = getattr(importlib.import_module(listed.module), listed.function)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of commands, without importing them."""
        del ctx
        with formatter.section("Commands"):
            room = formatter.width - 6 - max(map(len, COMMANDS))
            unread = [click.Command(name, help=listed.help) for name, listed in COMMANDS.items()]
            formatter.write_dl([(c.name or "", c.get_short_help_str(room)) for c in unread])

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
        given = sys.argv[1:] if args is None else args
        if "numpy" not in sys.modules:  # it starts threads, which nothing here uses
            os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
        with as_json("--log-json" in given):  # options may be wrong: they are not parsed yet
            status = self._status(args, extra)
        # If Ctrl-C interrupts Python while it executes a string (as it does for a dataclass),
        # `python -m` ends by the signal, with any status, until it executes another string.
        exec("")  # noqa: S102
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
        now = ": it is --partial or --no-partial now" if "'--whole-labels'" in message else ""
        message = f"{message.rstrip('.')}{now} (see '{path} --help')"
    if message:
        event = "interrupted" if error.exit_code == INTERRUPTED else "error"
        say(message, event, status=error.exit_code)


@click.group(
    cls=Commands,
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
        raise click.UsageError("no command is given: try fstcrf demo, or fstcrf --help", ctx)
