"""Laws of templates and of their index, against an implementation on strings, token by token."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import pairwise, product
from typing import Any, Literal

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from fstcrf.errors import ModelFileError
from fstcrf.kernel import SparseRows
from fstcrf.text.corpus.corpus import Corpus
from fstcrf.text.features import (
    FeatureIndex,
    LiteralIndex,
    Template,
    TemplateSet,
    parse_template,
    tape_column,
)
from fstcrf.text.features import keys as keys_module
from fstcrf.text.features.derive import Derived, Plain, Source, derived, root, strings_of
from fstcrf.text.features.template import Macro

COLUMNS = ("word", "pos")
CALLS: list[tuple[str, tuple[str | int, ...]]] = [
    ("lower", ()),
    ("shape", ()),
    ("short_shape", ()),
    ("charclass", ()),
    ("prefix", (2,)),
    ("suffix", (1,)),
    ("match", ("[ab]",)),
    ("find", ("[a-z]+",)),
]
Sentences = list[list[tuple[str, str, str, str]]]
Key = tuple[str, tuple[object, ...]]  # text of an attribute, identity of its template

words = st.sampled_from(["a", "B", "ab", "ö1", "", "_B"])
tags = st.sampled_from(["X", "Y", "a"])
numbers = st.sampled_from(["0", "1", "-2.5", "1e-3"])
sentences_of: st.SearchStrategy[Sentences] = st.lists(
    st.lists(st.tuples(words, tags, numbers, tags), max_size=5), max_size=4
)


def corpus(sentences: Sentences) -> Corpus:
    return Corpus.from_sentences(sentences, columns=("word", "pos", "n", tape_column("t")))


@st.composite
def sources(draw: st.DrawFn, *, multiple: bool = True) -> Source:
    source: Source = Plain(draw(st.sampled_from(COLUMNS)))
    for _ in range(draw(st.integers(0, 2))):
        function, arguments = draw(st.sampled_from(CALLS))
        source = derived(function, source, arguments)
    if multiple and draw(st.integers(0, 5)) == 0:
        source = derived("ngrams", source, (1, 2))
    return source


@st.composite
def macros(draw: st.DrawFn) -> Macro:
    kind = draw(st.sampled_from(["x", "x", "x", "bag", "tape", "value"]))
    first = draw(st.integers(-3, 3))
    if kind == "tape":
        return Macro("tape", Plain("t"))
    if kind == "value":
        return Macro("value", Plain("n"), first, first)
    if kind == "bag":
        return Macro("bag", draw(sources()), first, first + draw(st.integers(0, 2)))
    return Macro("x", draw(sources()), first, first)


@st.composite
def templates(draw: st.DrawFn, name: str) -> Template:
    if draw(st.integers(0, 9)) == 0:
        return Template(draw(st.sampled_from(["bos", "eos"])))
    kind: Literal["node", "arc"] = draw(st.sampled_from(["node", "node", "arc"]))
    holes = draw(st.lists(macros(), min_size=int(kind == "arc"), max_size=3))
    parts: list[str | Macro] = [("U" if kind == "node" else "B") + name]
    for macro in holes:
        parts += [macro, draw(st.sampled_from(["/", "|", "%", "é"]))]
    if draw(st.booleans()) and holes:
        parts.pop()
    return Template(kind, tuple(parts))


@st.composite
def template_sets(draw: st.DrawFn) -> TemplateSet:
    """Templates, some of which have the same text around their macros."""
    names = draw(st.lists(st.sampled_from(["0:", "1:", "2:", ":"]), max_size=5))
    chosen = dict.fromkeys(draw(templates(name)) for name in names)
    return TemplateSet(tuple(chosen), draw(st.booleans()))


def naive_choices(
    macro: Macro, sentence: Sequence[dict[str, str]], t: int, boundary: str
) -> list[str]:
    """The strings that a macro may stand for at a position."""
    column = str(root(macro.source))
    column = tape_column(column) if macro.kind == "tape" else column
    found: list[str] = []
    for place in range(t + macro.first, t + macro.last + 1):
        if 0 <= place < len(sentence):
            found += strings_of(macro.source)(sentence[place][column])
        elif macro.kind == "x" and boundary == "pad":
            found.append(f"_B{place}" if place < 0 else f"_B+{place - len(sentence) + 1}")
    return found


def naive_value(template: Template, sentence: Sequence[dict[str, str]], t: int) -> float | None:
    value = 1.0
    for macro in template.macros:
        if macro.kind == "value":
            place = t + macro.first
            if not 0 <= place < len(sentence):
                return None
            value *= float(sentence[place][str(root(macro.source))])
    return value


def fires(template: Template, length: int, t: int) -> bool:
    return {"bos": t == 0, "eos": t == length - 1, "arc": t > 0, "node": True}[template.kind]


def naive(
    sentences: Sentences, chosen: TemplateSet, boundary: str, *, arc: bool
) -> list[dict[Key, float]]:
    """The attributes of every token, from the definition."""
    tokens: list[dict[Key, float]] = []
    names = ("word", "pos", "n", tape_column("t"))
    for rows in sentences:
        sentence = [dict(zip(names, row, strict=True)) for row in rows]
        for t in range(len(sentence)):
            found: dict[Key, float] = {}
            for template in chosen:
                value = naive_value(template, sentence, t)
                if (template.kind == "arc") != arc or value is None:
                    continue
                if not fires(template, len(sentence), t):
                    continue
                choices = [
                    [part]
                    if isinstance(part, str)
                    else [""]
                    if part.kind == "value"
                    else naive_choices(part, sentence, t, boundary)
                    for part in template.parts
                ]
                fixed = {"bos": [["__BOS__"]], "eos": [["__EOS__"]]}
                for strings in product(*fixed.get(template.kind, choices)):
                    found["".join(strings), identity(template)] = value
            tokens.append(found)
    return tokens


def identity(template: Template) -> tuple[object, ...]:
    """What two templates have in common if they share attributes."""
    values = tuple(m for m in template.macros if m.kind == "value")
    strings = [m for m in template.macros if m.kind != "value"]
    reads = tuple((m.kind == "tape", m.source) for m in strings)
    literals = "".join(
        p if isinstance(p, str) else "" if p.kind == "value" else "\0" for p in template.parts
    )
    return (template.kind, literals, reads, values)


def decoded(
    index: FeatureIndex, rows: SparseRows | None, *, arc: bool
) -> list[list[tuple[str, float]]]:
    if rows is None:
        return []
    texts = index.attributes(rows.index.tolist(), arc=arc)
    values = [1.0] * len(texts) if rows.value is None else rows.value.tolist()
    pairs = list(zip(texts, values, strict=True))
    return [sorted(pairs[a:b]) for a, b in pairwise(rows.indptr.tolist())]


def texts(tokens: list[dict[Key, float]], known: set[Key]) -> list[list[tuple[str, float]]]:
    """Text and value of the attributes that are known."""
    return [
        sorted((key[0], float(np.float32(v))) for key, v in token.items() if key in known)
        for token in tokens
    ]


def same(one: SparseRows | None, other: SparseRows | None) -> bool:
    if one is None or other is None:
        return one is other
    if (one.value is None) != (other.value is None):
        return False
    values = one.value is None or other.value is None or np.array_equal(one.value, other.value)
    return (
        values
        and np.array_equal(one.indptr, other.indptr)
        and np.array_equal(one.index, other.index)
    )


@given(template_sets())
def test_the_text_reads_back(chosen: TemplateSet) -> None:
    assert parse_template(str(chosen)) == chosen


literal_texts = st.text(st.characters(exclude_characters="\r\n", codec="utf-8"), max_size=8)


@given(
    st.lists(literal_texts, min_size=2, max_size=4),
    literal_texts,
    literal_texts,
    st.integers(-9, 9),
)
def test_any_text_reads_back(literals: list[str], column: str, entry: str, offset: int) -> None:
    source = Derived("member", Plain(column), (column,), (entry,))
    macro = Macro("x", source, offset, offset)
    parts: list[str | Macro] = ["U" + literals[0], macro]
    for literal in literals[1:]:
        parts += [literal, macro] if literal else [macro]
    template = Template("node", (*parts,))
    chosen = TemplateSet((template,))
    assert parse_template(str(chosen), lists=chosen.lists) == chosen


@pytest.mark.parametrize("boundary", ["pad", "skip"])
@given(sentences_of, template_sets(), sentences_of)
def test_the_design_is_what_the_definition_says(
    boundary: Literal["pad", "skip"], train: Sentences, chosen: TemplateSet, test: Sentences
) -> None:
    index, design = FeatureIndex.build(corpus(train), chosen, boundary=boundary)
    again = index.design(corpus(train))
    assert same(again.node, design.node)
    assert same(again.arc, design.arc)
    tested = index.design(corpus(test))
    sides = ((design.node, tested.node, False), (design.arc, tested.arc, True))
    for trained, unseen, arc in sides:
        expected = naive(train, chosen, boundary, arc=arc)
        known = {key for token in expected for key in token}
        if trained is None:
            assert not known
            continue
        assert decoded(index, trained, arc=arc) == texts(expected, known)
        wanted = texts(naive(test, chosen, boundary, arc=arc), known)
        assert decoded(index, unseen, arc=arc) == wanted


@given(sentences_of, template_sets())
def test_every_attribute_is_found_by_its_text(train: Sentences, chosen: TemplateSet) -> None:
    index, _ = FeatureIndex.build(corpus(train), chosen)
    for arc, count in ((False, index.n_node_rows), (True, index.n_arc_rows)):
        for text in index.attributes(range(count), arc=arc):
            row = index.row(text, arc=arc)
            assert row is not None
            assert index.attribute(row, arc=arc) == text


@given(sentences_of, template_sets(), sentences_of)
def test_saving_changes_nothing(train: Sentences, chosen: TemplateSet, test: Sentences) -> None:
    index, _ = FeatureIndex.build(corpus(train), chosen)
    metadata = json.loads(json.dumps(index.metadata()))
    loaded = FeatureIndex.from_arrays(index.arrays(), metadata)
    ours, theirs = index.design(corpus(test)), loaded.design(corpus(test))
    assert same(ours.node, theirs.node)
    assert same(ours.arc, theirs.arc)
    assert loaded.attributes(range(index.n_node_rows)) == index.attributes(range(index.n_node_rows))


@given(sentences_of, template_sets(), sentences_of)
def test_a_warm_start_keeps_what_was_known(
    first: Sentences, chosen: TemplateSet, second: Sentences
) -> None:
    base, old = FeatureIndex.build(corpus(first), chosen)
    index, new = FeatureIndex.build(corpus(second), chosen, base=base)
    known = range(base.n_node_rows)
    assert index.attributes(known) == base.attributes(known)
    assert same(index.design(corpus(first)).node, old.node)
    assert same(index.design(corpus(second)).node, new.node)
    fresh, _ = FeatureIndex.build(corpus(first + second), chosen)
    assert index.n_node_rows == fresh.n_node_rows
    assert index.n_arc_rows == fresh.n_arc_rows


@given(sentences_of, template_sets(), sentences_of)
def test_prefix_tables_change_nothing(
    train: Sentences, chosen: TemplateSet, test: Sentences
) -> None:
    plain, _ = FeatureIndex.build(corpus(train), chosen)
    expected = [everything(plain, sentences) for sentences in (train, test)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(keys_module, "KEY_BITS", 8)
        narrow, design = FeatureIndex.build(corpus(train), chosen)
        loaded = FeatureIndex.from_arrays(narrow.arrays(), narrow.metadata())
        for index in (narrow, loaded):
            assert index.n_node_rows == plain.n_node_rows
            assert [everything(index, sentences) for sentences in (train, test)] == expected
        warm, _ = FeatureIndex.build(corpus(test), chosen, base=narrow)
        known = range(narrow.n_node_rows)
        assert warm.attributes(known) == narrow.attributes(known)
        assert same(warm.design(corpus(train)).node, design.node)


def everything(index: FeatureIndex, sentences: Sentences) -> list[list[list[tuple[str, float]]]]:
    """The attributes of labels and of label pairs of every token."""
    design = index.design(corpus(sentences))
    return [decoded(index, design.node, arc=False), decoded(index, design.arc, arc=True)]


@given(sentences_of, template_sets(), st.integers(1, 4))
def test_minimum_counts_are_token_counts(
    train: Sentences, chosen: TemplateSet, min_count: int
) -> None:
    full, design = FeatureIndex.build(corpus(train), chosen)
    counts = np.bincount(design.node.index, minlength=full.n_node_rows)
    kept = np.flatnonzero(counts >= min_count).tolist()
    index, _ = FeatureIndex.build(corpus(train), chosen, min_count=min_count)
    assert index.attributes(range(index.n_node_rows)) == full.attributes(kept)


@given(sentences_of, template_sets())
def test_hashed_rows_are_those_of_the_attributes(train: Sentences, chosen: TemplateSet) -> None:
    index, design = FeatureIndex.build(corpus(train), chosen, hash_bits=30)
    plain, by_name = FeatureIndex.build(corpus(train), chosen)
    assert np.array_equal(design.node.indptr, by_name.node.indptr)
    names = plain.attributes(by_name.node.index.tolist())
    for token in range(len(by_name.node)):
        part = slice(by_name.node.indptr[token], by_name.node.indptr[token + 1])
        found = [index.row(text) for text in names[part]]
        unique = {row for row in found if row is not None}
        assert unique <= set(design.node.index[part].tolist())


@given(st.data())
@settings(max_examples=200)
def test_damage_is_found_or_harmless(data: st.DataObject) -> None:
    chosen = parse_template("U0:%x[0,word]/%x[1,pos]\nU1:%x{-1..1,lower(word)}\nB:%x[0,pos]")
    train: Sentences = [[("a", "X", "1", "X"), ("B", "Y", "1", "X")], [("ö1", "a", "1", "Y")]]
    index, _ = FeatureIndex.build(corpus(train), chosen)
    arrays = {name: array.copy() for name, array in index.arrays().items()}
    name = data.draw(st.sampled_from(sorted(n for n, a in arrays.items() if a.size)))
    view = arrays[name].view(np.uint8)
    place = data.draw(st.integers(0, view.size - 1))
    view[place] ^= np.uint8(data.draw(st.integers(1, 255)))
    try:
        loaded = FeatureIndex.from_arrays(arrays, index.metadata())
    except ModelFileError:
        return
    assert len(loaded.attributes(range(loaded.n_node_rows))) == index.n_node_rows
    loaded.design(corpus(train))


literal_tokens = st.lists(
    st.one_of(
        st.lists(st.text(max_size=3), max_size=3),
        st.dictionaries(
            st.text(max_size=3),
            st.one_of(st.text(max_size=3), st.booleans(), st.floats(-1e6, 1e6)),
            max_size=3,
        ),
    ),
    max_size=4,
)


@given(st.lists(literal_tokens, max_size=4), st.lists(literal_tokens, max_size=4))
def test_laws_of_literal_attributes(first: list[Any], second: list[Any]) -> None:
    base, old = LiteralIndex.build(first)
    assert same(base.design(first).node, old.node)
    assert [base.row(text) for text in base.attribute_strings] == list(range(base.n_node_rows))
    loaded = LiteralIndex.from_arrays(base.arrays(), base.metadata())
    assert loaded.attribute_strings == base.attribute_strings
    index, _ = LiteralIndex.build(second, base=base)
    assert index.attribute_strings[: base.n_node_rows] == base.attribute_strings
    assert same(index.design(first).node, old.node)


@given(sentences_of, template_sets())
def test_writing_the_attributes_out_is_the_literal_path(
    train: Sentences, chosen: TemplateSet
) -> None:
    """Both indexes describe the same tokens, whichever of them made the strings."""
    assume(not any(m.kind == "value" for t in chosen for m in t.macros))
    index, design = FeatureIndex.build(corpus(train), chosen)
    tokens = decoded(index, design.node, arc=False)
    written = [[[text for text, _ in token] for token in tokens]]
    literal, rows = LiteralIndex.build(written)
    made = [literal.attribute(int(r)) for r in rows.node.index]
    assert made == [text for token in tokens for text, _ in token]
