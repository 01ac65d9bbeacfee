"""Words of unspaced text, learnt: conditional random fields over the lattices of a lexicon.

==================  ==========================================================================
LatticeCRF          a lexicon with learnt weights: best words, lattices, files
Words               structure of a LatticeCRF: the lexicon, and how annotations are read
WordTagger          a lexicon or a LatticeCRF as a tagger of characters, for compositions
Annotation          annotation of the words of a text, to learn from
WordTemplates       features of words and of neighbours, ``feature.def``
read_words          annotated texts of a file; `read_marked`: texts with marks of boundaries
Rewrites            rules that rewrite a word's fields for features, ``rewrite.def``
==================  ==========================================================================
"""

from fstcrf.ext.words.annotation import Annotation, KnownWord
from fstcrf.ext.words.crf import LatticeCRF, WordCounts
from fstcrf.ext.words.structure import Words
from fstcrf.ext.words.tagger import WordTagger
from fstcrf.ext.words.templates import Rewrites, WordTemplates
from fstcrf.ext.words.texts import read_marked, read_words

__all__ = [
    "Annotation",
    "KnownWord",
    "LatticeCRF",
    "Rewrites",
    "WordCounts",
    "WordTagger",
    "WordTemplates",
    "Words",
    "read_marked",
    "read_words",
]
