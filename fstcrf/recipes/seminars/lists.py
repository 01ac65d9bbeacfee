"""Lists of words, written for this recipe: common names, honorifics, words of places and roles."""

from __future__ import annotations

__all__ = ["FIRST_NAMES", "HONORIFICS", "LAST_NAMES", "PLACES", "ROLES"]


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


FIRST_NAMES = _words(
    """
    aaron adam alan albert alex alexander alexandra alfred alice allen amy andrea andrew andy
    angela anita ann anna anne anthony antonio arthur barbara ben benjamin bernard beth betty
    bill bob brad brenda brian bruce carl carla carlos carol caroline catherine charles charlie
    cheryl chris christina christine christopher claire claude cynthia dan daniel danny dave
    david dean deborah debra dennis diana diane don donald donna dorothy doug douglas ed edgar
    edith edmund eduardo edward eileen elaine elizabeth ellen emily emma eric erik ernest eugene
    eva evelyn florence frances francis frank franz fred frederick gabriel gary geoffrey george
    gerald gerard gilbert gina giovanni glen gloria gordon grace greg gregory guy hans harold
    harry heather heidi helen helena henry herbert howard hugh ian irene isaac ivan jack jacob
    jacques james jan jane janet janice jason jay jean jeff jeffrey jennifer jeremy jerome jerry
    jessica jill jim joan joe joel johannes john jon jonathan jorge jose joseph joshua juan
    judith judy julia julian julie june karen karl katherine kathleen kathy katie keith kelly
    ken kenneth kevin kim klaus kurt larry laura lauren lawrence lee leo leon leonard leslie
    lewis linda lisa lloyd lois louis louise lucy luis lynn manuel marc marcel marcia marco
    margaret maria marie marilyn mario mark martha martin marvin mary matt matthew maurice max
    megan melissa michael michel michelle mike miriam mitchell monica nancy natalie nathan neil
    nicholas nicole nina norman olga oliver oscar otto pamela patricia patrick paul paula pedro
    peggy peter phil philip phillip phyllis pierre rachel ralph ray raymond rebecca rene richard
    rick robert robin roger roland ron ronald rosa rose roy russell ruth ryan sally sam samuel
    sandra sara sarah scott sean sharon sheila shirley simon sophie stanley stefan stephanie
    stephen steve steven stewart stuart sue susan suzanne sylvia ted teresa terry theodore
    theresa thomas tim timothy tina todd tom tony tracy ursula valerie vera victor victoria
    vincent virginia vivian walter warren wayne wendy werner wesley william winston wolfgang
    yvonne zachary
    """
)

LAST_NAMES = _words(
    """
    abbott adams alexander allen anderson andrews armstrong arnold austin bailey baker baldwin
    barker barnes barnett barrett bauer becker bell bennett berg berger bernstein berry bishop
    black blake boyd bradley brady brooks brown bryant burke burns burton butler byrne cameron
    campbell carlson carpenter carr carroll carter chan chandler chang chapman chen cheng cho
    choi chu clark clarke cohen cole coleman collins cook cooper cox craig crawford cross cruz
    cunningham daniels davidson davies davis dawson day dean diaz dixon douglas doyle duncan
    dunn edwards elliott ellis erickson evans ferguson fernandez fischer fisher fleming fletcher
    ford foster fox francis frank franklin fraser freeman friedman fuller garcia gardner gibson
    gilbert goldberg goldman goldstein gomez gonzalez goodman gordon graham grant gray green
    greene griffin gupta hall hamilton hansen hanson harper harris harrison hart harvey hayes
    henderson henry hernandez hill hoffman holland holmes horowitz howard hu huang hudson hughes
    hunt hunter ito jackson jacobs james jenkins jensen johnson johnston jones jordan joseph
    kahn kaplan katz kaufman keller kelley kelly kennedy kim king klein knight kramer krishnan
    kumar lane larsen larson lawrence lawson lee lehman leonard levin levine levy lewis li lin
    liu long lopez lu lynch lyons ma marshall martin martinez mason matthews mccarthy mcdonald
    mckenzie mehta meyer miller mills mitchell moore moreno morgan morris morrison murphy murray
    myers nakamura nelson newman nguyen nichols nielsen norman novak olson ortiz owens palmer
    park parker patel patterson payne perez perkins perry peters petersen peterson phillips
    pierce porter powell price rao reed reynolds rice richards richardson riley rivera roberts
    robertson robinson rodriguez rogers rosen rosenberg rosenthal ross rubin russell ryan
    sanchez sanders sato schmidt schneider schultz schwartz scott shah shapiro sharma shaw silva
    simmons simon simpson singh smith snyder spencer stein stephens stern stevens stewart stone
    sullivan sun suzuki tanaka tang taylor thomas thompson torres tucker turner wagner walker
    wallace walsh wang ward warren watanabe watkins watson weaver webb weber weiss wells west
    wheeler white williams williamson willis wilson wolf wong wood woods wright wu xu yamamoto
    yang yates young yu zhang zhao zhou zimmerman
    """
)

HONORIFICS = _words(
    """
    dr doctor prof professor profs drs mr mrs ms miss sir dame lord lady rev reverend father
    sister president dean chancellor senator governor judge justice ambassador captain colonel
    general
    """
)

ROLES = _words(
    """
    host hosts hosted speaker speakers who lecturer presenter presented guest contact sponsor
    sponsored organizer chair chairman director phd candidate student students author fellow
    department university college institute school laboratory center centre company corporation
    appointment appointments secretary assistant coordinator postedby
    """
)

PLACES = _words(
    """
    hall room rm auditorium building bldg center centre lounge theater theatre library chapel
    gallery conference floor wing tower hotel museum cafeteria lab laboratory place location
    where avenue ave street st road boulevard plaza court square house union club campus
    classroom lobby
    """
)
