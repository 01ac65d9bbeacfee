"""Words of unspaced text: lexicons, the words that may stand in a text, the best ones.

=================  ===========================================================================
Lexicon            words and costs as a tagger; reads and writes MeCab's dictionaries
LexiconTagger      a lexicon and a tagger of characters, decided together
WordAnswer         the best words of texts, as flat arrays
Candidates         all words that may stand in a text, which lattices number
Dictionary, Entry  one dictionary, a word of it
Characters, Kind   kinds of characters, of which unknown words are made
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
