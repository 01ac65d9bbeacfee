"""What `Tagger.info` returns, and the reader of the text that `Tagger.dump` writes."""

from fstcrf.compat.dumptext import CRFsuiteDumpParser, ParsedDump

__all__ = ["CRFsuiteDumpParser", "ParsedDump"]
