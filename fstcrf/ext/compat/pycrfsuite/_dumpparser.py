"""The result of `Tagger.info`, and the reader of the text that `Tagger.dump` writes.

``pycrfsuite._dumpparser`` imports this file a second time under that name, so this file defines
nothing.
"""

from fstcrf.ext.compat.pycrfsuite.tagger import CRFsuiteDumpParser, ParsedDump

__all__ = ["CRFsuiteDumpParser", "ParsedDump"]
