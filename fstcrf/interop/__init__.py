"""Models of other programs, read as taggers and written again.

==============  ======================================================
read_tagger     a tagger from a file of any known format
load_crfsuite   a tagger from a model of CRFsuite
load_crfpp      a tagger from a model of CRF++
load_wapiti     a tagger from a model of Wapiti
Format          a file format: how it is told, read and written
FORMATS         the formats that are known
==============  ======================================================
"""

from typing import TYPE_CHECKING

from fstcrf.lazy import importer

if TYPE_CHECKING:
    from fstcrf.interop.conversion import FORMATS, read_tagger
    from fstcrf.interop.crfpp import load_crfpp
    from fstcrf.interop.crfsuite import load_crfsuite
    from fstcrf.interop.formats import Format
    from fstcrf.interop.wapiti import load_wapiti

__all__ = ["FORMATS", "Format", "load_crfpp", "load_crfsuite", "load_wapiti", "read_tagger"]

__getattr__ = importer(
    __name__,
    {
        "FORMATS": "conversion",
        "Format": "formats",
        "load_crfpp": "crfpp",
        "load_crfsuite": "crfsuite",
        "load_wapiti": "wapiti",
        "read_tagger": "conversion",
    },
)
