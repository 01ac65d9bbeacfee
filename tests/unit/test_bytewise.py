"""Derived columns that look at bytes."""

from __future__ import annotations

import pytest

from fstcrf.errors import TemplateError
from fstcrf.text.features import bytewise, parse_template


def test_letters_of_ascii() -> None:
    assert bytewise.lower_ascii("ÀBc-Z") == "Àbc-z"


@pytest.mark.parametrize(
    ("expression", "found", "missing"),
    [
        (r"\a\d", "x1", "1x"),
        (r"^\l\u$", "aB", "aBc"),
        (r"\p", "a-b", "ab"),
        (r"\s", "a\tb", "ab"),
        (r"^\w*$", "a1", "a_1"),
        (r"^\A\D\L\P\S\U\W$", "1aAb.1-", "aaAb.1-"),
        (r"\.", ".", "a"),
        (r"a$b", "a$b", "ab"),
        (r"a^", "a^", "a"),
        ("^é$", "é", "É"),
        ("^..$", "é", "e"),
    ],
)
def test_tests(expression: str, found: str, missing: str) -> None:
    test = bytewise.test(expression)
    assert (test(found), test(missing)) == ("true", "false")


@pytest.mark.parametrize(
    ("expression", "string", "match"),
    [
        ("b*", "abb", ""),
        ("ab*", "abb", "a"),
        ("ab*$", "abb", "abb"),
        ("ab?", "abb", "ab"),
        ("^.?.?", "é", "é"),
        ("^.?", "é", r"\xc3"),
        ("x", "abc", ""),
        ("a?ab", "ab", "ab"),
        ("a?ab", "abz", "abz"),
        (".*" * 3 + "$", "abc", "abc"),
    ],
)
def test_finds(expression: str, string: str, match: str) -> None:
    assert bytewise.find(expression)(string) == match


@pytest.mark.parametrize("expression", ["*", "a**", "?", "^*", "a\\", "." * 201])
def test_what_is_no_expression(expression: str) -> None:
    for function in ("wapiti_test", "wapiti_find"):
        wanted = r"must be attached to a character|more than 200 parts"
        with pytest.raises(TemplateError, match=wanted):
            parse_template(f'U:%x[0,{function}(word,"{expression}")]')


@pytest.mark.parametrize("text", ["U:%x[@0,word]", "U:%x[@1..2,word]", "U:%x{@1,word}"])
def test_places_are_one_and_not_zero(text: str) -> None:
    with pytest.raises(TemplateError, match=r"@ needs a single place|expected"):
        parse_template(text)
