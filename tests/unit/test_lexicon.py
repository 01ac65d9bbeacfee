"""Lexicons: against enumeration of all ways, files there and back, known boundaries, bad input."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fstcrf.errors import DataError, FstcrfError, ModelFileError, NoPathError, OptionError
from fstcrf.ext.lexicon import Candidates, Characters, Entry, Kind, Lexicon, Word
from fstcrf.ext.lexicon.kernel import build_trie, find_prefixes
from fstcrf.kernel.strings import pack_strings

KINDS = {
    "DEFAULT": Kind(always=False, runs=True, length=0),
    "SPACE": Kind(always=False, runs=True, length=0),
    "LETTER": Kind(always=True, runs=True, length=2),
    "MARK": Kind(always=False, runs=False, length=1),
    "FAR": Kind(always=True, runs=True, length=3),
}
RANGES = [
    (0x20, 0x20, ["SPACE"]),
    (0x3000, 0x3000, ["SPACE"]),
    (ord("a"), ord("c"), ["LETTER"]),
    (ord("c"), ord("c"), ["LETTER", "FAR"]),
    (0x30A2, 0x30AB, ["FAR"]),
    (ord("!"), ord("!"), ["MARK"]),
]
ALPHABET = "abc!ア d😀"


def random_lexicon(seed: int, *, contexts: int = 3) -> Lexicon:
    """Return a lexicon of random words, costs and contexts; costs tie often."""
    draw = np.random.default_rng(seed)
    matrix = draw.integers(-3, 4, (contexts, contexts)).astype(np.int16)

    def entry(surface: str) -> Entry:
        left, right = draw.integers(0, contexts, 2).tolist()
        return Entry(surface, left, right, int(draw.integers(-4, 8)), f"{surface}/{left}{right}")

    letters = [*"abc!アd"]
    words = ["".join(draw.choice(letters, int(draw.integers(1, 4)))) for _ in range(12)]
    unknown = [entry(name) for name in KINDS for _ in range(int(draw.integers(1, 3)))]
    characters = Characters.of_kinds(KINDS, RANGES)
    return Lexicon.from_entries(map(entry, words), matrix, characters, unknown, unit=2.0)


class Rules:
    """MeCab's rules for the words at a place, over strings."""

    def __init__(self, lexicon: Lexicon) -> None:
        self.lexicon = lexicon
        self.words = list(lexicon.dictionaries[0].listed())
        self.guesses = list(lexicon.unknown.listed())

    def kinds(self, c: str) -> list[str]:
        if ord(c) > 0xFFFE:
            return ["DEFAULT"]
        own = [names for first, last, names in RANGES if first <= ord(c) <= last]
        return list(own[-1]) if own else ["DEFAULT"]

    def run(self, text: str, at: int, kinds: list[str]) -> int:
        while at < len(text) and set(kinds) & set(self.kinds(text[at])):
            kinds = self.kinds(text[at])
            at += 1
        return at

    def at(self, text: str, place: int) -> Iterator[tuple[int, int, Entry]]:
        start = self.run(text, place, ["SPACE"])
        if start == len(text):
            return
        known = [w for w in self.words if text.startswith(w.surface, start)]
        for word in known:
            yield start, start + len(word.surface), word
        kind = self.kinds(text[start])[0]
        rule = KINDS[kind]
        if known and not rule.always:
            return
        for end in self.ends(text, start, rule) or ([] if known else [start + 1]):
            for guess in self.guesses:
                if guess.surface == kind:
                    yield start, end, guess

    def ends(self, text: str, start: int, rule: Kind) -> list[int]:
        ends: list[int] = []
        whole, at = -1, start + 1
        kinds = self.kinds(text[start])
        if rule.runs:
            whole = self.run(text, at, kinds)
            if whole - at <= 24:
                ends.append(whole)
        for _ in range(rule.length):
            if at == whole:
                break
            ends.append(at)
            if at >= len(text) or not set(kinds) & set(self.kinds(text[at])):
                break
            at += 1
        return ends

    def ways(self, text: str, place: int = 0) -> Iterator[list[tuple[int, int, Entry]]]:
        if self.run(text, place, ["SPACE"]) == len(text):
            yield []
        for found in self.at(text, place):
            for rest in self.ways(text, found[1]):
                yield [found, *rest]

    def cost(self, way: list[tuple[int, int, Entry]]) -> int:
        matrix, right, total = self.lexicon.matrix, 0, 0
        for _, _, entry in way:
            total += int(matrix[entry.left, right]) + entry.cost
            right = entry.right
        return total + int(matrix[0, right])


def _described(words: list[Word]) -> list[tuple[int, int, str]]:
    return [(w.start, w.end, w.feature) for w in words]


TEXTS = ["ab", "abcab", "a  b!", "アアd", "dd a", "  ab ", "c😀ア", "!!a", "\u3000cア"]


@pytest.mark.parametrize("seed", range(10))
def test_ways_are_those_of_enumeration(seed: int) -> None:
    lexicon = random_lexicon(seed)
    rules = Rules(lexicon)
    draw = np.random.default_rng(seed)
    texts = [*TEXTS, *("".join(draw.choice([*ALPHABET], 6)) for _ in range(4))]
    answer = lexicon.tag_all(texts)
    for b, text in enumerate(texts):
        ways = list(rules.ways(text))
        scores = np.sort([-rules.cost(way) / lexicon.unit for way in ways])[::-1]
        assert answer.scores[b] == scores[0]
        best = [
            (start, end, entry.feature)
            for start, end, entry in max(ways, key=lambda way: -rules.cost(way))
        ]
        if len(scores) == 1 or scores[1] < scores[0]:
            assert _described(answer.words(b)) == best
        lattice = lexicon.lattice(text)
        assert lattice.log_partition() == pytest.approx(np.logaddexp.reduce(scores), abs=1e-12)
        found = lattice.nbest(len(ways) + 1)
        assert np.allclose([path.score for path in found], scores, atol=1e-12)
        assert sum(path.probability for path in found) == pytest.approx(1.0)
        assert _marginals(lexicon.candidates(text), lattice.arc_probabilities()) == pytest.approx(
            _enumerated(ways, lexicon, rules), abs=1e-12
        )


def _marginals(words: Candidates, share: np.ndarray) -> dict[tuple[int, int, str], float]:
    total: dict[tuple[int, int, str], float] = {}
    for word, p in zip(words, share.tolist(), strict=True):
        key = word.start, word.end, word.feature
        total[key] = total.get(key, 0.0) + p
    return {key: p for key, p in total.items() if p > 1e-15}


def _enumerated(
    ways: list[list[tuple[int, int, Entry]]], lexicon: Lexicon, rules: Rules
) -> dict[tuple[int, int, str], float]:
    scores = [-rules.cost(way) / lexicon.unit for way in ways]
    log_z = float(np.logaddexp.reduce(scores))
    total: dict[tuple[int, int, str], float] = {}
    for way, score in zip(ways, scores, strict=True):
        for start, end, entry in way:
            key = start, end, entry.feature
            total[key] = total.get(key, 0.0) + math.exp(score - log_z)
    return total


def test_enumeration_notices() -> None:
    """A matrix that differs in one number gives other scores."""
    lexicon = random_lexicon(1)
    rules = Rules(lexicon)
    before = [min(map(rules.cost, rules.ways(text))) for text in TEXTS]
    matrix = lexicon.matrix.copy()
    matrix[:, 0] += 1
    other = Lexicon(lexicon.dictionaries, lexicon.unknown, lexicon.characters, matrix, unit=2.0)
    assert (other.tag_all(TEXTS).scores != -np.asarray(before) / 2.0).any()


# --- The trie -------------------------------------------------------------------------------------


@pytest.mark.thorough
@given(st.sets(st.text(min_size=1, max_size=5), max_size=40), st.text(max_size=12))
def test_prefixes_are_the_keys_that_begin_a_text(keys: set[str], text: str) -> None:
    keys = {key for key in keys if not any("\ud800" <= c <= "\udfff" for c in key)}
    text = "".join(c for c in text if not "\ud800" <= c <= "\udfff")
    ordered = sorted(keys, key=str.encode)
    blob, offsets = pack_strings(ordered)
    units = build_trie(offsets, blob, np.arange(len(ordered), dtype=np.int32))
    for asked in (text, *ordered[:3], "".join(ordered)):
        found = find_prefixes(units, asked.encode())
        expected = [key for key in ordered if asked.startswith(key)]
        expected.sort(key=lambda key: len(key.encode()))
        assert [length for length, _ in found] == [len(key.encode()) for key in expected]
        assert [ordered[value] for _, value in found] == expected


@pytest.mark.parametrize("keys", [["b", "a"], ["a", "a"], ["", "a"], ["ab", "a"]])
def test_keys_out_of_order_are_refused(keys: list[str]) -> None:
    blob, offsets = pack_strings(keys)
    with pytest.raises(DataError, match="key"):
        build_trie(offsets, blob, np.arange(len(keys), dtype=np.int32))


# --- Files ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("compiled", [True, False])
def test_what_is_written_is_read_again(tmp_path: Path, compiled: bool) -> None:
    lexicon = random_lexicon(5)
    lexicon.write(tmp_path, compiled=compiled)
    again = Lexicon.load(tmp_path)
    assert again.unit == lexicon.unit == 2.0
    assert list(again.dictionaries[0].listed()) == list(lexicon.dictionaries[0].listed())
    assert list(again.unknown.listed()) == list(lexicon.unknown.listed())
    assert (again.characters.codes == lexicon.characters.codes).all()
    assert (again.matrix == lexicon.matrix).all()
    one, other = lexicon.tag_all(TEXTS), again.tag_all(TEXTS)
    assert (one.word == other.word).all()
    assert (one.scores == other.scores).all()


def test_surfaces_with_commas_and_quotes_are_written(tmp_path: Path) -> None:
    matrix = np.zeros((1, 1), dtype=np.int16)
    words = [Entry(s, 0, 0, 1, "x,y") for s in (",", '"', 'a"b,c', '""', "d")]
    unknown = [Entry("DEFAULT", 0, 0, 9, "?")]
    lexicon = Lexicon.from_entries(words, matrix, Characters.of_kinds(KINDS, RANGES), unknown)
    lexicon.write(tmp_path, compiled=False)
    assert sorted(Lexicon.load(tmp_path).dictionaries[0].listed()) == sorted(words)


def test_a_users_dictionary_adds_words(tmp_path: Path) -> None:
    lexicon = random_lexicon(2)
    (tmp_path / "user.csv").write_text("abab,0,0,-500,mine\n")
    more = lexicon.with_users([tmp_path / "user.csv"])
    assert [w.feature for w in more.tag("abab")] == ["mine"]
    assert more.prefixes("ababc")[-1].feature == "mine"
    more.dictionaries[1].write(tmp_path / "user.dic")
    assert lexicon.with_users([tmp_path / "user.dic"]).tag("abab") == more.tag("abab")
    with pytest.raises(OptionError, match="expected one to write"):
        more.write(tmp_path / "out")


# --- What is known of boundaries ------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(10))
def test_known_boundaries_leave_the_ways_that_have_them(seed: int) -> None:
    lexicon, text = random_lexicon(seed), "abcアba"
    rules = Rules(lexicon)
    for known in ({2: True}, {3: False}, {1: True, 4: False}, {2: False, 3: True, 5: False}):
        ways = [way for way in rules.ways(text) if _agrees(way, known)]
        if not ways:  # what lies between them is an unknown word then
            continue
        best = max(-rules.cost(way) / lexicon.unit for way in ways)
        assert lexicon.tag_all([text], boundaries=[known]).scores[0] >= best
        words = lexicon.tag(text, boundaries=known)
        assert _agrees([(w.start, w.end, None) for w in words], known)


def _agrees(way: list[Any], known: dict[int, bool]) -> bool:
    starts = {start for start, _, _ in way}
    return all((at in starts) == begins for at, begins in known.items())


def test_a_known_word_that_no_entry_has_is_an_unknown_one() -> None:
    lexicon = Lexicon.from_words(["ab", "c"])
    words = lexicon.tag("abcd", boundaries={0: True, 1: False, 2: False, 3: False})
    assert [(w.surface, w.number >= lexicon.n_known) for w in words] == [("abcd", True)]


# --- Lists of words, bad input --------------------------------------------------------------------


def test_a_list_of_words_covers_any_text() -> None:
    lexicon = Lexicon.from_words({"東京": 1.0, "京都": 2.0, "東": 0.0, "都": 0.0})
    assert [w.surface for w in lexicon.tag("東京都")] == ["東", "京都"]
    assert [w.surface for w in lexicon.tag("x 東 😀")] == ["x", "東", "😀"]
    assert lexicon.tag("") == []
    assert lexicon.tag("  ") == []


def test_entries_that_differ_only_in_cost_are_all_there() -> None:
    lexicon = random_lexicon(0)
    matrix = np.zeros((1, 1), dtype=np.int16)
    words = [Entry("a", 0, 0, cost, "x") for cost in (5, 3, 4)]
    unknown = [Entry("DEFAULT", 0, 0, 9, "?")]
    made = Lexicon.from_entries(words, matrix, lexicon.characters, unknown, unit=1.0)
    assert made.tag_all(["a"]).scores.tolist() == [-3.0]
    assert [path.score for path in made.lattice("a").nbest(9)][:3] == [-3.0, -4.0, -5.0]


def test_costs_are_the_same_in_lattices_to_the_smallest() -> None:
    characters, least = Characters.of_kinds(KINDS, RANGES), -(2**15)
    matrix = np.full((1, 1), least, dtype=np.int16)
    unknown = [Entry(name, 0, 0, 9, "?") for name in KINDS]
    lexicon = Lexicon.from_entries([Entry("ab", 0, 0, least, "")], matrix, characters, unknown)
    for text, score in zip(["", "  ", "ab"], lexicon.tag_all(["", "  ", "ab"]).scores, strict=True):
        assert lexicon.lattice(text).best().score == score > 0


def test_a_text_that_no_words_cover_says_so() -> None:
    characters = Characters.of_kinds(KINDS, RANGES)
    matrix = np.zeros((1, 1), dtype=np.int16)
    unknown = [Entry("DEFAULT", 0, 0, 9, "?")]  # and nothing for letters
    lexicon = Lexicon.from_entries([Entry("ab", 0, 0, 1, "")], matrix, characters, unknown)
    answer = lexicon.tag_all(["ab", "aba", "dd"])
    assert answer.scores.tolist()[1] == -np.inf
    assert answer.words(1) == []
    assert np.isfinite(answer.scores[[0, 2]]).all()
    with pytest.raises(NoPathError, match="no words cover"):
        lexicon.tag("aba")
    with pytest.raises(NoPathError, match="no sequence of segments covers the text from here"):
        lexicon.lattice("aba").best()
    assert lexicon.lattice("aba").log_partition() == -np.inf


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        (Entry("", 0, 0, 1, ""), "empty"),
        (Entry("a", 3, 0, 1, ""), "contexts 3 and 0"),
        (Entry("a", 0, -1, 1, ""), "contexts 0 and -1"),
        (Entry("a", 0, 0, 1 << 15, ""), "32768"),
    ],
)
def test_words_that_cannot_be_are_refused(entry: Entry, message: str) -> None:
    lexicon = random_lexicon(0)
    unknown = list(lexicon.unknown.listed())
    with pytest.raises(DataError, match=message):
        Lexicon.from_entries([entry], lexicon.matrix, lexicon.characters, unknown)


def test_other_bad_input_is_named(tmp_path: Path) -> None:
    lexicon = random_lexicon(0)
    with pytest.raises(DataError, match="without words"):
        Lexicon.from_words([])
    with pytest.raises(DataError, match="score nan"):
        Lexicon.from_words({"a": math.nan})
    with pytest.raises(DataError, match="boundary 9 of a text of 2"):
        lexicon.tag("ab", boundaries={9: True})
    with pytest.raises(DataError, match="surrogate"):
        lexicon.tag("a\ud800")
    with pytest.raises(OptionError, match="unit"):
        lexicon.with_unit(0)
    with pytest.raises(ModelFileError, match="not the folder of a dictionary"):
        Lexicon.load(tmp_path)
    with pytest.raises(FileNotFoundError):
        Lexicon.load(tmp_path / "none")
    words = [Entry("a", 0, 0, 1, "")] * 256
    with pytest.raises(DataError, match="has 256 entries"):
        Lexicon.from_entries(words, lexicon.matrix, lexicon.characters, lexicon.unknown.listed())
    small = np.zeros((2, 2), dtype=np.int16)
    with pytest.raises(DataError, match="the matrix has 2 and 2"):
        Lexicon(lexicon.dictionaries, lexicon.unknown, lexicon.characters, small)


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("lex.csv", "a,0,0\n", "line 1"),
        ("lex.csv", "b,0,0,1,x\na,0,zero,4,y\n", "line 2"),
        ("lex.csv", "a,,,4,y\n", "line 1"),
        ("lex.csv", "a,-1,-1,4,y\n", "no contexts"),
        ("matrix.def", "3\n", "two sizes"),
        ("matrix.def", "3 3\n0 0\n", "lines of"),
        ("matrix.def", "3 3\n0 0 1\n5 0 1\n", "line 3: the contexts 5 and 0 are out of range"),
        ("matrix.def", "3 3\n0 0 99999\n", "32767"),
        ("char.def", "DEFAULT 0 1 0\n", "SPACE is missing"),
        ("char.def", "DEFAULT 0 1 0\nSPACE 0 1 0\n0x61 LETTER\n", "LETTER"),
        ("char.def", "DEFAULT 0 one 0\n", "line 1"),
        ("char.def", "DEFAULT 0 1 99\nSPACE 0 1 0\n", "0 to 15"),
        ("unk.def", "LETTER,0,0,1,x\n", "no entry for DEFAULT"),
    ],
)
def test_a_source_that_cannot_be_read_names_its_line(
    tmp_path: Path, name: str, text: str, message: str
) -> None:
    random_lexicon(4).write(tmp_path, compiled=False)
    (tmp_path / name).write_text(text)
    with pytest.raises(DataError, match=message):
        Lexicon.load(tmp_path)


@pytest.mark.thorough
@pytest.mark.parametrize("name", ["sys.dic", "unk.dic", "char.bin", "matrix.bin"])
@pytest.mark.parametrize("times", [30, pytest.param(120, marks=pytest.mark.slow)])
def test_a_damaged_dictionary_is_refused_or_answers(tmp_path: Path, name: str, times: int) -> None:
    """Bits turned anywhere, and files cut anywhere: never a crash, never an index outside."""
    random_lexicon(6).write(tmp_path)
    whole, refused = (tmp_path / name).read_bytes(), []
    draw = np.random.default_rng(0)
    for trial in range(times):
        data = bytearray(whole)
        if trial % 4 == 0:
            del data[int(draw.integers(0, len(data))) :]
        else:
            for at in draw.integers(min(72, len(data) // 2) * (trial % 2), len(data), 3).tolist():
                data[at] ^= 1 << int(draw.integers(0, 8))
        (tmp_path / name).unlink()
        (tmp_path / name).write_bytes(bytes(data))
        try:
            lexicon = Lexicon.load(tmp_path)
            lexicon.tag_all(TEXTS)
            for text in TEXTS:
                lexicon.lattice(text).nbest(3)
            list(itertools.islice(lexicon.dictionaries[0].listed(), 50))
        except FstcrfError as error:
            refused.append(str(error))
    assert refused
    assert not any("\n" in message for message in refused)
