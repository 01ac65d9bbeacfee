"""Labelled tokens put together, as ``usaddress.tag`` does.

=============  ===============================================
components_of  tokens by label
type_of        what kind of address the labels describe
tagged         both
=============  ===============================================
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

__all__ = ["components_of", "tagged", "type_of"]

CROSSING = "IntersectionSeparator"


def components_of(
    labelled: Sequence[tuple[str, str]], tag_mapping: Mapping[str, str] | None = None
) -> dict[str, str]:
    """Put tokens with the same label together; street names behind a crossing are second ones.

    Parameters
    ----------
    labelled : sequence of (token, label)
    tag_mapping : mapping of str to str, optional
        Other names for labels, those of second street names as well.

    Raises
    ------
    ValueError
        A label comes back after another one: usaddress's RepeatedLabelError.
    """
    found: dict[str, list[str]] = {}
    crossed, last = False, None
    for token, label in labelled:
        crossed = crossed or label == CROSSING
        name = f"Second{label}" if crossed and "StreetName" in label else label
        name = (tag_mapping.get(name) or name) if tag_mapping else name
        if name != last and name in found:
            raise ValueError(f"{name} comes back after {last}")
        found.setdefault(name, []).append(token)
        last = name
    return {name: " ".join(tokens).strip(" ,;") for name, tokens in found.items()}


def type_of(labels: Sequence[str]) -> str:
    """Return usaddress's name for what labels describe."""
    crossing, number = CROSSING in labels, "AddressNumber" in labels
    if crossing != number:
        return "Intersection" if crossing else "Street Address"
    return "PO Box" if "USPSBoxID" in labels else "Ambiguous"


def tagged(
    labelled: Sequence[tuple[str, str]], tag_mapping: Mapping[str, str] | None
) -> tuple[dict[str, str], str]:
    """Return the components of an address and its type; parameters as for `components_of`.

    Raises
    ------
    ValueError
        A label comes back after another one.
    """
    return components_of(labelled, tag_mapping), type_of([label for _, label in labelled])
