"""Models of other programs, read as taggers and written again."""

from typing import TYPE_CHECKING

from fstcrf.lazy import importer

if TYPE_CHECKING:
    from fstcrf.ext.foreign.conversion import FORMATS, read_tagger, written
    from fstcrf.ext.foreign.crfpp import load_crfpp
    from fstcrf.ext.foreign.crfsuite import load_crfsuite
    from fstcrf.ext.foreign.formats import Format
    from fstcrf.ext.foreign.wapiti import load_wapiti

__all__ = [
    "FORMATS",
    "Format",
    "load_crfpp",
    "load_crfsuite",
    "load_wapiti",
    "read_tagger",
    "written",
]

__getattr__ = importer(
    __name__,
    {
        "FORMATS": "conversion",
        "Format": "formats",
        "load_crfpp": "crfpp",
        "load_crfsuite": "crfsuite",
        "load_wapiti": "wapiti",
        "read_tagger": "conversion",
        "written": "conversion",
    },
)
