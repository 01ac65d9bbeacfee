"""Operators of taggers: ``a @ b`` composes, ``a & grammar`` constrains.

Composition stands above the taggers; its function is looked up when an operator is used. This is
the one place that refers upward.
"""

from __future__ import annotations

from dataclasses import fields
from importlib import import_module
from typing import TYPE_CHECKING, Any

from fstcrf.errors import OptionError

if TYPE_CHECKING:
    from fstcrf.grammar import Grammar

__all__ = ["Composable"]


class Composable:
    """What composes: a tagger, or a composition of taggers; a frozen dataclass."""

    def __getstate__(self) -> dict[str, Any]:
        """Return what it is made of: what was computed from that stays here."""
        return {field.name: getattr(self, field.name) for field in fields(self)}  # type: ignore[arg-type]

    def __matmul__(self, later: Any) -> Any:
        """Return ``fstcrf.compose(self, later)``."""
        if type(later).__module__ in ("pynini", "_pynini", "pywrapfst", "_pywrapfst"):
            # Not left to the machine's own operator, which speaks of strings.
            raise OptionError("a map stands between two taggers: compose(pos, map, later)")
        if not isinstance(later, Composable):
            return NotImplemented
        return import_module("fstcrf.joint.composing").compose(self, later)

    def __and__(self, grammar: Grammar) -> Any:
        """Return ``fstcrf.compose(self, grammar=grammar)``: only what the grammar accepts."""
        from fstcrf.grammar import Grammar  # noqa: PLC0415 (tagging alone needs no grammar)

        if not isinstance(grammar, Grammar):
            return NotImplemented
        return import_module("fstcrf.joint.composing").compose(self, grammar=grammar)
