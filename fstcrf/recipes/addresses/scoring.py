"""Labels of addresses against those that people gave, and against those of usaddress.

========  ==================================================
Accuracy  tokens and whole addresses that are right
accuracy  compare with labels that people gave
raises    whether usaddress.tag would refuse labels
Change    a token whose label differs, and the address it is from
changes   what differs between two labellings
========  ==================================================
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from fstcrf.recipes.addresses.components import components_of
from fstcrf.recipes.addresses.parser import Parses
from fstcrf.recipes.addresses.reading import LabelledAddress

__all__ = ["Accuracy", "Change", "accuracy", "changes", "raises"]


class Accuracy(NamedTuple):
    """Tokens and whole addresses that are right.

    Parameters
    ----------
    tokens, right : int
    addresses, all_right : int
    misaligned : int
        Addresses that people split into other tokens; they are not compared.
    """

    tokens: int
    right: int
    addresses: int
    all_right: int
    misaligned: int

    @property
    def of_tokens(self) -> float:
        """Percent of the tokens that are right."""
        return 100 * self.right / max(self.tokens, 1)

    @property
    def of_addresses(self) -> float:
        """Percent of the addresses that are right as a whole."""
        return 100 * self.all_right / max(self.addresses, 1)


def accuracy(
    gold: Sequence[LabelledAddress], found: Parses, numbers: Iterable[int] | None = None
) -> Accuracy:
    """Compare with labels that people gave.

    Parameters
    ----------
    gold : sequence of LabelledAddress
    found : Parses
        Of the same addresses.
    numbers : iterable of int, optional
        Of these addresses alone.
    """
    tokens = right = addresses = all_right = misaligned = 0
    for i in range(len(gold)) if numbers is None else numbers:
        if tuple(token.strip() for token in found.tokens[i]) != gold[i].tokens:
            misaligned += 1
            continue
        same = sum(a == b for a, b in zip(gold[i].labels, found.labels[i], strict=True))
        tokens, right = tokens + len(gold[i].labels), right + same
        addresses, all_right = addresses + 1, all_right + (same == len(gold[i].labels))
    return Accuracy(tokens, right, addresses, all_right, misaligned)


def raises(labels: Sequence[str]) -> bool:
    """Tell whether a label comes back after another one, so that ``usaddress.tag`` raises."""
    try:
        components_of([("", label) for label in labels])
    except ValueError:
        return True
    return False


class Change(NamedTuple):
    """A token whose label differs.

    Parameters
    ----------
    address, token : int
    """

    address: int
    token: int


def changes(before: Parses, after: Parses) -> dict[tuple[str, str], list[Change]]:
    """Return the tokens whose labels differ, by old and new label; the most frequent kind first."""
    found: dict[tuple[str, str], list[Change]] = defaultdict(list)
    for i, (old, new) in enumerate(zip(before.labels, after.labels, strict=True)):
        for t, kind in enumerate(zip(old, new, strict=True)):
            if kind[0] != kind[1]:
                found[kind].append(Change(i, t))
    return dict(sorted(found.items(), key=lambda item: (-len(item[1]), item[0])))
