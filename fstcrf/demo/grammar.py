"""The grammar and the words of the notice board, as data.

An expansion is a weight followed by items of five kinds::

    talks/VERB      a word and its part of speech
    from            a word with one part of speech only (``COMMON``)
    $topic          a symbol of this grammar, or a word class of the lexicon
    @host           something fixed for the whole notice (see `fstcrf.demo.generate`)
    [HOST @host]    a span: what stands in the brackets is a field

So the gold labels are part of the derivation: the same @other is a PLACE where an event happens
and O where the bus stops.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple, TypeAlias

# --- Words ----------------------------------------------------------------------------------------
# Words after the bar are *fresh*: they turn up in the dev and test parts only, so that a tagger
# meets words it has never seen. Many words are in two classes on purpose ("talks", "reed", "will").


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


# --- Rules ----------------------------------------------------------------------------------------

Expansion: TypeAlias = tuple[float, tuple[str, ...]]

NOTICE: Final = (
    ("headline", 0.75),
    ("lead", 1.0),
    ("more", 0.6),
    ("hours", 0.65),
    ("change", 0.3),
    ("travel", 0.45),
    ("contact", 0.6),
)

_TEXT = """
headline
  5  @topic with [HOST @host]
  4  [HOST @host] $teaches @topic
  3  @event : [HOST @host] on @topic
  3  [DAY @day] , [START @start] : @topic
  3  @event in [PLACE @place] , [START @start] to [END @end]
  3  [DAY @day] : $nice @event in [PLACE @place]
  2  save/VERB the date/NOUN : [DAY @day]
  2  [PLACE @place] , [DAY @day] : [HOST @last] on @topic
  2  @event and $drink with [HOST @last]
  3  [HOST @last] $teaches @topic
  2  $thing , $thing and $thing with [HOST @last]
  2  may/AUX we $infinitive ? @topic
  1  will/AUX you $infinitive with [HOST @given] ?
  7  $helper [HOST @last] $infinitive $again ?
  7  [HOST @host] $sings $again
  3  [HOST @last] and $people : @topic
  3  $place_of and $place_of : @topic

lead
  6  [HOST @host] will/AUX $speak about @topic $where $when .
  5  [HOST @host] $teaches @topic $where $when .
  4  on [DAY @day] [HOST @host] $teaches @topic $where , $hours_only .
  4  join/VERB [HOST @host] for a $nice @event $where $when .
  3  the @event on @topic is/VERB $where $when , led/VERB by [HOST @host] .
  3  come/VERB and $infinitive $where with [HOST @host] and $crowd $when .
  3  $when , [HOST @host] may/AUX $infinitive $where , if the weather/NOUN holds/VERB .
  3  a $nice @event for $people $where , $when .
  3  $dashed : [HOST @host] $teaches @topic $where .
  2  $nice @event with [HOST @host] , [PLACE @place] , $dashed
  2  @topic , $gerund and $gerund : [HOST @host] shows/VERB how/ADV , $when .
  2  $when the $group of [PLACE @place] meets/VERB for $gerund .
  2  on [DAY @day] at @doors the $side opens/VERB , and at [START @start] [HOST @host]
     $teaches @topic .
  2  [HOST @last] , not/ADV @person as we wrote/VERB , $teaches @topic $where $when .
  2  in memory/NOUN of @person [HOST @host] $teaches @topic $where $when .
  2  @person and the $group present/VERB [HOST @host] $where $when .

where
  6  in [PLACE @place]
  4  at [PLACE @place]
  1  inside/PREP [PLACE @place]
  1  near @other , in [PLACE @place] ,

when
  6  on [DAY @day] at [START @start]
  5  on [DAY @day] from [START @start] to [END @end]
  2  at [START @start] on [DAY @day]
  2  between [START @start] and [END @end] on [DAY @day]
  1  on [DAY @day] until [END @end]

dashed
  3  [DAY @day] , [START @start] – [END @end]
  1  [DAY @day] at [START @start]

hours_only
  3  from [START @start] to [END @end]
  2  [START @start] sharp/ADV
  1  $from [START @start]
  1  no later/ADV than [START @start]

from
  3  from
  1  starting/VERB at

hours
  4  doors/NOUN open/VERB at @doors , the @event $begins at [START @start] .
  4  @event [START @start] , $drink @late .
  4  $drink @doors , @event [START @start] .
  3  doors/NOUN open/VERB to $crowd at @doors and to $people at [START @start] .
  3  we open/VERB the $side at @doors and $infinitive from [START @start] to [END @end] .
  3  the last/ADJ ferry/NOUN leaves/VERB at @late , so we close/VERB at [END @end] .
  3  $drink from @doors in the $side , @event from [START @start] to [END @end] in [PLACE @place] .
  3  it $begins at [START @start] and ends/VERB by [END @end] , with $drink until @late .
  2  $drink and a $nice $event for the $group at @doors ; we start/VERB at [START @start] .
  3  at @doors the $side opens/VERB , at [START @start] the @event $begins .
  3  at @doors , for $people , $drink ; at [START @start] , for all/PRON , the @event .
  2  the @event , from [START @start] to [END @end] , is/VERB free/ADJ ; the $side is/VERB open/ADJ
     from @doors to @late .
  2  open/ADV early/ADV , closed/ADJ late/ADV : the $side from @doors , the @event
     until [END @end] .
  2  after the @event , at @late , there is/VERB $drink in the $side .
  2  we start/VERB early/ADV , at [START @start] , and close/VERB late/ADV , at [END @end] .
  2  the $side is/VERB open/ADJ from @doors to @late .
  2  from @doors the $group plays/VERB outside/ADV , then/ADV from [START @start] to [END @end]
     inside/ADV .

change
  4  the @event has moved/VERB from @other to [PLACE @place] .
  4  note/VERB the new/ADJ time/NOUN : [START @start] , not/ADV @doors .
  3  not/ADV @deadline , as we wrote/VERB , but [DAY @day] .
  3  it was/AUX planned/VERB for @deadline at @late ; it is/VERB now/ADV on [DAY @day] at
     [START @start] .
  2  if it rains/VERB we meet/VERB in [PLACE @place] , not/ADV at @other .
  2  @person is/VERB unwell/ADJ , so [HOST @host] will/AUX lead/VERB the @event .
  3  on @deadline at @late , as we wrote/VERB , is/VERB wrong/ADJ ; come/VERB on [DAY @day] at
     [START @start] .
  3  come/VERB on [DAY @day] at [START @start] ; on @deadline at @late , as we wrote/VERB , the
     $side is/VERB closed/ADJ .
  2  come/VERB to [PLACE @place] , as @other is/VERB closed/ADJ .
  2  please/ADV change/VERB @late to [START @start] in your diaries/NOUN .

more
  4  [HOST @last] has looked/VERB after the $thing of @other for $many years/NOUN .
  3  $helper [HOST @last] $infinitive $again ?
  3  [HOST @host] $sings $again , then/ADV @person $sings .
  3  bring/VERB a $tool , a $tool and some $stuff for $gerund .
  3  last/ADJ $month @person $told how/ADV $creature find/VERB @other ; now/ADV [HOST @last]
     $teaches $topic .
  3  [HOST @last] , who lives/VERB near @other , will/AUX show/VERB $many $quality $thing .
  3  [HOST @given] and $crowd will/AUX $infinitive for one/NUM hour/NOUN , then/ADV there may/AUX
     be/VERB $drink .
  2  it was/VERB @person who first/ADV brought/VERB $quality $thing to @other .
  2  @person calls/VERB it the best/ADJ $event in the past/ADJ $many years/NOUN .
  2  there will/AUX be/VERB $thing , $thing and a short/ADJ $event for $people .
  2  we light/VERB the lanterns/NOUN at @late , as in $month , when the moon/NOUN
     rose/VERB late/ADV .
  2  that/DET $nice $event is/VERB one/PRON that/PRON $people talk/VERB about .
  2  the $thing of [HOST @last] have hung/VERB in @other since $month .

teaches
  5  $shows
  3  talks/VERB about
  1  walks/VERB us through
  1  plays/VERB with

helper
  3  will/AUX
  2  may/AUX

sings
  3  sings/VERB
  3  talks/VERB
  2  plays/VERB
  2  reads/VERB
  2  dances/VERB

again
  3  again/ADV
  3  with the $group
  2  for $people
  2  in [PLACE @place]
  2  on [DAY @day]

told
  2  told/VERB us
  1  showed/VERB

travel
  4  bus/NOUN $line stops/VERB at @other .
  3  bus/NOUN $line leaves/VERB from @other at @doors and goes/VERB back/ADV at @late .
  3  park/VERB behind @other and walk/VERB down $street_name to [PLACE @place] .
  3  the ferry/NOUN runs/VERB from @other until @late .
  2  we march/VERB from @other at @doors , past/PREP $street_name , to [PLACE @place] .
  2  meet/VERB at [PLACE @place] , close/ADV to @other .
  2  a second/ADJ bus/NOUN waits/VERB for $crowd in $street_name .

contact
  4  ask/VERB @person for a seat/NOUN by @deadline .
  3  tickets/NOUN from @person at @other , $many crowns/NOUN each/DET .
  3  book/VERB with @person before @deadline , or pay/VERB at the door/NOUN from @doors .
  3  @person keeps/VERB the key/NOUN to [PLACE @place] .
  2  @person will/AUX mark/VERB your place/NOUN if you write/VERB by @deadline .
  2  free/ADJ for $people ; others/PRON book/VERB a place/NOUN with @person .
  2  questions/NOUN ? call/VERB on @person in @other , any $weekday before @doors .
  2  the book/NOUN of the @event is/VERB at @other until @deadline .

crowd
  4  $people
  3  the $group
  2  @person
  2  her $people

topic
  5  $thing
  3  $quality $thing
  4  $stuff $thing
  3  $thing and $thing
  3  the $thing of the $place_of
  3  $stuff and $thing
  2  $quality $stuff
  2  the $creature of the $place_of
  1  $gerund $quality $thing
  1  the past/NOUN of the $place_of

person
  6  $given $surname
  3  $auxiliary_name $surname
  1  $title $given $surname
  1  $title $surname

place
  7  $byname $building
  2  the $quality_name $building
  2  $street_name
  3  the $spot
  1  the $spot $side

street_name
  1  $byname $street

quality_name
  2  Old/NAME
  1  New/NAME
  1  Little/NAME
  1  Northern/NAME

date
  5  $weekday
  4  $weekday $monthday $month
  2  $monthday $month
  2  the $ordinal $weekday in $month
  1  $shortday $monthday $month
  1  the $ordinal of $month

ordinal
  1  first/ADJ
  1  second/ADJ
  1  third/ADJ
  1  last/ADJ

begins
  2  begins/VERB
  1  starts/VERB
"""

_ITEM = re.compile(r"\[[A-Z]+|\]|[^\s\]]+")


def _read(text: str) -> dict[str, tuple[Expansion, ...]]:
    rules: dict[str, list[Expansion]] = {}
    symbol = ""
    for line in filter(None, re.sub(r"\n {5,}", " ", text).splitlines()):
        if line.startswith(" "):
            weight, *items = _ITEM.findall(line)
            tagged = (f"{item}/{COMMON[item]}" if item in COMMON else item for item in items)
            rules[symbol].append((float(weight), tuple(tagged)))
        else:
            symbol = line.strip()
            rules[symbol] = []
    return {name: tuple(expansions) for name, expansions in rules.items()}


RULES: Final = _read(_TEXT)
