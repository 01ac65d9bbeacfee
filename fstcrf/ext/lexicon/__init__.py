"""Words of unspaced text: lexicons, candidate words of a text, and the best words.

=================  ===========================================================================
Lexicon            words and costs as a tagger; reads and writes MeCab's dictionaries
LexiconTagger      a lexicon and a tagger of characters, joint decisions
WordAnswer         the best words of texts, as flat arrays
Candidates         all candidate words of a text, numbered in lattices
Dictionary, Entry  one dictionary, one of its words
Characters, Kind   kinds of characters, which form unknown words
=================  ===========================================================================
"""

from fstcrf.ext.lexicon.characters import Characters, Kind
from fstcrf.ext.lexicon.dictionary import Dictionary, Entry
from fstcrf.ext.lexicon.lexicon import Lexicon
from fstcrf.ext.lexicon.tagging import LexiconTagger, TaggedWords
from fstcrf.ext.lexicon.words import Candidates, Word, WordAnswer

__all__ = [
    "Candidates",
    "Characters",
    "Dictionary",
    "Entry",
    "Kind",
    "Lexicon",
    "LexiconTagger",
    "TaggedWords",
    "Word",
    "WordAnswer",
]
