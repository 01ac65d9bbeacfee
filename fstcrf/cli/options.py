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
from fstcrf.arguments import closest
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
    """Return a message with ``--set f_gamma`` for ``f_gamma``, and ``--l2`` for ``l2``.

    A name of one word is an option at the beginning of the message, before a quoted value, and as
    ``reads=``; elsewhere it is a word.
    """
    message = message.removeprefix("training options: ")
    for parameter in command.params:
        if isinstance(parameter, click.Option) and parameter.name is not None:
            name, where = re.escape(parameter.name), r"\b"
            if "_" not in parameter.name:
                name, where = f"(?:{name}=(?=[, ]|$)|^{name}|{name}(?= '))", r"(?<![-\w])"
            message = re.sub(f"{where}{name}(?!\\w)", flag_of(parameter), message)
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


# --- Rare options ---------------------------------------------------------------------------------


class Setting(click.Option):
    """A rare option: ``--set NAME=VALUE`` gives it, or a key of a TOML file."""

    def add_to_parser(self, parser: Any, ctx: click.Context) -> None:
        """Add no flag."""

    def consume_value(self, ctx: click.Context, opts: Any) -> Any:
        """Return the value of ``--set``, of a TOML file, or the default."""
        given = [value for name, value in _assigned(opts.get(_SETTINGS)) if name == key_of(self)]
        if not given:
            return super().consume_value(ctx, opts)
        return given if self.multiple else given[-1], click.core.ParameterSource.COMMANDLINE

    def get_error_hint(self, ctx: click.Context | None) -> str:
        """Return its name in messages."""
        del ctx
        return f"'{flag_of(self)}'"


class Described(click.Option):
    """An option with a short help, and a full one for ``fstcrf options``."""

    def __init__(self, *arguments: Any, full: str, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self.full = full


_SETTINGS = "settings"
RANGE = re.compile(r"  \[[-\d.<=]*x[<>=]+[\d.]+\]|; [-\d.<=]*x[<>=]+[\d.]+(?=\])")
"""The range of a number, which ``fstcrf options`` shows."""


def _assigned(texts: Iterable[str] | None) -> list[tuple[str, str]]:
    parts = [text.partition("=") for text in texts or ()]
    return [(name.strip().replace("-", "_"), value) for name, _, value in parts]


def _check_settings(ctx: click.Context, _: click.Parameter, texts: tuple[str, ...]) -> None:
    options = {key_of(p): p for p in ctx.command.params if isinstance(p, click.Option)}
    settings = {name: p for name, p in options.items() if isinstance(p, Setting)}
    for text, (name, _value) in zip(texts, _assigned(texts), strict=True):
        if "=" not in text:
            raise click.UsageError(f"--set {text}: expected NAME=VALUE", ctx)
        if name not in settings:
            raise click.UsageError(f"--set {text}: {_unknown(name, options, ctx)}", ctx)


def _unknown(name: str, options: Mapping[str, click.Option], ctx: click.Context) -> str:
    if name in options:
        return f"{name} is an option of its own, write {flag_of(options[name])}"
    near = closest(name, [key for key, one in options.items() if isinstance(one, Setting)])
    advice = f"did you mean {near[0]!r}?" if near else f"see fstcrf options {ctx.info_name}"
    return f"there is no setting {name!r}; {advice}"


def key_of(option: click.Option) -> str:
    """Return the name of an option without dashes, as ``--set`` and TOML files have it."""
    return max(option.opts, key=len).lstrip("-").replace("-", "_")


class SettableCommand(click.Command):
    """A command whose rare options are given by ``--set``."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        if any(isinstance(parameter, Setting) for parameter in self.params):
            self.params.append(
                click.Option(
                    ["--set", _SETTINGS],
                    metavar="NAME=VALUE",
                    multiple=True,
                    is_eager=True,
                    expose_value=False,
                    callback=_check_settings,
                    help="Change a setting: see fstcrf options. Repeatable.",
                )
            )

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse arguments; the flag of a setting is an error that names ``--set``."""
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            key = error.option_name.lstrip("-").replace("-", "_")
            if any(isinstance(p, Setting) and key_of(p) == key for p in self.params):
                message = f"no such option: {error.option_name}; it is --set {key}=VALUE"
                raise click.UsageError(message, ctx) from None
            raise

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options, but for rare ones."""
        options = [p for p in self.get_params(ctx) if isinstance(p, click.Option)]
        shown = [p.get_help_record(ctx) for p in options if not isinstance(p, Setting)]
        with formatter.section("Options"):
            formatter.write_dl(
                [(name, RANGE.sub("", text)) for name, text in filter(None, shown)], col_max=28
            )


def command(name: str | None = None) -> Callable[[Callable[..., Any]], SettableCommand]:
    """Return a decorator that makes a command."""
    return click.command(name, cls=SettableCommand)


def setting(
    name: str,
    kind: Any,
    default: Any,
    says: str,
    *,
    metavar: str | None = None,
    parameter: str | None = None,
    multiple: bool = False,
    tells_default: bool = True,
) -> Callable[[Any], Any]:
    """Return a rare option; its parameter may have another name."""
    if kind is bool:
        kind, metavar = click.BOOL, "true|false"
    return click.option(
        f"--{name.replace('_', '-')}",
        parameter or name,
        cls=Setting,
        metavar=metavar,
        type=kind,
        default=default,
        multiple=multiple,
        show_default=tells_default and default is not None,
        help=says,
    )


def flag_of(option: click.Parameter) -> str:
    """Return the flag of an option; for a switch that is on by default, its off flag."""
    if isinstance(option, Setting):
        return f"--set {key_of(option)}"
    off = isinstance(option, click.Option) and option.is_flag and option.default is True
    return max(option.secondary_opts if off and option.secondary_opts else option.opts, key=len)


def flag_named(name: str) -> str:
    """Return the flag of a parameter of the command that runs."""
    command = click.get_current_context().command
    return flag_of(next(one for one in command.params if one.name == name))


# --- Where outputs go -----------------------------------------------------------------------------

STDOUT = "-"


def check_outputs(
    outputs: Mapping[str, str | None],
    inputs: Iterable[str | None] = (),
    *,
    text: Collection[str] = (),
) -> None:
    """Check before the work which files its outputs overwrite, and whether they are writable.

    Outputs are files by the options that name them. Inputs may be ``TAPE=FILE``, and need not be
    files. Outputs in `text` may be standard output.

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
    if Path(output).exists() and any(Path(output).samefile(path) for path in input_files(inputs)):
        raise click.UsageError(f"{option} {output} would overwrite an input")


def input_files(inputs: Iterable[str | None]) -> Iterator[str]:
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


def names_of(value: str) -> tuple[str, ...]:
    """Return the names in a text, with commas between them."""
    names = tuple(name.strip() for name in value.split(","))
    if "" in names:
        raise ValueError(f"{value!r} has an empty name; write word,pos,chunk")
    return names


def _numbers(value: str) -> tuple[float, ...]:
    try:
        return tuple(map(float, value.split(",")))
    except ValueError:
        raise ValueError(f"{value!r} is not numbers between commas, such as 1,0.5") from None


def choices_of(value: str) -> tuple[Any, ...]:
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


NAMES = Parsed("NAME,NAME,...", names_of)
NUMBERS = Parsed("NUMBER,NUMBER,...", _numbers)
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


LOG_JSON = setting("log_json", bool, default=False, says="Print progress as JSON lines.")
SEPARATOR = setting(
    "separator",
    click.Choice(["any", "tab", "space"]),
    "any",
    "Between columns: any run of tabs and spaces, or exactly one tab or space.",
)
TAPE_NAME = setting(
    "tape_name", str, None, "Name of the tape that it writes.", metavar="NAME", parameter="tape"
)
CHECKPOINT = setting(
    *("checkpoint", str, None),
    "File for the state of training.  [default: MODEL.checkpoint, removed at the end]",
    metavar="FILE",
)
RESUME = click.option("--resume", is_flag=True, help="Continue from the saved state.")
DEV = click.option("--dev", metavar="FILE", help="Held-out data; the best score on it decides.")
WORKERS = click.option(
    "--workers", metavar="N", type=click.IntRange(min=1), help="Processes that share the work."
)
DASK = setting(
    *("dask", str, None, "Dask scheduler for the work: tcp://10.0.0.1:8786."), metavar="ADDRESS"
)
HISTORY = setting(
    *("report", str, None, "Draw the course of the work there while it runs."),
    metavar="DIR",
    parameter="report_folder",
)
THEIR_TAPE = click.option("--tape", metavar="TAPE", help="Tape to look at, if there are several.")


def output_option(
    metavar: str, what: str, *, required: bool = False, default: str | None = None
) -> Callable[[Any], Any]:
    """Return ``-o/--output``."""
    shown = "  [default: standard output]" if default == STDOUT else ""
    return click.option(
        *("-o", "--output"),
        metavar=metavar,
        required=required,
        default=default,
        help=f"Output: {what}.{shown}",
    )


NBEST = "Print the K best, each after its rank and score."
PROBABILITIES = "Print probabilities of labels and of sequences."
TARGET = "Column of the gold labels.  [default: called like the tape]"
COLUMNS = "Names of the columns of the input: word,pos,chunk."
_INPUT = (
    click.option("--columns", type=NAMES, metavar="NAME,...", help=COLUMNS),
    click.option(
        "--format",
        "kind",
        type=click.Choice(["columns", "conllu"]),
        help="Format of the input.  [default: by its name]",
    ),
    SEPARATOR,
)


PENALTY = "Strength of the penalty l2 · |weights|²."
ITERATIONS = "Most iterations."


L1 = setting("l1", AT_LEAST_0, 0.0, "Strength of the penalty l1 · sum |weights|.", metavar="X")
QUASI_NEWTON = (
    shown("--l2", "X", AT_LEAST_0, 1.0, PENALTY),
    L1,
    shown("--max-iterations", "N", click.IntRange(min=1), 200, ITERATIONS),
    setting("checkpoint", str, None, "File for the state of training.", metavar="FILE"),
    RESUME,
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


grammar_option = click.option(
    "--grammar",
    metavar="[TAPE=]FILE",
    multiple=True,
    help="Grammar that labels obey: a .grm file, or bio. Repeatable.",
)


_SEARCH = (
    click.option(
        "--on-no-path",
        type=click.Choice(["error", "skip", "relax"]),
        default="error",
        show_default=True,
        help="If no labels are legal: stop, print _, or drop rules.",
    ),
    setting(
        "search",
        click.Choice(["auto", "lazy", "expanded"]),
        None,
        "How to find the best labels under a grammar. lazy: search, and make states when they are "
        "reached. expanded: multiply the grammar out first. auto: use the cheaper of the two.  "
        "[default: the setting of the model, else auto]",
    ),
    setting(
        *("max_states", click.IntRange(min=1), None),
        "Most states of a search.  [default: 250,000; chain 64]",
        metavar="N",
    ),
    setting(
        *("max_seconds", click.FloatRange(min=0, min_open=True), None),
        "Most seconds of a search of some thousand tokens.",
        metavar="S",
    ),
)


def search_options(command: Command) -> Command:
    """Add the options that limit the search for best labels, and handle its failure."""
    return with_options(_SEARCH, command)


WAYS = ("cascade", "marginals", "joint", "product", "chain")
"""Ways to decide several tapes."""


def decode_option(*, multiple: bool = False) -> Callable[[Any], Any]:
    """Return ``--decode``."""
    several = " Repeatable: a row for each." if multiple else ""
    return click.option(
        "--decode",
        type=click.Choice(WAYS),
        metavar="WAY",
        multiple=multiple,
        help=f"How tapes are decided: {', '.join(WAYS)}.{several}  [default: by the model]",
    )


weights_option = click.option(
    "--weights",
    type=NUMBERS,
    metavar="NUMBER,...",
    help="Factors of the taggers in a joint decision.",
)


SEED = setting("seed", click.IntRange(min=0), 0, "Random seed.", metavar="N")


threads_option = click.option(
    "--threads",
    metavar="N",
    type=click.IntRange(min=1),
    default=1,
    show_default=True,
    help="Threads; they do not change the result.",
)
