"""A page that looks into lattices: what a tagger sees, what its grammar forbade, why.

`Workbench` answers questions about sentences and knows nothing of the web; `application` puts it
behind HTTP for one script and one style sheet of our own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fstcrf.lazy import importer

if TYPE_CHECKING:
    from fstcrf.ext.inspect.server import Access, application, serve
    from fstcrf.ext.inspect.workbench import Workbench

__all__ = ["Access", "Workbench", "application", "serve"]

__getattr__ = importer(
    __name__,
    {
        "Access": "server",
        "application": "server",
        "serve": "server",
        "Workbench": "workbench",
    },
)
