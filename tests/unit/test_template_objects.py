"""Templates as Python objects equal those of the text form."""

from __future__ import annotations

from pathlib import Path

import pytest

from fstcrf.errors import TemplateError
from fstcrf.text.features import (
    BOS,
    EOS,
    Pattern,
    Template,
    TemplateSet,
    at,
    bag,
    bias,
    charclass,
    find,
    lower,
    match,
    member,
    ngrams,
    parse_template,
    prefix,
    shape,
    short_shape,
    suffix,
    tape,
    template_set,
    transitions,
    value,
    window,
)


def test_every_object_has_its_text() -> None:
    made = template_set(
        at("word"),
        at(1, -2),
        window("pos", -1, 1),
        at("word", -1) & at("word"),
        window("word", -1, 0) & window("word", 0, 1) & at("pos"),
        bag("word", -4, -1),
        tape("pos"),
        value("score"),
        value("score") & at("word"),
        at("word") & value("score", 1),
        bias(),
        at("pos").on_transitions(),
        at(suffix(lower("word"), 3)).named("U_end"),
        BOS,
        EOS,
        transitions(),
    )
    text = """
        U00:%x[0,word]
        U01:%x[-2,1]
        U02:%x[-1..1,pos]
        U03:%x[-1,word]/%x[0,word]
        U04:%x[-1..0,word]/%x[0..1,word]/%x[0,pos]
        U05:%x{-4..-1,word}
        U06:%y[0,pos]
        U07:%v[0,score]
        U08:%v[0,score]%x[0,word]
        U09:%x[0,word]%v[1,score]
        U10:bias
        B00:%x[0,pos]
        U_end:%x[0,suffix(lower(word),3)]
        BOS
        EOS
        B
    """
    assert made == parse_template(text)


def test_every_function_has_its_text() -> None:
    sources = [
        shape("word"),
        short_shape("word"),
        charclass(0),
        prefix("word", 2),
        ngrams("word", 2, 4),
        match("word", '^"\\d'),
        find("word", "[0-9]+"),
        member("word", ["b", "a", "b"], name="ab"),
    ]
    made = template_set(*map(at, sources))
    text = "\n".join(f"U{i:02d}:%x[0,{source}]" for i, source in enumerate(sources))
    assert made == parse_template(text, lists={"ab": ["a", "b"]})


def test_sets_join() -> None:
    first = parse_template("Uw:%x[0,word]\nB")
    assert template_set(first, at("pos")) == parse_template("Uw:%x[0,word]\nU00:%x[0,pos]\nB")
    assert template_set() == TemplateSet()


def test_an_arc_makes_the_conjunction_one() -> None:
    pattern = at("word").on_transitions() & at("pos")
    assert pattern.kind == "arc"
    assert isinstance(pattern, Pattern)


def test_member_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "names.txt"
    file.write_text("Ada\nAlan\n", encoding="utf-8")
    assert member("word", file, name="names").entries == ("Ada", "Alan")
    assert member("word", str(file)).arguments == (str(file),)


def test_mistakes() -> None:
    with pytest.raises(TemplateError, match="needs a name"):
        member("word", ["a"])
    with pytest.raises(TemplateError, match="numbered from 0"):
        at(-1)
    with pytest.raises(TemplateError, match="should start with U"):
        template_set(at("word").named("word"))
    with pytest.raises(TemplateError, match="repeats the template"):
        template_set(BOS, BOS)
    with pytest.raises(TemplateError, match="two different lists are called 'x'"):
        template_set(at(member("w", ["a"], name="x")), at(member("w", ["b"], name="x"), 1))
    with pytest.raises(TemplateError, match="an argument of match contains a line break"):
        match("word", "a\nb")


def test_the_line_is_no_part_of_the_value() -> None:
    assert Template("bos", line=3) == BOS
    assert hash(Template("bos", line=3)) == hash(BOS)
