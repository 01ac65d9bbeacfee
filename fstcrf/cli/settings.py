"""``fstcrf options``: the options and settings of commands, as their tables declare them."""

from __future__ import annotations

from collections.abc import Iterator

import click

from fstcrf.cli.main import COMMANDS, main
from fstcrf.cli.options import RANGE, Described, Setting, command, key_of
from fstcrf.cli.structures import STRUCTURES


@command()
@click.argument("names", metavar="[COMMAND]...", nargs=-1)
@click.pass_context
def options(context: click.Context, /, names: tuple[str, ...]) -> None:
    """List the options of a command.

    Each has a name, a meaning, a default and a range. A name with dashes is an option. Another
    name is a setting, which --set NAME=VALUE changes. A TOML file in place of the texts of train
    and tune has both, as NAME = VALUE.

    \b
    fstcrf options tag
    fstcrf options train segments
    """
    name, *structures = names or ("",)
    known = dict(commands())
    if name and name not in {key.split(" ")[0] for key in known}:
        raise click.UsageError(f"no such command {name!r}; there are {', '.join(COMMANDS)}")
    wanted = {
        key: one
        for key, one in known.items()
        if not name or (key.split(" ")[0] == name and set(structures) <= set(key.split(" ")))
    }
    if not wanted:
        raise click.UsageError(
            f"fstcrf {name} has no structure {' '.join(structures)!r}; fstcrf train has "
            f"{', '.join(STRUCTURES)}"
        )
    formatter = context.make_formatter()
    for key, one in wanted.items():
        found = [p for p in one.params if isinstance(p, click.Option)]
        rows = [_row(p, context) for p in sorted(found, key=lambda p: isinstance(p, Setting))]
        if rows:
            with formatter.section(f"fstcrf {key}"):
                formatter.write_dl(rows)
    click.echo(formatter.getvalue().strip())


def commands() -> Iterator[tuple[str, click.Command]]:
    """Yield all commands; of ``train`` one for each structure, ``train --structure NAME``."""
    context = click.Context(main)
    for name in COMMANDS:
        found = main.get_command(context, name)
        assert found is not None  # noqa: S101 (it is listed)
        structures = getattr(found, "structures", None)
        if structures is None:
            yield name, found
            continue
        for structure, one in structures().items():
            yield f"{name} --structure {structure}", one


def _row(option: click.Option, context: click.Context) -> tuple[str, str]:
    left, text = option.get_help_record(context) or ("", "")
    text = text.replace("[default: True]", "[default: true]")
    text = text.replace("[default: False]", "[default: false]")
    if isinstance(option, Setting):
        left = left.replace(max(option.opts, key=len), key_of(option), 1).strip()
    limits = RANGE.findall(text)
    return left, "".join([option.full, *limits]) if isinstance(option, Described) else text
