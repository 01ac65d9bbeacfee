"""Models of other programs, read as taggers and written again."""

from typing import TYPE_CHECKING

from fstcrf.lazy import importer

if TYPE_CHECKING:
    from fstcrf.ext.foreign.conversion import FORMATS as FORMATS
    from fstcrf.ext.foreign.conversion import read_tagger as read_tagger
    from fstcrf.ext.foreign.conversion import written as written
    from fstcrf.ext.foreign.crfpp import load_crfpp as load_crfpp
    from fstcrf.ext.foreign.crfsuite import load_crfsuite as load_crfsuite
    from fstcrf.ext.foreign.formats import Format as Format
    from fstcrf.ext.foreign.wapiti import load_wapiti as load_wapiti

__all__, __getattr__ = importer(
    __name__,
    {
        "conversion": "FORMATS read_tagger written",
        "crfpp": "load_crfpp",
        "crfsuite": "load_crfsuite",
        "formats": "Format",
        "wapiti": "load_wapiti",
    },
)
