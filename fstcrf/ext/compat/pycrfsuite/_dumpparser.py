"""What `Tagger.info` returns, and the reader of the text that `Tagger.dump` writes.

``pycrfsuite._dumpparser`` imports this file once more, under that name: so nothing is defined here.
"""

from fstcrf.ext.compat.pycrfsuite.tagger import CRFsuiteDumpParser, ParsedDump

__all__ = ["CRFsuiteDumpParser", "ParsedDump"]
