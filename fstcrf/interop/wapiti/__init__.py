"""Models of Wapiti (Lavergne, Cappé and Yvon): text files that begin with ``#mdl#``.

===========  =================================================================
load_wapiti  a tagger from a model of Wapiti
WAPITI       the format
===========  =================================================================
"""

from fstcrf.interop.wapiti.loading import WAPITI, load_wapiti

__all__ = ["WAPITI", "load_wapiti"]
