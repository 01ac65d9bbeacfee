"""Words of unspaced text: lexicons, the words that may stand in a text, the best ones.

=================  ===========================================================================
Lexicon            words and costs as a tagger; reads and writes MeCab's dictionaries
WordAnswer         the best words of texts, as flat arrays
WordLattice        all words of a text: n best ways, probabilities, samples
Dictionary, Entry  one dictionary, a word of it
Characters, Kind   kinds of characters, of which unknown words are made
=================  ===========================================================================
"""

from fstcrf.lexicon.characters import Characters, Kind
from fstcrf.lexicon.dictionary import Dictionary, Entry
from fstcrf.lexicon.lexicon import Lexicon
from fstcrf.lexicon.words import Word, WordAnswer, WordLattice, WordPath

__all__ = [
    "Characters",
    "Dictionary",
    "Entry",
    "Kind",
    "Lexicon",
    "Word",
    "WordAnswer",
    "WordLattice",
    "WordPath",
]
