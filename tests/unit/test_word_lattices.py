"""Training of word lattices: templates, annotations, what lattices lack, files, dictionaries."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest

import fstcrf
import tests.support.command as program
from fstcrf.errors import DataError, LabelWarning, ModelFileError, OptionError
from fstcrf.ext.course import structured
from fstcrf.ext.lexicon import Entry, Lexicon, LexiconTagger
from fstcrf.ext.words import (
    Annotation,
    KnownWord,
    LatticeCRF,
    Rewrites,
    Words,
    WordTemplates,
    crf,
    read_marked,
    read_words,
)
from fstcrf.ext.words.entries import new_entries
from fstcrf.ext.words.templates import WordSeen
from fstcrf.training import Run
from fstcrf.training.lbfgs import LBFGS
from tests.support.wordlists import KINDS, RANGES, UNKNOWN

TEMPLATE = """\
UNIGRAM A:%F[0],%F?[2]
UNIGRAM B:%w
BIGRAM C:%L[0]/%R[0]
"""
ENTRIES = [
    Entry("ab", 0, 0, 100, "N,x,*"),
    Entry("a", 1, 1, 100, "V,x,f"),
    Entry("b", 2, 2, 100, "P,x,*"),
    Entry("bc", 0, 1, 100, "V,y,*"),
    Entry("c", 1, 0, 100, "N,y,f"),
]


@pytest.fixture(scope="module")
def lexicon() -> Lexicon:
    matrix = np.arange(9, dtype=np.int16).reshape(3, 3) * 50
    characters = fstcrf.ext.lexicon.Characters.of_kinds(KINDS, RANGES)
    return Lexicon.from_entries(ENTRIES, matrix, characters, UNKNOWN)


DATA = [
    Annotation.of_words([("a", "V"), ("bc", "V")]),
    Annotation.of_words([("ab", "N"), ("c", "N")], "ab c"),
    Annotation.of_words([("a", "V"), ("b", "P"), ("a", "V")]),
]


@pytest.fixture(scope="module")
def model(lexicon: Lexicon) -> LatticeCRF:
    return LatticeCRF.train(DATA, TEMPLATE, structure=Words(lexicon, costs="fixed"), l2=0.1)


# --- Templates and rules --------------------------------------------------------------------------


def _spelled(template: str, *fields: str) -> str | None:
    word = WordSeen(fields, 4, None, 12)
    return WordTemplates.parse(f"UNIGRAM {template}").unigrams[0].of_word(word)


def test_templates_are_read_as_mecab_reads_them() -> None:
    assert _spelled("U:%F[0]/%F[1]", "x", "*") == "U:x/*"
    assert _spelled("U:%F?[1]", "x", "*") is None
    assert _spelled("U:%F?[0]", "") is None
    assert _spelled("U:%F[7]", "x") is None
    assert _spelled("U:%u %t", "x", "y,z") == 'U:x,"y,z" 4'
    assert _spelled(r"U\:\%F[0]%n", "x") == "U:%F[0]8"
    assert _spelled("U%w", "x") is None  # no dictionary has the word
    pair = WordTemplates.parse("# neighbours\n\nBIGRAM B:%L[0]%R?[1]/%r,%l").bigrams[0]
    assert pair.first(["a", "b"]) == "a\x1fa,b"
    assert pair.second(["c", "d"]) == "d\x1fc,d"
    assert pair.second(["c", "*"]) is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("UNIGRAM U:%L[0]", "UNIGRAM with %L"),
        ("BIGRAM U:%F[0]", "BIGRAM with %F"),
        ("UNIGRAM U:%F[x]", "in a template"),
        ("UNIGRAM U:%q", "in a template"),
        ("TRIGRAM U:%F[0]", "expected UNIGRAM or BIGRAM"),
        ("UNIGRAM", "expected UNIGRAM or BIGRAM"),
        ("# nothing\n", "no template"),
    ],
)
def test_a_template_that_is_none_is_refused(text: str, message: str) -> None:
    with pytest.raises(DataError, match=message):
        WordTemplates.parse(text)


RULES = """\
# what counts
[unigram rewrite]
(N|V),*\t$1,$2
*,*\tother,$2$1
[left rewrite]
N,x\tnx
*\t$1
[right rewrite]
*,*\t$2
"""


def test_the_first_rule_that_fits_counts() -> None:
    rules = Rewrites.parse(RULES)
    assert rules.applied(["N", "x", "more"]) == (("N", "x"), ("nx",), ("x",))
    assert rules.applied(["P", "x"]) == (("other", "xP"), ("P",), ("x",))
    assert Rewrites().applied(["P", "x"]) == (("P", "x"),) * 3
    with pytest.raises(DataError, match="no rule rewrites the feature 'P'"):
        rules.applied(["P"])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("*,* $1", "expected a section"),
        ("[left rewrite]\n*,*", "expected a section"),
        ("[left rewrite]\n* $0", "counted from"),
    ],
)
def test_a_rule_that_is_none_is_refused(text: str, message: str) -> None:
    with pytest.raises(DataError, match=message):
        Rewrites.parse(text)
    rules = Rewrites.parse("[left rewrite]\n* $4\n")
    with pytest.raises(DataError, match="has not"):
        rules.applied(["a"])


# --- Annotations ----------------------------------------------------------------------------------


def test_annotations_say_what_is_known() -> None:
    marked = Annotation.of_marks("a|b-c d")
    assert marked == Annotation("abcd", (), {1: True, 2: False})
    assert not marked.complete
    whole = Annotation.of_words(["a", ("bc", "V")], " a bc")
    assert whole.words == (KnownWord(1, 2), KnownWord(3, 5, "V"))
    assert whole.complete
    start, end = np.asarray([0, 0, 1, 2, 3]), np.asarray([1, 3, 3, 4, 4])
    assert marked.agrees(start, end, lambda _: "").tolist() == [True, False, True, False, True]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Annotation("ab", [KnownWord(0, 3)]), "outside"),
        (lambda: Annotation("ab", [KnownWord(0, 2), KnownWord(1, 2)]), "outside, empty"),
        (lambda: Annotation("ab", [KnownWord(1, 1)]), "outside, empty"),
        (lambda: Annotation("ab", (), {3: True}), "boundary 3"),
        (lambda: Annotation("ab", [KnownWord(0, 2)], {1: True}), "contradicts"),
        (lambda: Annotation.of_words(["a", "c"], "abc"), "'c' is not at character 1"),
        (lambda: Annotation.of_words(["a"], "abc"), "no word at character 1"),
        (lambda: Annotation.of_marks("a+b"), "expected characters"),
        (lambda: Annotation.of_marks("a|"), "expected characters"),
    ],
)
def test_annotations_that_contradict_themselves_are_refused(make: Any, message: str) -> None:
    with pytest.raises(DataError, match=message):
        make()


def test_files_of_annotations_are_read(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_text("a\tV,x,f\nbc\t?\nEOS\n\nab\tN\ncc\t??\nc\tN\n", "utf-8")
    assert read_words(path) == [
        Annotation("abc", [KnownWord(0, 1, "V"), KnownWord(1, 3)]),
        Annotation("abccc", [KnownWord(0, 2, "N"), KnownWord(4, 5, "N")]),
    ]
    rest = "\t_\t_\t_\t_\t_\n"
    lines = [f"1-2\tabc\t_\t_\t_{rest}", f"1\tab\t_\tX\tN{rest}", f"2\tc\t_\tX\tN{rest}"]
    path.write_text(f"# text = abc a\n{''.join(lines)}3\ta\t_\tX\tV{rest}\n", "utf-8")
    assert read_words(path) == [Annotation("abc a", [KnownWord(0, 3), KnownWord(4, 5, "V")])]
    assert read_words(path, column="upos")[0].words[1].label == "X"
    for ids, problem in (("121", "3: id '1', expected '3': is the blank"), ("13", "2: id '3'")):
        rows = [f"{name}\ta\t_\tX\t_\t_\t_\t_\t_\t_\n" for name in ids]
        path.write_text("".join(rows), "utf-8")
        with pytest.raises(DataError, match=problem):
            read_words(path)
    path.write_text("a|b\n\nc-a\n", "utf-8")
    assert [one.text for one in read_marked(path)] == ["ab", "ca"]
    for text, line in (("a\tN\tx\n", 1), ("a\tN\n\n\tN\n", 3)):
        path.write_text(text, "utf-8")
        with pytest.raises(DataError, match="expected a word") as caught:
            read_words(path)
        assert caught.value.line == line
    path.write_text("\n", "utf-8")
    with pytest.raises(DataError, match="no words"):
        read_words(path)


# --- Training -------------------------------------------------------------------------------------


def test_training_learns_its_texts(model: LatticeCRF) -> None:
    assert model.counts(DATA).f == 1.0
    assert model.tag("abc")[0].surface == "a"
    assert model.label_of(model.tag("abc")[0]) == "V"
    assert "on its costs" in repr(model)


def test_threads_give_the_same_bits(lexicon: Lexicon) -> None:
    found = [
        LatticeCRF.train(
            DATA * 20, TEMPLATE, structure=Words(lexicon), l2=0.1, run=Run(threads=n)
        ).weights
        for n in (1, 2)
    ]
    assert (found[0].words == found[1].words).all()
    assert (found[0].pairs == found[1].pairs).all()


def test_a_run_goes_on_from_its_checkpoint(lexicon: Lexicon, tmp_path: Path) -> None:
    method = LBFGS(l1=0.1)
    given: dict[str, Any] = {"structure": Words(lexicon), "l2": 0.1, "method": method}
    whole = LatticeCRF.train(DATA, TEMPLATE, max_iterations=12, **given)
    path = tmp_path / "state"
    LatticeCRF.train(DATA, TEMPLATE, max_iterations=5, run=Run(checkpoint=path), **given)
    again = Run(checkpoint=path, resume=True)
    resumed = LatticeCRF.train(DATA, TEMPLATE, max_iterations=12, run=again, **given)
    assert (whole.weights.words == resumed.weights.words).all()
    with pytest.raises(ModelFileError, match="other data"):
        LatticeCRF.train(DATA[:2], TEMPLATE, run=again, **given)


def test_l1_leaves_weights_out(lexicon: Lexicon) -> None:
    sizes = [
        LatticeCRF.train(
            DATA, TEMPLATE, structure=Words(lexicon), l2=0.01, method=LBFGS(l1=l1)
        ).weights.size
        for l1 in (0, 0.5)
    ]
    assert 0 < sizes[1] < sizes[0]


def test_features_of_agreeing_words_alone(lexicon: Lexicon) -> None:
    few = LatticeCRF.train(DATA, TEMPLATE, structure=Words(lexicon, min_count=1))
    assert (
        few.record.weights
        < LatticeCRF.train(DATA, TEMPLATE, structure=Words(lexicon)).record.weights
    )
    assert {text for _, text in few.weights.unigrams} <= {
        *("A:V,f", "B:a", "B:ab", "B:b", "B:bc", "B:c", "A:N,f")
    }


def test_held_out_texts_choose(lexicon: Lexicon) -> None:
    seen: list[float | None] = []
    found = LatticeCRF.train(
        DATA,
        TEMPLATE,
        structure=Words(lexicon),
        l2=0.1,
        dev=DATA,
        run=Run(report=lambda p: seen.append(p.dev)),
    )
    assert found.record.dev_score == max(s for s in seen if s is not None)
    with pytest.raises(DataError, match="not all of its words"):
        LatticeCRF.train(DATA, TEMPLATE, structure=Words(lexicon), dev=[Annotation("abc")])


def test_words_that_the_lattice_lacks(lexicon: Lexicon) -> None:
    lacking = Annotation.of_words([("aab", "N"), ("c", "P")])
    data = [*DATA, lacking]
    with pytest.raises(DataError, match=r"1 texts .* 2 words .* text 4: 'aab' as N at character 0"):
        LatticeCRF.train(data, TEMPLATE, structure=Words(lexicon))
    with pytest.warns(LabelWarning, match="are left out"):
        found = LatticeCRF.train(data, TEMPLATE, structure=Words(lexicon, on_missing="skip"))
    assert found.record.texts == 3
    for how in ("nearest", "add"):
        with pytest.warns(LabelWarning, match="1 texts"):
            found = LatticeCRF.train(
                data, TEMPLATE, structure=Words(lexicon, on_missing=how), l2=0.01
            )
        assert found.record.texts == 4
    with pytest.warns(LabelWarning, match="nearest to them"):
        found = LatticeCRF.train(
            [lacking], TEMPLATE, structure=Words(lexicon, on_missing="nearest"), l2=0.01
        )
    assert found.tag("aabc")[-1].surface == "c"
    with pytest.warns(LabelWarning, match="are added"):
        found = LatticeCRF.train(
            [lacking], TEMPLATE, structure=Words(lexicon, on_missing="add"), l2=0.01
        )
    assert found.record.texts == 1
    with pytest.raises(DataError, match="no text"):
        LatticeCRF.train([], TEMPLATE, structure=Words(lexicon))


def test_new_words_become_entries(lexicon: Lexicon) -> None:
    data = [*DATA, Annotation.of_words([("aab", "N"), ("c", "P")])] * 2
    made = new_entries(lexicon, data, [0])
    assert made == [Entry("aab", 0, 0, 100, "N,*,*"), Entry("c", 2, 2, 100, "P,*,*")]
    assert new_entries(lexicon, data, [0], least=3) == []
    found = LatticeCRF.train(data, TEMPLATE, structure=Words(lexicon, new_words=1), l2=0.01)
    assert [w.surface for w in found.lexicon.prefixes("aabc")] == ["a", "aab"]
    assert len(found.lexicon.dictionaries) == 2
    assert found.counts(data).f > 0.85


def test_options_are_checked(lexicon: Lexicon) -> None:
    wrong: list[dict[str, Any]] = [
        {"label": []},
        {"label": [-1]},
        {"min_count": -1},
        {"new_words": -1},
        {"l2": -1.0},
        {"threads": 0},
        {"costs": "all"},
        {"on_missing": "none"},
        {"resume": True},
    ]
    for options in wrong:
        with pytest.raises(OptionError, match=next(iter(options))):
            LatticeCRF.train(DATA, TEMPLATE, **structured({"lexicon": lexicon, **options}, Words))


# --- Files and dictionaries -----------------------------------------------------------------------

TEXTS = ["abcab", "ab ca", "cbaz", "a", "", "zz 9a"]


def test_a_model_is_what_its_file_says(model: LatticeCRF, tmp_path: Path) -> None:
    path = tmp_path / "own.fstcrf"
    model.save(path)
    for again in (fstcrf.load(path, LatticeCRF), fstcrf.load(path, LatticeCRF, mmap=True)):
        assert again.record == model.record
        one, other = model.tag_all(TEXTS), again.tag_all(TEXTS)
        assert (one.word == other.word).all()
        assert (one.scores == other.scores).all()
    model.save(path, lexicon=False)
    assert LatticeCRF.load(path, lexicon=model.lexicon).tag("abc") == model.tag("abc")
    with pytest.raises(ModelFileError, match="not in the file"):
        LatticeCRF.load(path)
    foreign = Lexicon.from_words(["a"])
    with pytest.raises(ModelFileError, match="the one given has"):
        LatticeCRF.load(path, lexicon=foreign)


@pytest.mark.parametrize("costs", ["none", "fixed", "scaled"])
def test_a_dictionary_for_mecab_scores_the_same(
    lexicon: Lexicon, tmp_path: Path, costs: Any
) -> None:
    model = LatticeCRF.train(DATA, TEMPLATE, structure=Words(lexicon, costs=costs), l2=0.1)
    for compiled in (False, True):
        folder = tmp_path / f"{compiled}"
        model.export(folder, compiled=compiled, factor=1000)
        found = Lexicon.load(folder)
        assert found.unit == 1000
        one, other = model.tag_all(TEXTS), found.tag_all(TEXTS)
        assert other.scores == pytest.approx(one.scores, abs=0.01)
        for text in TEXTS:
            assert found.lattice(text).log_partition() == pytest.approx(
                model.lattice(text).log_partition(), abs=0.01
            )


def test_a_dictionary_that_cannot_be_made_is_refused(lexicon: Lexicon) -> None:
    counting = LatticeCRF.train(DATA, TEMPLATE + "UNIGRAM D:%n\n", structure=Words(lexicon))
    with pytest.raises(OptionError, match="%n"):
        counting.compiled()
    with pytest.raises(OptionError, match="factor"):
        LatticeCRF.train(DATA, TEMPLATE, structure=Words(lexicon)).compiled(factor=0)


def test_boundaries_hold(model: LatticeCRF) -> None:
    assert [w.surface for w in model.tag("abc", boundaries={2: True})] == ["ab", "c"]
    with pytest.raises(OptionError, match="boundaries of 1"):
        model.tag_all(["a", "b"], boundaries=[{}])


def test_a_lattice_has_labels_and_stands_beside_a_tagger(model: LatticeCRF) -> None:
    lattice = model.lattice("ab c")
    assert lattice.labels == ("N", "P", "V")
    fields = model.lattice("ab c", word_class=lambda feature: feature.split(",")[1])
    assert fields.log_partition() == lattice.log_partition()
    assert {"x", "y"} <= set(fields.labels)
    data = [{"char": list("abc"), "tag": ["B", "I", "B"]}, {"char": list("ab"), "tag": ["B", "B"]}]
    tagger = fstcrf.CRF.train(data, "tag", "U:%x[0,char]\nB", l2=0.1)
    found = LexiconTagger(model, tagger).nbest("ab c", 4)
    tokens = tagger.lattice({"char": list("ab c")})
    for path in found:
        chosen = np.array([word in path.words for word in model.candidates("ab c")])
        alone = lattice.restrict(chosen).best()
        assert alone.segments == lattice.restrict(chosen).nbest(2)[-1].segments
        assert path.score - tokens.score(path.labels) == pytest.approx(alone.score, abs=1e-9)


def test_words_that_score_the_same_are_told_apart_by_the_lexicon_alone() -> None:
    """Whatever was asked before: the first one is taken."""
    rows = [("a", "N,x"), ("a", "N,y"), ("b", "N,y")]
    entries = [Entry(form, 0, 0, 0, feature) for form, feature in rows]
    unknown = [Entry(name, 0, 0, 9, "X,z") for name in KINDS]
    characters = fstcrf.ext.lexicon.Characters.of_kinds(KINDS, RANGES)
    matrix = np.zeros((1, 1), dtype=np.int16)
    lexicon = Lexicon.from_entries(entries, matrix, characters, unknown)
    data = [Annotation.of_words([("a", "N"), ("b", "N")])]
    template = "UNIGRAM A:%F[0]\nBIGRAM B:%L[0]/%R[1]\n"
    for first in ("b", "a"):
        model = LatticeCRF.train(data, template, structure=Words(lexicon), method=LBFGS(l1=100.0))
        assert model.weights.size == 0
        model.tag(first)
        assert [word.feature for word in model.tag("a")] == ["N,x"]
        assert model.lattice("a").best().arcs.tolist() == [0]


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("run", [1, 9, 4000])
def test_many_texts_are_as_one_by_one(
    lexicon: Lexicon, threads: int, run: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(crf, "_RUN", run)
    rng = np.random.default_rng(0)
    texts = ["", " ", "é", "a\u3042b"]
    texts += ["".join(rng.choice(list("abc xé1"), size=n)) for n in rng.integers(1, 12, size=30)]
    marks = [{int(k): bool(k % 2) for k in rng.integers(0, len(t) + 1, 1)} for t in texts]
    kinds: list[tuple[Literal["none", "fixed", "scaled"], list[dict[int, bool]] | None]]
    kinds = [("none", None), ("scaled", None), ("fixed", marks)]
    for costs, boundaries in kinds:
        model = LatticeCRF.train(
            DATA, TEMPLATE, structure=Words(lexicon, costs=costs), max_iterations=3
        )
        answer = model.tag_all(texts, boundaries=boundaries, threads=threads)
        for b, text in enumerate(texts):
            known = None if boundaries is None else boundaries[b]
            paths = model.lattice(text, boundaries=known).nbest(1)
            words = model.candidates(text, boundaries=known)
            assert answer.words(b) == [w for path in paths for w in words.chosen(path.arcs)]
            assert answer.scores[b] == (paths[0].score if paths else -np.inf)
    assert len(model.tag_all([], threads=threads).scores) == 0
    with pytest.raises(OptionError, match="threads is 0"):
        model.tag_all(texts, threads=0)


# --- The command ----------------------------------------------------------------------------------


def test_the_commands(lexicon: Lexicon, tmp_path: Path) -> None:
    lexicon.write(tmp_path / "dictionary")
    (tmp_path / "feature.def").write_text(TEMPLATE, "utf-8")
    (tmp_path / "train.txt").write_text("a\tV\nbc\tV\nEOS\nab\tN\nc\tN\nEOS\n", "utf-8")
    (tmp_path / "marked.txt").write_text("a|b|a\n", "utf-8")
    (tmp_path / "text.txt").write_text("abc\nab c\n", "utf-8")
    model, text = tmp_path / "own.fstcrf", tmp_path / "text.txt"
    given = ["train", tmp_path / "train.txt", "-o", model, "--structure", "words"]
    given += ["--dictionary", tmp_path / "dictionary"]
    more = ("--template", tmp_path / "feature.def", "--marked", tmp_path / "marked.txt")
    program.done(*given, *more, "--set", "costs=scaled", "--l2", "0.1")
    assert program.done("words", model, text, "--set", "layout=spaced") == "a bc\nab c\n"
    assert "EOS" in program.done("words", model, text, "--probabilities")
    program.done("convert", model, "-o", tmp_path / "mecab", "--to", "mecab-compiled")
    spaced = ("--set", "layout=spaced")
    assert program.done("words", tmp_path / "mecab", text, *spaced) == "a bc\nab c\n"
    assert program.done("words", "--set", "layout=spaced", tmp_path / "dictionary", text)
    assert "fstcrf words takes it" in program.failure("tag", model, text)
    assert "--user" in program.failure("words", model, text, "--set", "unit=3", status=2)
    (tmp_path / "train.txt").write_text("abcab\tP\n", "utf-8")
    assert "'abcab' as P at character 0" in program.failure(*given, *more)
    (tmp_path / "train.txt").write_text("\n", "utf-8")
    assert "no words" in program.failure(*given, *more)
