"""The tables of a pipeline's TOML file.

=====  ====================================================
Table  keys and values, checked when they are asked for
=====  ====================================================
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fstcrf.errors import OptionError
from fstcrf.model.options import not_there

__all__ = ["Table"]


@dataclass(frozen=True)
class Table:
    """A table of a TOML file.

    Parameters
    ----------
    given : mapping of str to object
    place : Path
        The file; paths in it are relative to it.
    name : str
        How it is called in messages: ``[task.ner]``.
    """

    given: Mapping[str, Any]
    place: Path
    name: str = ""

    def __contains__(self, key: str) -> bool:
        return key in self.given

    def check_keys(self, known: Collection[str], shown: Collection[str] = ()) -> None:
        """Check that there are no other keys.

        Parameters
        ----------
        known : collection of str
        shown : collection of str, optional
            Those that are worth telling where none is like the one that is wrong; all when empty.

        Raises
        ------
        OptionError
            There are.
        """
        odd = sorted(set(self.given) - set(known))
        if odd:
            who = "" if self.name else "the file "
            instead = not_there(odd[0], known, shown or known)
            raise self.error(f"{who}has {odd[0]!r}; {instead}")

    def text(self, key: str, default: str = "") -> str:
        """Return a text.

        Raises
        ------
        OptionError
            The value is none, or empty.
        """
        value = self.given.get(key, default)
        if isinstance(value, str) and (value or key not in self):
            return value
        raise self.wrong(key, "a text")

    def choice(self, key: str, choices: Collection[str]) -> str:
        """Return one of several texts, the first where the key is absent.

        Raises
        ------
        OptionError
            The value is another.
        """
        value = self.text(key, next(iter(choices)))
        if value not in choices:
            raise self.wrong(key, " or ".join(map(repr, choices)))
        return value

    def texts(self, key: str) -> list[str]:
        """Return a list of texts, of which one may stand alone; nothing where it is absent.

        Raises
        ------
        OptionError
            The value is something else.
        """
        value = self.given.get(key, [])
        several = [value] if isinstance(value, str) else value
        if isinstance(several, list) and all(isinstance(v, str) and v for v in several):
            return several
        raise self.wrong(key, "a text, or a list of texts")

    def number(self, key: str, default: float) -> float:
        """Return a number.

        Raises
        ------
        OptionError
            The value is none.
        """
        value = self.given.get(key, default)
        if not _is_number(value):
            raise self.wrong(key, "a number")
        return float(value)

    def numbers(self, key: str) -> dict[str, float]:
        """Return numbers by name; none where the key is absent.

        Raises
        ------
        OptionError
            The value is something else.
        """
        value = self.given.get(key, {})
        if not isinstance(value, dict) or not all(map(_is_number, value.values())):
            raise self.wrong(key, "names and numbers: {O = 0.5}")
        return {name: float(number) for name, number in value.items()}

    def names(self, key: str) -> dict[str, str]:
        """Return names by name; none where the key is absent.

        Raises
        ------
        OptionError
            The value is something else.
        """
        value = self.given.get(key, {})
        if not isinstance(value, dict) or not all(isinstance(v, str) and v for v in value.values()):
            raise self.wrong(key, 'names by name: {form = "word"}')
        return value

    def file(self, name: str) -> Path:
        """Return the path of a file that the table names."""
        return self.place.parent / name

    def wrong(self, key: str, expected: str) -> OptionError:
        """Return the error of a value."""
        return self.error(f"{key} is {self.given[key]!r}, expected {expected}")

    def error(self, message: str) -> OptionError:
        """Return an error, with the names of file and table."""
        return OptionError(f"{self.place}: {f'{self.name} ' * bool(self.name)}{message}")


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
