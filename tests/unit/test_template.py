"""The text form of templates."""

from __future__ import annotations

from pathlib import Path

import pytest

from fstcrf.errors import DataError, TemplateError
from fstcrf.text.features import (
    Macro,
    Plain,
    Template,
    TemplateSet,
    parse_template,
    read_template,
    tape_column,
)
from fstcrf.text.features.derive import Derived


def lines(text: str) -> list[str]:
    return str(parse_template(text)).splitlines()


def test_a_crfpp_file() -> None:
    templates = parse_template(
        "# Unigram\n\nU00:%x[-2,0]\nU05:%x[-1,0]/%x[0,0]\r\n  U06:in/%x[0,1]\n# Bigram\nB\n"
    )
    assert templates.has_transitions
    assert templates.columns == (0, 1)
    assert templates.templates[1] == Template(
        "node",
        ("U05:", Macro("x", Plain(0), -1, -1), "/", Macro("x", Plain(0))),
    )
    assert [t.line for t in templates] == [3, 4, 5]


def test_the_kinds_of_lines() -> None:
    templates = parse_template("UB\nB\nB\nB01:%x[0,1]\nBOS\nEOS")
    assert [t.kind for t in templates] == ["node", "arc", "bos", "eos"]
    assert templates.has_transitions
    assert str(templates) == "UB\nB01:%x[0,1]\nBOS\nEOS\nB\n"


def test_a_bigram_template_without_macros_is_label_transitions() -> None:
    assert parse_template("B07:") == TemplateSet((), has_transitions=True)


def test_columns_by_name_number_and_quoted() -> None:
    parts = parse_template('U%x[0, word ]%x[+1,3]%x[0,"3"]%x[0,"a ""b"", c"]%x[0,upos+feats]')
    columns = [m.source for m in parts.templates[0].macros]
    assert columns == [
        Plain("word"),
        Plain(3),
        Plain("3"),
        Plain('a "b", c'),
        Plain("upos+feats"),
    ]
    assert str(parts) == 'U%x[0,word]%x[1,3]%x[0,"3"]%x[0,"a ""b"", c"]%x[0,upos+feats]\n'


def test_derived_columns_nest() -> None:
    macro = parse_template("U:%x[0,prefix( lower(word) , 3)]").templates[0].macros[0]
    assert macro.source == Derived("prefix", Derived("lower", Plain("word")), (3,))


def test_backslashes_in_patterns_mean_what_they_mean_in_the_pattern() -> None:
    source = parse_template(r'U:%x[0,match(word,"\d""\\$")]').templates[0].macros[0].source
    assert isinstance(source, Derived)
    assert source.arguments == (r'\d"\\$',)


def test_percent_signs() -> None:
    template = parse_template("U%%:%x[0,word]%%").templates[0]
    assert template.parts[0] == "U%:"
    assert str(template) == "U%%:%x[0,word]%%"


def test_window_ranges_expand() -> None:
    assert lines("U1:%x[-1..1,word]") == [
        "U1[-1]:%x[-1,word]",
        "U1[0]:%x[0,word]",
        "U1[1]:%x[1,word]",
    ]
    assert lines("U2%x[0..1,word]x") == ["U2[0]%x[0,word]x", "U2[1]%x[1,word]x"]
    assert lines("B2:a:%x[0..1,word]") == ["B2[0]:a:%x[0,word]", "B2[1]:a:%x[1,word]"]


def test_ranges_of_one_line_move_together() -> None:
    assert lines("U1:%x[-1..0,word]|%x[0..1,word]|%x[0,pos]") == [
        "U1[-1]:%x[-1,word]|%x[0,word]|%x[0,pos]",
        "U1[0]:%x[0,word]|%x[1,word]|%x[0,pos]",
    ]


def test_bags_tapes_and_values() -> None:
    templates = parse_template("U9:%x{-4..-1,word}\nU6:%y[0,pos]\nU7:%v[0,score]*%x[0,word]")
    assert [t.macros[0].kind for t in templates] == ["bag", "tape", "value"]
    assert templates.tapes == ("pos",)
    assert templates.columns == ("word", "score")
    assert tape_column("pos") == "%y[pos]"


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("word", "starts with U or B"),
        ("U0:%x[0", "expected an offset"),
        ("U0:%x[0,word", r"expected '\]'"),
        ("U0:%x{0..1,word]", "expected '}'"),
        ("U0:%x[0,]", "expected a column"),
        ("U0:%t[0,word]", "expected %x"),
        ("U0:100%", "expected %x"),
        ("U0:%x[0,shap(word)]", r"no function 'shap'; did you mean shape\?"),
        ("U0:%x[0,zzz(word)]", "there are lower"),
        ("U0:%x[0,prefix(word)]", r"called as prefix\(column,number\)"),
        ("U0:%x[0,match(word,3)]", r"called as match\(column,\"text\"\)"),
        ("U0:%x[0,prefix(word,x)]", "a number or a"),
        ("U0:%x[0,prefix(word,0)]", "lengths start at 1"),
        ("U0:%x[0,ngrams(word,3,2)]", "may not decrease"),
        ('U0:%x[0,match(word,"(")]', "not a regular expression"),
        ("U0:%x[0,lower(ngrams(word,1,2))]", "must be outermost"),
        ("U0:%v[0,ngrams(word,1,2)]", "needs one number"),
        ("U0:%y[-1,pos]", "offset must be 0"),
        ("U0:%y[0,2]", "name of a tape"),
        ("U0:%y[0,lower(pos)]", "name of a tape"),
        ("U0:%x[1..0,word]", "is empty"),
        ("U0:%x[0..1,word]%x[0..2,word]", "different lengths"),
        ("U0:%x[5000,word]", "offsets go from"),
        ('U0:%x[0,member(word,"missing.txt")]', "the list 'missing.txt': No such file"),
    ],
)
def test_what_is_wrong_is_said_with_its_line(line: str, message: str) -> None:
    with pytest.raises(TemplateError, match=message) as caught:
        parse_template(f"# one\n{line}", source="x.tpl")
    assert str(caught.value).startswith("x.tpl:2: ")
    assert "\n" not in str(caught.value)


def test_a_repeated_template() -> None:
    with pytest.raises(TemplateError, match=r"x\.tpl:2: 'U:%x\[0,w\]' repeats .* of line 1"):
        parse_template("U:%x[0,w]\nU:%x[0,w]", source="x.tpl")


def test_a_missing_column_names_file_line_and_columns() -> None:
    templates = parse_template("\nU:%x[0,wrd]", source="x.tpl")
    with pytest.raises(TemplateError, match=r"x\.tpl:2: .*'wrd'; train\.txt has 'word', 'pos'"):
        templates.resolved(("word", "pos", tape_column("chunk")), data="train.txt")
    with pytest.raises(TemplateError, match="reads column 2; the corpus has 'word', 'pos'"):
        parse_template("U:%x[0,2]").resolved(("word", "pos"))
    with pytest.raises(TemplateError, match="labels of tape 'pos', which are not given"):
        parse_template("U:%y[0,pos]").resolved(("word", "pos"))


def test_numbers_become_names() -> None:
    templates = parse_template("U:%x[0,lower(1)]/%v[0,0]").resolved(("a", "b"))
    assert str(templates) == "U:%x[0,lower(b)]/%v[0,a]\n"


def test_member_lists_are_read_once_and_kept(tmp_path: Path) -> None:
    (tmp_path / "lists").mkdir()
    (tmp_path / "lists" / "t.txt").write_text("Mr.\r\n\nDr.\nMr.\n", encoding="utf-8")
    file = tmp_path / "x.tpl"
    file.write_text('U:%x[0,member(word,"lists/t.txt")]\n', encoding="utf-8")
    templates = read_template(file)
    assert templates.lists == {"lists/t.txt": ("Dr.", "Mr.")}
    assert templates.source == str(file)
    assert parse_template(str(templates), lists=templates.lists) == templates
    with pytest.raises(TemplateError, match="not among those given"):
        parse_template(str(templates), lists={})


def test_unreadable_files(tmp_path: Path) -> None:
    file = tmp_path / "x.tpl"
    file.write_bytes(b"U:%x[0,w]\nU:\xff\n")
    with pytest.raises(DataError, match=r"x\.tpl:2: byte 0xff is not UTF-8"):
        read_template(file)
    file.write_text("# nothing\n", encoding="utf-8")
    with pytest.raises(TemplateError, match="holds no templates"):
        read_template(file)
    with pytest.raises(FileNotFoundError):
        read_template(tmp_path / "none.tpl")


def test_a_byte_order_mark_is_tolerated(tmp_path: Path) -> None:
    file = tmp_path / "x.tpl"
    file.write_bytes(b"\xef\xbb\xbfU:%x[0,w]\n")
    assert str(read_template(file)) == "U:%x[0,w]\n"


@pytest.mark.parametrize(
    ("kind", "parts", "message"),
    [
        ("node", ("B:",), "should start with U"),
        ("arc", ("BOS",), "should start with B"),
        ("node", ("U:\n",), "not one line"),
        ("node", ("U: ",), "not one line"),
        ("node", ("U", ":"), "split where there is no macro"),
        ("node", ("U", Macro("x", Plain("w")), ""), "split where there is no macro"),
        ("node", ("U", Macro("x", Plain("w"), 0, 1)), "expand it first"),
        ("arc", ("B1",), "has no macro"),
        ("bos", ("U",), "must be the only word on its line"),
    ],
)
def test_templates_that_are_no_line(kind: str, parts: tuple[str, ...], message: str) -> None:
    with pytest.raises(TemplateError, match=message):
        Template(kind, parts)  # type: ignore[arg-type]
