"""The grammar of the notice board, as data.

====== ===================================================================
NOTICE the sentences of a notice in order, each with how often it is there
RULES  for each symbol, its weighted expansions
====== ===================================================================

An expansion is a weight followed by items of four kinds::

    talks/VERB      a word and its part of speech
    $topic          a symbol of this grammar, or a word class of the lexicon
    @host           something fixed for the whole notice (see `fstcrf.demo.scene`)
    [HOST @host]    a span: what stands in the brackets is a field

So the gold labels are part of the derivation: the same @other is a PLACE where an event happens
and O where the bus stops.
"""

from __future__ import annotations

import re
from typing import Final, TypeAlias

__all__ = ["NOTICE", "RULES", "Expansion"]

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
  5  @topic with/PREP [HOST @host]
  4  [HOST @host] $teaches @topic
  3  @event :/PUNCT [HOST @host] on/PREP @topic
  3  [DAY @day] ,/PUNCT [START @start] :/PUNCT @topic
  3  @event in/PREP [PLACE @place] ,/PUNCT [START @start] to/PREP [END @end]
  3  [DAY @day] :/PUNCT $nice @event in/PREP [PLACE @place]
  2  save/VERB the/DET date/NOUN :/PUNCT [DAY @day]
  2  [PLACE @place] ,/PUNCT [DAY @day] :/PUNCT [HOST @last] on/PREP @topic
  2  @event and/CONJ $drink with/PREP [HOST @last]
  3  [HOST @last] $teaches @topic
  2  $thing ,/PUNCT $thing and/CONJ $thing with/PREP [HOST @last]
  2  may/AUX we/PRON $infinitive ?/PUNCT @topic
  1  will/AUX you/PRON $infinitive with/PREP [HOST @given] ?/PUNCT
  7  $helper [HOST @last] $infinitive $again ?/PUNCT
  7  [HOST @host] $sings $again
  3  [HOST @last] and/CONJ $people :/PUNCT @topic
  3  $place_of and/CONJ $place_of :/PUNCT @topic

lead
  6  [HOST @host] will/AUX $speak about/PREP @topic $where $when ./PUNCT
  5  [HOST @host] $teaches @topic $where $when ./PUNCT
  4  on/PREP [DAY @day] [HOST @host] $teaches @topic $where ,/PUNCT $hours_only ./PUNCT
  4  join/VERB [HOST @host] for/PREP a/DET $nice @event $where $when ./PUNCT
  3  the/DET @event on/PREP @topic is/VERB $where $when ,/PUNCT led/VERB by/PREP [HOST @host] ./PUNCT
  3  come/VERB and/CONJ $infinitive $where with/PREP [HOST @host] and/CONJ $crowd $when ./PUNCT
  3  $when ,/PUNCT [HOST @host] may/AUX $infinitive $where ,/PUNCT if/CONJ the/DET weather/NOUN holds/VERB ./PUNCT
  3  a/DET $nice @event for/PREP $people $where ,/PUNCT $when ./PUNCT
  3  $dashed :/PUNCT [HOST @host] $teaches @topic $where ./PUNCT
  2  $nice @event with/PREP [HOST @host] ,/PUNCT [PLACE @place] ,/PUNCT $dashed
  2  @topic ,/PUNCT $gerund and/CONJ $gerund :/PUNCT [HOST @host] shows/VERB how/ADV ,/PUNCT $when ./PUNCT
  2  $when the/DET $group of/PREP [PLACE @place] meets/VERB for/PREP $gerund ./PUNCT
  2  on/PREP [DAY @day] at/PREP @doors the/DET $side opens/VERB ,/PUNCT and/CONJ at/PREP [START @start] [HOST @host] $teaches @topic ./PUNCT
  2  [HOST @last] ,/PUNCT not/ADV @person as/CONJ we/PRON wrote/VERB ,/PUNCT $teaches @topic $where $when ./PUNCT
  2  in/PREP memory/NOUN of/PREP @person [HOST @host] $teaches @topic $where $when ./PUNCT
  2  @person and/CONJ the/DET $group present/VERB [HOST @host] $where $when ./PUNCT

where
  6  in/PREP [PLACE @place]
  4  at/PREP [PLACE @place]
  1  inside/PREP [PLACE @place]
  1  near/PREP @other ,/PUNCT in/PREP [PLACE @place] ,/PUNCT

when
  6  on/PREP [DAY @day] at/PREP [START @start]
  5  on/PREP [DAY @day] from/PREP [START @start] to/PREP [END @end]
  2  at/PREP [START @start] on/PREP [DAY @day]
  2  between/PREP [START @start] and/CONJ [END @end] on/PREP [DAY @day]
  1  on/PREP [DAY @day] until/PREP [END @end]

dashed
  3  [DAY @day] ,/PUNCT [START @start] –/PUNCT [END @end]
  1  [DAY @day] at/PREP [START @start]

hours_only
  3  from/PREP [START @start] to/PREP [END @end]
  2  [START @start] sharp/ADV
  1  $from [START @start]
  1  no/DET later/ADV than/PREP [START @start]

from
  3  from/PREP
  1  starting/VERB at/PREP

hours
  4  doors/NOUN open/VERB at/PREP @doors ,/PUNCT the/DET @event $begins at/PREP [START @start] ./PUNCT
  4  @event [START @start] ,/PUNCT $drink @late ./PUNCT
  4  $drink @doors ,/PUNCT @event [START @start] ./PUNCT
  3  doors/NOUN open/VERB to/PREP $crowd at/PREP @doors and/CONJ to/PREP $people at/PREP [START @start] ./PUNCT
  3  we/PRON open/VERB the/DET $side at/PREP @doors and/CONJ $infinitive from/PREP [START @start] to/PREP [END @end] ./PUNCT
  3  the/DET last/ADJ ferry/NOUN leaves/VERB at/PREP @late ,/PUNCT so/CONJ we/PRON close/VERB at/PREP [END @end] ./PUNCT
  3  $drink from/PREP @doors in/PREP the/DET $side ,/PUNCT @event from/PREP [START @start] to/PREP [END @end] in/PREP [PLACE @place] ./PUNCT
  3  it/PRON $begins at/PREP [START @start] and/CONJ ends/VERB by/PREP [END @end] ,/PUNCT with/PREP $drink until/PREP @late ./PUNCT
  2  $drink and/CONJ a/DET $nice $event for/PREP the/DET $group at/PREP @doors ;/PUNCT we/PRON start/VERB at/PREP [START @start] ./PUNCT
  3  at/PREP @doors the/DET $side opens/VERB ,/PUNCT at/PREP [START @start] the/DET @event $begins ./PUNCT
  3  at/PREP @doors ,/PUNCT for/PREP $people ,/PUNCT $drink ;/PUNCT at/PREP [START @start] ,/PUNCT for/PREP all/PRON ,/PUNCT the/DET @event ./PUNCT
  2  the/DET @event ,/PUNCT from/PREP [START @start] to/PREP [END @end] ,/PUNCT is/VERB free/ADJ ;/PUNCT the/DET $side is/VERB open/ADJ from/PREP @doors to/PREP @late ./PUNCT
  2  open/ADV early/ADV ,/PUNCT closed/ADJ late/ADV :/PUNCT the/DET $side from/PREP @doors ,/PUNCT the/DET @event until/PREP [END @end] ./PUNCT
  2  after/PREP the/DET @event ,/PUNCT at/PREP @late ,/PUNCT there/PRON is/VERB $drink in/PREP the/DET $side ./PUNCT
  2  we/PRON start/VERB early/ADV ,/PUNCT at/PREP [START @start] ,/PUNCT and/CONJ close/VERB late/ADV ,/PUNCT at/PREP [END @end] ./PUNCT
  2  the/DET $side is/VERB open/ADJ from/PREP @doors to/PREP @late ./PUNCT
  2  from/PREP @doors the/DET $group plays/VERB outside/ADV ,/PUNCT then/ADV from/PREP [START @start] to/PREP [END @end] inside/ADV ./PUNCT

change
  4  the/DET @event has/AUX moved/VERB from/PREP @other to/PREP [PLACE @place] ./PUNCT
  4  note/VERB the/DET new/ADJ time/NOUN :/PUNCT [START @start] ,/PUNCT not/ADV @doors ./PUNCT
  3  not/ADV @deadline ,/PUNCT as/CONJ we/PRON wrote/VERB ,/PUNCT but/CONJ [DAY @day] ./PUNCT
  3  it/PRON was/AUX planned/VERB for/PREP @deadline at/PREP @late ;/PUNCT it/PRON is/VERB now/ADV on/PREP [DAY @day] at/PREP [START @start] ./PUNCT
  2  if/CONJ it/PRON rains/VERB we/PRON meet/VERB in/PREP [PLACE @place] ,/PUNCT not/ADV at/PREP @other ./PUNCT
  2  @person is/VERB unwell/ADJ ,/PUNCT so/CONJ [HOST @host] will/AUX lead/VERB the/DET @event ./PUNCT
  3  on/PREP @deadline at/PREP @late ,/PUNCT as/CONJ we/PRON wrote/VERB ,/PUNCT is/VERB wrong/ADJ ;/PUNCT come/VERB on/PREP [DAY @day] at/PREP [START @start] ./PUNCT
  3  come/VERB on/PREP [DAY @day] at/PREP [START @start] ;/PUNCT on/PREP @deadline at/PREP @late ,/PUNCT as/CONJ we/PRON wrote/VERB ,/PUNCT the/DET $side is/VERB closed/ADJ ./PUNCT
  2  come/VERB to/PREP [PLACE @place] ,/PUNCT as/CONJ @other is/VERB closed/ADJ ./PUNCT
  2  please/ADV change/VERB @late to/PREP [START @start] in/PREP your/DET diaries/NOUN ./PUNCT

more
  4  [HOST @last] has/AUX looked/VERB after/PREP the/DET $thing of/PREP @other for/PREP $many years/NOUN ./PUNCT
  3  $helper [HOST @last] $infinitive $again ?/PUNCT
  3  [HOST @host] $sings $again ,/PUNCT then/ADV @person $sings ./PUNCT
  3  bring/VERB a/DET $tool ,/PUNCT a/DET $tool and/CONJ some/DET $stuff for/PREP $gerund ./PUNCT
  3  last/ADJ $month @person $told how/ADV $creature find/VERB @other ;/PUNCT now/ADV [HOST @last] $teaches $topic ./PUNCT
  3  [HOST @last] ,/PUNCT who/PRON lives/VERB near/PREP @other ,/PUNCT will/AUX show/VERB $many $quality $thing ./PUNCT
  3  [HOST @given] and/CONJ $crowd will/AUX $infinitive for/PREP one/NUM hour/NOUN ,/PUNCT then/ADV there/PRON may/AUX be/VERB $drink ./PUNCT
  2  it/PRON was/VERB @person who/PRON first/ADV brought/VERB $quality $thing to/PREP @other ./PUNCT
  2  @person calls/VERB it/PRON the/DET best/ADJ $event in/PREP the/DET past/ADJ $many years/NOUN ./PUNCT
  2  there/PRON will/AUX be/VERB $thing ,/PUNCT $thing and/CONJ a/DET short/ADJ $event for/PREP $people ./PUNCT
  2  we/PRON light/VERB the/DET lanterns/NOUN at/PREP @late ,/PUNCT as/CONJ in/PREP $month ,/PUNCT when/CONJ the/DET moon/NOUN rose/VERB late/ADV ./PUNCT
  2  that/DET $nice $event is/VERB one/PRON that/PRON $people talk/VERB about/PREP ./PUNCT
  2  the/DET $thing of/PREP [HOST @last] have/AUX hung/VERB in/PREP @other since/PREP $month ./PUNCT

teaches
  5  $shows
  3  talks/VERB about/PREP
  1  walks/VERB us/PRON through/PREP
  1  plays/VERB with/PREP

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
  3  with/PREP the/DET $group
  2  for/PREP $people
  2  in/PREP [PLACE @place]
  2  on/PREP [DAY @day]

told
  2  told/VERB us/PRON
  1  showed/VERB

travel
  4  bus/NOUN $line stops/VERB at/PREP @other ./PUNCT
  3  bus/NOUN $line leaves/VERB from/PREP @other at/PREP @doors and/CONJ goes/VERB back/ADV at/PREP @late ./PUNCT
  3  park/VERB behind/PREP @other and/CONJ walk/VERB down/PREP $street_name to/PREP [PLACE @place] ./PUNCT
  3  the/DET ferry/NOUN runs/VERB from/PREP @other until/PREP @late ./PUNCT
  2  we/PRON march/VERB from/PREP @other at/PREP @doors ,/PUNCT past/PREP $street_name ,/PUNCT to/PREP [PLACE @place] ./PUNCT
  2  meet/VERB at/PREP [PLACE @place] ,/PUNCT close/ADV to/PREP @other ./PUNCT
  2  a/DET second/ADJ bus/NOUN waits/VERB for/PREP $crowd in/PREP $street_name ./PUNCT

contact
  4  ask/VERB @person for/PREP a/DET seat/NOUN by/PREP @deadline ./PUNCT
  3  tickets/NOUN from/PREP @person at/PREP @other ,/PUNCT $many crowns/NOUN each/DET ./PUNCT
  3  book/VERB with/PREP @person before/PREP @deadline ,/PUNCT or/CONJ pay/VERB at/PREP the/DET door/NOUN from/PREP @doors ./PUNCT
  3  @person keeps/VERB the/DET key/NOUN to/PREP [PLACE @place] ./PUNCT
  2  @person will/AUX mark/VERB your/DET place/NOUN if/CONJ you/PRON write/VERB by/PREP @deadline ./PUNCT
  2  free/ADJ for/PREP $people ;/PUNCT others/PRON book/VERB a/DET place/NOUN with/PREP @person ./PUNCT
  2  questions/NOUN ?/PUNCT call/VERB on/PREP @person in/PREP @other ,/PUNCT any/DET $weekday before/PREP @doors ./PUNCT
  2  the/DET book/NOUN of/PREP the/DET @event is/VERB at/PREP @other until/PREP @deadline ./PUNCT

crowd
  4  $people
  3  the/DET $group
  2  @person
  2  her/DET $people

topic
  5  $thing
  3  $quality $thing
  4  $stuff $thing
  3  $thing and/CONJ $thing
  3  the/DET $thing of/PREP the/DET $place_of
  3  $stuff and/CONJ $thing
  2  $quality $stuff
  2  the/DET $creature of/PREP the/DET $place_of
  1  $gerund $quality $thing
  1  the/DET past/NOUN of/PREP the/DET $place_of

person
  6  $given $surname
  3  $auxiliary_name $surname
  1  $title $given $surname
  1  $title $surname

place
  7  $byname $building
  2  the/DET $quality_name $building
  2  $street_name
  3  the/DET $spot
  1  the/DET $spot $side

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
  2  the/DET $ordinal $weekday in/PREP $month
  1  $shortday $monthday $month
  1  the/DET $ordinal of/PREP $month

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
    for line in filter(None, text.splitlines()):
        if line.startswith(" "):
            weight, *items = _ITEM.findall(line)
            rules[symbol].append((float(weight), tuple(items)))
        else:
            symbol = line.strip()
            rules[symbol] = []
    return {name: tuple(expansions) for name, expansions in rules.items()}


RULES: Final = _read(_TEXT)
