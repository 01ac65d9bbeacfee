"""What a tagger knows of the taggers before it."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Tape"]


@dataclass(frozen=True, slots=True)
class Tape:
    """A tape that a tagger reads.

    Parameters
    ----------
    name : str
    labels : tuple of str
        Labels of the tagger that writes it.
    model : str
        Fingerprint of that tagger.
    """

    name: str
    labels: tuple[str, ...]
    model: str
