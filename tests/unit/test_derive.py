"""Derived columns."""

from __future__ import annotations

import pytest

from fstcrf.text.features import Derived, Plain, parse_template
from fstcrf.text.features.derive import is_multiple, resolved, root, strings_of


def made(expression: str, string: str) -> list[str]:
    lists = {"titles": ["Mr.", "Dr."]}
    macro = parse_template(f"U%x[0,{expression}]", lists=lists).templates[0].macros[0]
    return strings_of(macro.source)(string)


@pytest.mark.parametrize(
    ("expression", "string", "expected"),
    [
        ("w", "The", "The"),
        ("lower(w)", "ÉCLAIR", "éclair"),
        ("shape(w)", "McCoy's-52", "AaAaa'a-00"),
        ("shape(w)", "Ǆ中é٣", "Axa0"),
        ("shape(w)", "", ""),
        ("short_shape(w)", "McCoys--1990", "AaAa-0"),
        ("short_shape(w)", "...", "."),
        ("charclass(w)", "McCoy's-52", "Aa0."),
        ("charclass(w)", "中国", "x"),
        ("charclass(w)", "", ""),
        ("prefix(w,3)", "there", "the"),
        ("prefix(w,3)", "to", "to"),
        ("suffix(w,3)", "there", "ere"),
        ("suffix(w,3)", "to", "to"),
        ("suffix(w,3)", "", ""),
        ('match(w,"^[A-Z]+$")', "IBM", "1"),
        ('match(w,"^[A-Z]+$")', "Ibm", "0"),
        ('find(w,"[0-9]+")', "B-52-3", "52"),
        ('find(w,"[0-9]+")', "none", ""),
        ('member(w,"titles")', "Mr.", "1"),
        ('member(w,"titles")', "mr.", "0"),
        ("prefix(lower(w),2)", "THE", "th"),
        ("charclass(suffix(w,2))", "Ab12", "0"),
        ('member(prefix(w,3),"titles")', "Dr.X", "1"),
    ],
)
def test_one_string(expression: str, string: str, expected: str) -> None:
    assert made(expression, string) == [expected]


def test_ngrams_have_boundary_marks_and_no_repetition() -> None:
    assert made("ngrams(w,2,3)", "aaa") == ["<a", "aa", "a>", "<aa", "aaa", "aa>"]
    assert made("ngrams(w,1,1)", "abca") == ["a", "b", "c"]
    assert made("ngrams(w,1,2)", "ab") == ["a", "b", "<a", "ab", "b>"]
    assert made("ngrams(w,9,9)", "ab") == []
    assert made("ngrams(w,1,1)", "") == []
    assert made("ngrams(lower(w),4,4)", "AB") == ["<ab>"]


def test_the_column_of_a_source() -> None:
    source = Derived("prefix", Derived("lower", Plain(0)), (3,))
    assert root(source) == 0
    assert str(resolved(source, "word")) == "prefix(lower(word),3)"
    assert not is_multiple(source)
    assert is_multiple(Derived("ngrams", source, (1, 2)))


def test_a_list_is_not_printed() -> None:
    source = Derived("member", Plain("w"), ("x",), tuple(map(str, range(1000))))
    assert len(repr(source)) < 100
