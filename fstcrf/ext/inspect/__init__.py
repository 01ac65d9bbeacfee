"""A page that looks into lattices: what a tagger sees, what its grammar forbade, why.

`Workbench` answers questions about sentences and knows nothing of the web; `application` puts it
behind HTTP for one script and one style sheet of our own.
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
