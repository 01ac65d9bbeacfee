"""Write the tables of training options into their page: ``python docs/option_tables.py``.

What they say is what the structs of settings declare (`fstcrf.training.methods`,
`fstcrf.training.options`); a test fails while the page says something else.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path

from fstcrf.training.methods import OBJECTIVES
from fstcrf.training.options import (
    CHOICES,
    DEFAULTS,
    METHODS,
    STRUCTS,
    defaults_text,
    fields_named,
    methods_text,
    summary,
)
from fstcrf.training.settings import SettingField, fields_of

PAGE = Path(__file__).parent / "reference" / "options.md"
BEGIN, END = "<!-- tables: python docs/option_tables.py -->", "<!-- end of tables -->"


def tables() -> str:
    """Return the tables, in Markdown."""
    parts = [
        "## Structs of a call\n",
        *_table(("argument", "struct", "options"), _structs()),
        "\n## Objectives\n",
        *_table(("objective", "what it is", "options of its own"), _objectives()),
        "\n## Methods\n",
        *_table(("method", "objective", "what it is", "most iterations"), _methods()),
        "\n## Options\n",
        *_table(("option", "value", "default", "read by", "meaning"), _options()),
    ]
    return "\n".join(parts)


def _table(head: tuple[str, ...], rows: Iterator[tuple[str, ...]]) -> Iterator[str]:
    for row in (head, tuple("---" for _ in head), *rows):
        yield f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |"


def _structs() -> Iterator[tuple[str, ...]]:
    for argument, struct in STRUCTS.items():
        options = (struct.flat_names.get(field.name, field.name) for field in fields(struct))
        yield f"`{argument}`", f"`{struct.__name__}`", ", ".join(f"`{one}`" for one in options)


def _objectives() -> Iterator[tuple[str, ...]]:
    for name, settings in OBJECTIVES.items():
        own = ", ".join(f"`{option}`" for option in fields_of(settings))
        yield f"`{name}`", summary(name), own


def _methods() -> Iterator[tuple[str, ...]]:
    for objectives in (("likelihood",), tuple(o for o in METHODS if o != "likelihood")):
        for name, settings in METHODS[objectives[0]].items():
            what = (settings.__doc__ or "").splitlines()[0].rstrip(".")
            most = fields_of(settings)["max_iterations"].default
            yield f"`{name}`", ", ".join(f"`{o}`" for o in objectives), what, str(most)


def _options() -> Iterator[tuple[str, ...]]:
    for name in DEFAULTS:
        if name in CHOICES:
            continue
        fields = fields_named(name)
        for description in dict.fromkeys(field.meta.description or "" for field in fields):
            usual = defaults_text(name, description) or _shown(DEFAULTS[name])
            readers = methods_text(name, description) or "all"
            yield f"`{name}`", _value(fields[0]), usual, readers, description


def _shown(default: object) -> str:
    return "" if default is None else str(default).lower()


def _value(field: SettingField) -> str:
    if field.choices:
        return ", ".join(f"`{choice}`" for choice in field.choices)
    if float in field.types:
        return field.described_range
    return ", ".join(part for part in (field.described_kind, field.described_range) if part)


def renewed(page: str) -> str:
    """Return a page with the tables of now."""
    before, _, rest = page.partition(BEGIN)
    return f"{before}{BEGIN}\n\n{tables()}\n\n{END}{rest.partition(END)[2]}"


if __name__ == "__main__":
    PAGE.write_text(renewed(PAGE.read_text("utf-8")), "utf-8")
