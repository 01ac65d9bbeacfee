"""``fstcrf train``: each structure of a model has a command with its own options."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from fstcrf.arguments import closest
from fstcrf.cli.options import SettableCommand, key_of
from fstcrf.errors import OptionError
from fstcrf.lazy import LazyModule
from fstcrf.text.lines import read_text

if TYPE_CHECKING:
    import tomllib
else:  # tagging does not wait for it
    tomllib = LazyModule("tomllib")

STRUCTURES = {
    "chain": ("fstcrf.cli.train", "train"),
    "segments": ("fstcrf.cli.segments", "train"),
    "words": ("fstcrf.ext.words.command", "train"),
    "rules": ("fstcrf.ext.rules.command", "train"),
    "consistency": ("fstcrf.ext.documents.command", "consistency"),
    "fields": ("fstcrf.ext.documents.command", "fields"),
    "pipeline": ("fstcrf.cli.pipeline", "train"),
}
"""Structures, and the command that trains each."""

_ENDING, _TEXTS, _TASKS = ".toml", "data", "task"


class StructureCommand(SettableCommand):
    """A command whose texts and options a TOML file may name."""

    def make_context(
        self,
        info_name: str | None,
        args: list[str],
        parent: click.Context | None = None,
        **extra: Any,
    ) -> click.Context:
        """Parse arguments; the TOML file has the options that they lack."""
        path = _toml(args)
        if path is not None and _TASKS not in (given := _read(path)):
            texts, values = self._declared(path, given)
            extra["default_map"] = values
            rest = list(args)
            rest.remove(path)
            args = [*texts, *rest]
        return super().make_context(info_name, args, parent, **extra)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse arguments; an error names the structures that have an option."""
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            key = error.option_name.lstrip("-").replace("-", "_")
            others = [
                name
                for name, one in train.structures().items()
                if any(isinstance(p, click.Option) and key_of(p) == key for p in one.params)
            ]
            if not others or self.name != "train":
                raise
            message = f"{error.option_name} is for --structure {' or '.join(others)}"
            raise click.UsageError(message, ctx) from None

    def _declared(self, path: str, given: Mapping[str, Any]) -> tuple[list[str], dict[str, Any]]:
        """Return the texts and the options of a TOML file."""
        folder = Path(path).parent
        known = {key_of(p): p for p in self.params if isinstance(p, click.Option)}
        texts: list[str] = []
        values: dict[str, Any] = {}
        for key, value in given.items():
            name = key.replace("-", "_")
            if name == _TEXTS:
                named = value if isinstance(value, list) else [value]
                texts = [str(folder / str(one)) for one in named]
            elif name in known:
                values[str(known[name].name)] = _converted(known[name], value, folder)
            else:
                near = closest(name, [*known, _TEXTS])
                advice = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(known)}"
                raise OptionError(f"{path}: there is no option {key!r}; {advice}")
        return texts, values


structure_command = click.command("train", cls=StructureCommand)


STRUCTURE = click.option(
    "--structure",
    metavar="NAME",
    type=click.Choice(list(STRUCTURES)),
    expose_value=False,
    help=f"Structure of the model: {', '.join(STRUCTURES)}. Each has its own help.",
)


class _Train(click.Command):
    """Hands over to the command of a structure."""

    def structures(self) -> dict[str, click.Command]:
        return {name: self.structure(name) for name in STRUCTURES}

    def structure(self, name: str) -> click.Command:
        module, function = STRUCTURES[name]
        found: click.Command = getattr(importlib.import_module(module), function)
        return found

    def make_context(
        self,
        info_name: str | None,
        args: list[str],
        parent: click.Context | None = None,
        **extra: Any,
    ) -> click.Context:
        """Let the command of the structure parse the arguments."""
        name, path = _given(args), _toml(args)
        if path is not None:
            given = _read(path)
            name = name or ("pipeline" if _TASKS in given else given.get("structure"))
        chosen = self.structure(name if name in STRUCTURES else "chain")
        return chosen.make_context(info_name, args, parent, **extra)


train = _Train("train", help="Train a tagger, a pipeline of them, or rules.")


def _given(args: list[str]) -> str | None:
    for arg, after in zip(args, [*args[1:], ""], strict=True):
        name, equals, value = arg.partition("=")
        if name == "--structure":
            return value if equals else after
    return None


def _toml(args: list[str]) -> str | None:
    before = ["", *args]
    files = (a for a, b in zip(args, before, strict=False) if b not in ("-o", "--output"))
    return next((file for file in files if file.endswith(_ENDING) and file[0] != "-"), None)


def _read(path: str) -> dict[str, Any]:
    try:
        return tomllib.loads(read_text(path))
    except (ValueError, RecursionError) as error:  # numbers of too many digits
        raise OptionError(f"{path}: not valid TOML: {error}") from None


def _converted(option: click.Option, value: Any, folder: Path) -> Any:
    """Return a value of a TOML file as click reads it; a file is named relative to it."""
    if isinstance(value, bool):
        return value
    if isinstance(value, dict):
        value = [f"{name}={one}" for name, one in value.items()]
    several = value if isinstance(value, list) else [value]
    if option.nargs > 1:
        return several
    parts = [_text(option, str(one), folder) for one in several]
    return parts if option.multiple else ",".join(parts)


def _text(option: click.Option, text: str, folder: Path) -> str:
    if not any(name in (option.metavar or "") for name in ("FILE", "MODEL", "DIR")):
        return text
    if option.name != "grammar":
        return str(folder / text)
    tape, equals, name = text.rpartition("=")
    built_in = not (folder / name).exists() and not Path(name).suffix
    return text if built_in else f"{tape}{equals}{folder / name}"
