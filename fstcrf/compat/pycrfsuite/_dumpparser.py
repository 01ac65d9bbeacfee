"""What `Tagger.info` returns, and the reader of the text that `Tagger.dump` writes.

===================  =====================================
ParsedDump           header, labels, attributes, weights
CRFsuiteDumpParser   the text of a dump, line by line
===================  =====================================
"""

from fstcrf.compat.dumptext import CRFsuiteDumpParser, ParsedDump

__all__ = ["CRFsuiteDumpParser", "ParsedDump"]
