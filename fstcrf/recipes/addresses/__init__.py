"""US addresses: the model inside the package usaddress, under grammars.

=============  =====================================================
AddressParser  usaddress's parse and tag, many at once, never raising
=============  =====================================================
"""

from typing import TYPE_CHECKING

from fstcrf.lazy import importer

if TYPE_CHECKING:
    from fstcrf.recipes.addresses.parser import AddressParser

__all__ = ["AddressParser"]

__getattr__ = importer(__name__, {"AddressParser": "parser"})
