"""usaddress itself, beside which the recipe runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fstcrf.lazy import optional

__all__ = ["Peer", "installed"]


def installed() -> Any:
    """Return the package usaddress.

    Raises
    ------
    MissingDependencyError
        It is not installed.
    """
    return optional("usaddress", "usaddress is not installed: pip install 'fstcrf[usaddress]'")


class Peer:
    """What usaddress says of addresses.

    Parameters
    ----------
    addresses : sequence of str

    Attributes
    ----------
    labels : list of list of str
        Of ``usaddress.parse``.
    raised : list of int
        Addresses on which ``usaddress.tag`` raises RepeatedLabelError.
    """

    def __init__(self, addresses: Sequence[str]) -> None:
        self._package = installed()
        self._error = self._package.RepeatedLabelError
        parse = self._package.parse
        self.labels = [[label for _, label in parse(address)] for address in addresses]
        self.raised = [i for i, address in enumerate(addresses) if not self._tags(address)]

    def tag_all(self, addresses: Sequence[str]) -> None:
        """Run ``usaddress.tag`` on each address, as its users do; errors are caught."""
        for address in addresses:
            self._tags(address)

    def _tags(self, address: str) -> bool:
        try:
            self._package.tag(address)
        except self._error:
            return False
        return True
