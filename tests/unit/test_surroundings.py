"""Templates that look past the ends of a sentence, inside its document."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import fstcrf
import tests.support.command as program
from fstcrf.errors import OptionError, TemplateError
from fstcrf.text.corpus import Corpus, Sentence, read_columns
from fstcrf.text.features import (
    FeatureIndex,
    at,
    bag,
    known_shape,
    lower,
    parse_template,
    template_set,
    window,
)
from fstcrf.text.features.reader import with_surroundings
from fstcrf.training import Chain, Run
from fstcrf.training.executors import ProcessExecutor

TEMPLATE = """\
U1:%d[-2,lower(word)]/%d[1,word]
U2:%d{-3..-1,word}
U3:%x[-1..0,word]
U4:%d[0,word]/%d[3,0]
B
"""


def corpus(seed: int, sentences: int = 9) -> Corpus:
    random = np.random.default_rng(seed)
    document = np.cumsum(random.random(sentences) < 0.4)
    rows = [["a", "B", "b", "c"][k] for k in random.integers(4, size=4 * sentences)]
    cut = np.sort(random.integers(len(rows) + 1, size=sentences - 1)).tolist()
    parts = [rows[a:b] for a, b in zip([0, *cut], [*cut, len(rows)], strict=True)]
    return Corpus.from_sentences(
        [
            Sentence({"word": words, "label": [w.upper() for w in words]}, document=d)
            for words, d in zip(parts, document.tolist(), strict=True)
        ]
    )


def written_out(data: Corpus) -> list[set[str]]:
    """Return the attributes of each token, from lists."""
    found = []
    for part in data.document_slices():
        sentences = data.column_lists("word")[part]
        words = [word for sentence in sentences for word in sentence]

        def at(k: int, words: list[str] = words) -> str:
            if k < 0:
                return f"_B{k}"
            return words[k] if k < len(words) else f"_B+{k - len(words) + 1}"

        k = 0
        for sentence in sentences:
            for place, word in enumerate(sentence):
                low = at(k - 2) if k < 2 else at(k - 2).lower()
                before = sentence[place - 1] if place else "_B-1"
                found.append(
                    {f"U1:{low}/{at(k + 1)}", f"U3[-1]:{before}", f"U3[0]:{word}"}
                    | {f"U2:{x}" for x in words[max(k - 3, 0) : k]}
                    | {f"U4:{word}/{at(k + 3)}"}
                )
                k += 1
    return found


def attributes(index: FeatureIndex, data: Corpus) -> list[set[str]]:
    rows = index.design(data).node
    bounds = zip(rows.indptr[:-1], rows.indptr[1:], strict=True)
    return [set(index.attributes(rows.index[a:b])) for a, b in bounds]


@pytest.mark.parametrize("seed", range(4))
def test_attributes_are_those_written_out(seed: int) -> None:
    data = corpus(seed)
    index, design = FeatureIndex.build(data, parse_template(TEMPLATE))
    assert attributes(index, data) == written_out(data)
    assert index.design(data).node.index.tolist() == design.node.index.tolist()


@pytest.mark.parametrize("bits", [None, 12])
def test_parts_of_a_document_see_the_same(bits: int | None) -> None:
    data = corpus(1)
    index, _ = FeatureIndex.build(data, parse_template(TEMPLATE), hash_bits=bits)
    whole, rows = with_surroundings(data, index.templates), index.design(data).node
    for k in range(len(data)):
        first, end = rows.indptr[data.offsets[[k, k + 1]]]
        mine = index.design(whole[k : k + 1]).node
        assert mine.index.tolist() == rows.index[first:end].tolist()
    apart = index.design(data[1:2]).node.index.tolist()  # without the others it is a document
    assert apart != index.design(whole[1:2]).node.index.tolist()


def test_a_sentence_of_a_document_is_explained_as_it_is_tagged() -> None:
    data = corpus(5, sentences=30)
    tagger = fstcrf.CRF.train(
        data, "label", TEMPLATE, structure=Chain(pairs="complete"), max_iterations=5
    )
    whole = with_surroundings(data, parse_template(TEMPLATE))
    wanted = tagger.marginals_all(data)
    apart = 0
    for k in (k for k in range(len(data)) if len(data[k])):
        found = tagger.explain(whole[k], 0)
        chances = list(found.probability.values())
        assert chances == pytest.approx(wanted[k][0].tolist(), abs=1e-12)
        alone = list(tagger.explain(data[k], 0).probability.values())
        apart += not np.allclose(chances, alone)
        assert tagger.tag(whole[k]) == tagger.tag_all(data)[k]
    assert apart


def test_outside_a_document_is_skipped_on_demand() -> None:
    data = corpus(2)
    index, _ = FeatureIndex.build(data, parse_template(TEMPLATE), boundary="skip")
    wanted = [{text for text in row if "_B" not in text} for row in written_out(data)]
    assert attributes(index, data) == wanted


def test_the_text_reads_back() -> None:
    templates = parse_template(TEMPLATE)
    assert parse_template(str(templates)) == templates
    objects = template_set(
        at(lower("word"), -2, document=True) & at("word", 1, document=True),
        bag("word", -3, -1, document=True),
        window("word", -1, 0),
    )
    assert str(objects).splitlines() == [
        "U00:%d[-2,lower(word)]/%d[1,word]",
        "U01:%d{-3..-1,word}",
        "U02[-1]:%x[-1,word]",
        "U02[0]:%x[0,word]",
    ]
    with pytest.raises(TemplateError, match="%d reads strings at offsets"):
        parse_template("U:%d[@1,word]")


def test_a_saved_tagger_looks_as_far(tmp_path: Path) -> None:
    data = corpus(3, 30)
    tagger = fstcrf.CRF.train(data, "label", parse_template(TEMPLATE), l2=0.1)
    labels = tagger.tag_all(data)
    tagger.save(tmp_path / "x.fstcrf")
    assert fstcrf.load(tmp_path / "x.fstcrf").tag_all(data) == labels
    lines = ["-DOCSTART- x\n\n"]
    for k in range(len(data)):
        if k and data.documents[k] != data.documents[k - 1]:
            lines.append("-DOCSTART- x\n\n")
        lines += [f"{w} {y}\n" for w, y in zip(data[k]["word"], data[k]["label"], strict=True)]
        lines.append("\n")
    text = tmp_path / "text.txt"
    text.write_text("".join(lines))
    tagged = program.run("tag", str(tmp_path / "x.fstcrf"), str(text)).stdout
    (tmp_path / "tagged.txt").write_text(tagged)
    answer = read_columns(tmp_path / "tagged.txt", ("word", "label", "found"))
    wanted = [label for sentence in labels for label in sentence]
    assert answer.column("found").strings() == wanted


def test_batches_in_the_shell_hold_whole_documents(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ["a", "b", "c", "b", "a", "c", "b", "a", "b", "c"]
    train = Corpus.from_sentences(
        [Sentence({"word": [w], "y": [words[max(k - 1, 0)].upper()]}) for k, w in enumerate(words)]
    )
    tagger = fstcrf.CRF.train(train, "y", parse_template("U:%d[-1,word]"), l2=0.01)
    tagger.save(tmp_path / "x.fstcrf")
    (tmp_path / "text.txt").write_text("".join(f"{w} {w}\n\n" for w in words))
    monkeypatch.setattr("fstcrf.cli.tagging.PLAIN_TOKENS", 1)  # runs of one sentence
    whole = program.run("tag", str(tmp_path / "x.fstcrf"), str(tmp_path / "text.txt")).stdout
    found = [line.split()[-1] for line in whole.splitlines() if line]
    assert found == [label for (label,) in tagger.tag_all(train)]
    assert found[1:] == [w.upper() for w in words[:-1]]


def test_an_empty_list_stands_in_the_document_around_it() -> None:
    sentences = [Sentence({"word": [word]}, document=3) for word in ("a", "b")]
    data = Corpus.from_sentences([sentences[0], [], sentences[1]])
    assert data.documents.tolist() == [3, 3, 3]
    seen = with_surroundings(data, parse_template("U:%d[-1,word]"))
    assert seen.columns["%d[-1,word]"].strings() == ["_B-1", "a"]


def test_parts_of_a_text_are_no_documents() -> None:
    with pytest.raises(OptionError, match="templates with %d read other sentences"):
        fstcrf.CRF.train(
            corpus(0),
            "label",
            parse_template(TEMPLATE),
            run=Run(executor=ProcessExecutor(1), threads=1),
        )


def test_shapes_of_words_known_in_lower_case() -> None:
    lists = {"low": ["turkey", "bird"]}
    templates = parse_template('U:%x[0,known_shape(word,"low")]', lists=lists)
    data = Corpus.from_sentences([{"word": ["Turkey", "turkey", "BIRD", "Bonn"]}])
    index, _ = FeatureIndex.build(data, templates)
    assert attributes(index, data) == [{"U:Aak"}, {"U:a"}, {"U:Ak"}, {"U:Aa"}]
    objects = template_set(at(known_shape("word", lists["low"], name="low")).named("U"))
    assert str(objects) == str(templates)
    again = FeatureIndex.from_arrays(index.arrays(), index.metadata())
    assert attributes(again, data) == attributes(index, data)
