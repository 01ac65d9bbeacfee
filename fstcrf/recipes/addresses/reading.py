"""Labelled addresses: usaddress's XML files.

An ``AddressString`` holds one element for each token, whose name is the token's label::

    <AddressString><AddressNumber>12</AddressNumber> <StreetName>Elm</StreetName></AddressString>

The parser is that of the standard library, which expands the entities that a file defines: read
files of a source that you trust.

===============  ===========================
LabelledAddress  an address that people labelled
read_addresses   the addresses of files
===============  ===========================
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree as ET

from fstcrf.errors import DataError

__all__ = ["LabelledAddress", "read_addresses"]


@dataclass(frozen=True, slots=True)
class LabelledAddress:
    """An address that people labelled.

    Parameters
    ----------
    text : str
        Its tokens, a blank between them.
    tokens, labels : tuple of str
        Tokens without the white space around them.
    """

    text: str
    tokens: tuple[str, ...]
    labels: tuple[str, ...]


def read_addresses(paths: Iterable[Path]) -> list[LabelledAddress]:
    """Return the addresses of files.

    Raises
    ------
    DataError
        A file that is no XML or holds no address.
    OSError
        A file that cannot be read.
    """
    found: list[LabelledAddress] = []
    for path in paths:
        some = list(_addresses(path))
        if not some:
            raise DataError("no AddressString in this file", path=str(path))
        found += some
    return found


def _addresses(path: Path) -> Iterator[LabelledAddress]:
    try:
        root = ET.parse(path).getroot()  # noqa: S314 (local files; see above)
    except ET.ParseError as error:
        raise DataError(f"no XML: {error}", path=str(path)) from None
    for element in root.iter("AddressString"):
        parts = [(part.text or "", part.tag) for part in element]
        kept = [(text, label) for text, label in parts if text.strip()]
        yield LabelledAddress(
            " ".join(text for text, _ in kept),
            tuple(text.strip() for text, _ in kept),
            tuple(label for _, label in kept),
        )
