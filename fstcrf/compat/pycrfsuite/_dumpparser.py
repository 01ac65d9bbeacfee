"""What `Tagger.info` returns, and the reader of the text that `Tagger.dump` writes.

As ``pycrfsuite._dumpparser`` this file is imported once more, under that name: so nothing is defined here.
"""

from fstcrf.compat.dumptext import CRFsuiteDumpParser, ParsedDump

__all__ = ["CRFsuiteDumpParser", "ParsedDump"]
