"""The words of the notice board.

====== ====================================================
COMMON for each little word that has only one, its part of speech
WORDS  for each word class, its part of speech and its words
====== ====================================================

Words after the bar are *fresh*: they turn up in the dev and test parts only, so that a tagger
meets words it has never seen. Many words are in two classes on purpose ("talks", "reed", "will").
"""

from __future__ import annotations

from typing import Final, NamedTuple

__all__ = ["COMMON", "WORDS", "WordClass"]


class WordClass(NamedTuple):
    """A part of speech and the words of one class, seen ones and fresh ones."""

    pos: str
    seen: tuple[str, ...]
    fresh: tuple[str, ...]


_COMMON_TEXT = """
PREP about after at before behind between by down for from in near of on since than through to
  until with
DET a any her no some the your
CONJ and as but if or so when
PRON it there us we who you
AUX has have
PUNCT . , : ; ? –
"""

_WORDS_TEXT = """
given NAME Rowan Hazel Ivy Wren Linnet Sorrel Bryn Tamsin Orla Piran Juniper Maris Corin Elowen
  Tobin Quill Rose Zoë Clement | Perran Isolde Sable Anaïs Fenella Lark Ash Briar
  Merle Dawn Åse Amber Pearl
auxiliary_name NAME Will May
surname NAME Marsh Reed Lane Hall Thorne Merrow Pellow Tidewell Kestle Ferriby Brook Saltonby
  Quennell Frost Tarn Loveday March Winterbourne Wickering Bell Ashcombe | Fell Brightwater
  Hollin Court Garth Penhale Starling Moss Clay Oakenfold Field Shore Glass Vane Sandling Gale
title NAME Dr Captain Professor | Sister
weekday NAME Monday Tuesday Wednesday Thursday Friday Saturday Sunday
shortday NAME Mon Tue Wed Thu Fri Sat Sun
month NAME January March April May June September October | February August
byname NAME Reed Lark Kestle Harbour Orchard Lantern Marsh Tower Rose Bell Wickering Tarn Ferriby
  Thorne Quay | Heron Garth Saltbox Copper Compass Bramble Starling Glass
  Otter
building NAME Hall House Rooms Library Chapel Court Theatre Gallery Institute Mill | Barn
  Pavilion Exchange Museum
street NAME Lane Street Hill Steps Square | Terrace Parade
spot NOUN library lighthouse observatory bandstand harbour museum bakery chapel orchard
  greenhouse market | boathouse belfry pier cloister
side NOUN garden café yard room gallery hall | cellar attic parlour
event NOUN talk walk concert workshop reading class tour show dance film play rehearsal march
  | quiz recital seminar auction draw sketch
creature NOUN bees moths owls terns swifts | otters beetles puffins
thing NOUN tides bees moths clouds stars ferns clocks lanterns ropes maps boats bells reeds herbs
  kites owls walks talks plays tunes shells | otters comets looms barometers sails lichens hedges
  names draws drawings films sketches paintings
stuff NOUN light glass salt bread paper wool rain moss honey frost clay | amber string bunting
  copper silk tea
place_of NOUN marsh harbour coast brook lane hill shore town reed bay | fens estuary field moor
quality ADJ open old early wild late small light quiet northern bright | tidal hidden slow coastal
  wandering
nice ADJ free short open gentle second lively new late guided early | relaxed friendly festive
shows VERB shows reads explains maps plays draws names tours | charts unpacks films tunes sketches
  lights bells clouds
infinitive VERB talk play read sing walk dance | perform lecture show sketch
speak VERB talk read sing speak | lecture perform
gerund VERB mending making reading drawing growing finding naming | carving weaving charting
  lighting
tool NOUN torch cushion notebook coat mug pencil | flask blanket magnifier
line NUM 4 7 11 12 21 | 9 33
monthday NUM 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28
many NUM two three four five six seven ten twelve | eleven forty
group NOUN choir club society guild band trust | orchestra circle league
people NOUN members friends children beginners families volunteers | students neighbours
drink NOUN tea coffee soup cider cake | cocoa scones
"""


def _entries(text: str) -> list[list[str]]:
    """Split into lines of words; an indented line goes on with the one before."""
    return [line.split() for line in text.strip().replace("\n  ", " ").splitlines()]


def _classes(text: str) -> dict[str, WordClass]:
    table = {}
    for name, pos, *words in _entries(text):
        bar = words.index("|") if "|" in words else len(words)
        table[name] = WordClass(pos, tuple(words[:bar]), tuple(words[bar + 1 :]))
    return table


COMMON: Final = {word: pos for pos, *words in _entries(_COMMON_TEXT) for word in words}
WORDS: Final = _classes(_WORDS_TEXT)
