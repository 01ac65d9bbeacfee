"""A web page that shows lattices: tagger scores, labels that a grammar forbade, and reasons.

`Workbench` answers questions about sentences independently of the web; `application` serves its
answers over HTTP, for a page with one script and one style sheet.
"""

from typing import TYPE_CHECKING

from fstcrf.lazy import importer

if TYPE_CHECKING:
    from fstcrf.ext.inspect.server import Access as Access
    from fstcrf.ext.inspect.server import application as application
    from fstcrf.ext.inspect.server import serve as serve
    from fstcrf.ext.inspect.workbench import Workbench as Workbench

__all__, __getattr__ = importer(
    __name__,
    {
        "server": "Access application serve",
        "workbench": "Workbench",
    },
)
