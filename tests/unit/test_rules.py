"""Rules whose weights are learned: the language of open costs, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

import fstcrf
from fstcrf.errors import (
    DataError,
    FstcrfError,
    GrammarError,
    LabelError,
    LearningWarning,
    OptionError,
    TooLargeError,
)
from fstcrf.ext.rules import learn_rules
from fstcrf.machines.grammar import Grammar
from fstcrf.taggers import CRF
from tests.support.command import done, failure, run

LABELS = ["O", "B-NP", "I-NP"]
SENTENCES = [
    {"word": ["a", "b", "c"], "tag": ["B-NP", "I-NP", "O"]},
    {"word": ["c", "a"], "tag": ["O", "B-NP"]},
    {"word": ["b", "b", "a"], "tag": ["B-NP", "B-NP", "I-NP"]},
]
RULE = 'export X = each["[B-NP]" "[B-NP]", <?>];'


@pytest.fixture(scope="module")
def data() -> fstcrf.Corpus:
    return fstcrf.Corpus.from_sentences(SENTENCES)


@pytest.fixture(scope="module")
def tagger(data: fstcrf.Corpus) -> CRF:
    return CRF.train(data, "tag", "U:%x[0,word]\nB", l2=1.0)


@pytest.mark.parametrize(
    ("pattern", "labels", "matches"),
    [
        ('"[B-NP]" "[I-NP]"', "B-NP I-NP I-NP B-NP I-NP", 2),
        ('"[B-NP]" "[I-NP]"*', "B-NP I-NP I-NP", 3),  # one ends at each token
        ('any* "[O]"', "O B-NP O", 2),  # however many matches end there
        ('"[B-NP]" any "[O]" | "[O]" "[O]"', "B-NP O O", 1),
        ('label["[BI]-NP"]', "B-NP I-NP O", 2),
        ('any{2} - "[O][O]"', "O O B-NP", 1),
        ('at_most[0, "NP"] "[B-NP]"', "O B-NP B-NP", 2),
    ],
)
def test_matches_are_counted_where_they_end(pattern: str, labels: str, matches: int) -> None:
    grammar = Grammar.from_text(f"export X = each[{pattern}, <1.5>];", LABELS)
    assert grammar.score(labels.split()) == -1.5 * matches


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('export X = each["[O]"];', "each needs a cost"),
        ('export X = each["[O]"*, <1>];', "matches the empty sequence"),
        ('export X = each["[O]" <2>, <1>];', "has weights"),
        ('export X = each[label["Z"], <1>];', 'matches nothing; no label is in label["Z"]'),
        ('export X = each["[Z]", <1>];', "no label 'Z'"),
        ("export X = each[2, <1>];", "do not fit"),
        ('export X = each["[O]", <1>, tape=t];', "no option 'tape'"),
        ('export X = each["[O]", <?>];', "the cost <?> is open"),
        ('export X = "[O]" <?>;', "<?> is the cost of a pattern or constraint"),
        ('export X = each[at_most[1, "NP", <1>] any, <1>];', "soft constraint"),
    ],
)
def test_patterns_that_are_refused(text: str, message: str) -> None:
    with pytest.raises(GrammarError) as error:
        Grammar.from_text(text, LABELS)
    assert message in str(error.value)
    assert str(error.value).count("<input>:1") == 1


@pytest.mark.parametrize(
    ("rules", "message"),
    [
        ('export X = each["[O]", <1>];', "no cost is open"),
        (f"{RULE}\nA = each['[O]', <?>];".replace("'", '"'), "an open cost, <?>, stands in an"),
        ('export X = (each["[O]", <?>] | any)*;', "stands in an export of its own"),
        ('A = each["[O]", <?>];\nexport X = A;\nexport Y = A;', "share one open cost"),
        ('export X = each["[Q]", <?>];', "no label 'Q'"),
        ('tape word, tag;\nexport X = each["[lemma=a]", <?>];', "expected tape=label"),
        ('tape lemma, tag;\nexport X = each["[lemma=a]", <?>];', "no tape 'lemma'"),
    ],
)
def test_files_that_are_refused(tagger: CRF, data: fstcrf.Corpus, rules: str, message: str) -> None:
    with pytest.raises(GrammarError, match=r".") as error:
        learn_rules(tagger, data, rules)
    assert message in str(error.value)


def test_data_and_options_that_are_refused(tagger: CRF, data: fstcrf.Corpus) -> None:
    def error(kind: type[FstcrfError], **given: object) -> str:
        arguments = {"tagger": tagger, "data": data, "rules": RULE, **given}
        with pytest.raises(kind) as caught:
            learn_rules(**arguments)  # type: ignore[arg-type]
        return str(caught.value)

    assert "no sentences" in error(DataError, data=[])
    assert "no column 'gold'" in error(DataError, target="gold")
    odd = [{"word": ["a"], "tag": ["B-VP"]}]
    assert "gold label 'B-VP' is none" in error(LabelError, data=odd)
    mixed = [*SENTENCES, *odd]
    assert learn_rules(tagger, mixed, RULE, on_missing="skip").skipped == 1
    strict = f'{RULE}\nexport ONE = at_most[1, "NP"];'
    assert "gold labels of 1 of 3 sentences are forbidden" in error(DataError, rules=strict)
    with pytest.warns(LearningWarning, match=r"of these 2 sentences has a match of X:") as told:
        learned = learn_rules(tagger, data, strict, on_missing="skip")
    assert len(told) == 1
    assert (learned.skipped, learned.weights) == (1, {"X": 0.0})
    none = f'{RULE}\nexport NONE = never["NP"];'
    assert "of 3 of 3 sentences" in error(DataError, rules=none, on_missing="skip")
    for name, value in (("l2", -1.0), ("l1", float("nan")), ("threads", 0), ("on_missing", "x")):
        assert name in error(OptionError, **{name: value})
    other = CRF.train(data, "tag", "U:%x[0,word]", tape="other")
    assert "on top of one tagger" in error(OptionError, tagger=tagger @ other)
    wide = "".join(
        f'export X{i} = each["[{a}]" any{{{9 + i}}} "[{b}]", <?>];'
        for i, (a, b) in enumerate([("O", "O"), ("B-NP", "O"), ("I-NP", "B-NP")])
    )
    assert "states together" in error(TooLargeError, rules=wide)


def test_l1_leaves_rules_out(tagger: CRF, data: fstcrf.Corpus) -> None:
    learned = learn_rules(tagger, data, RULE, l1=100.0)
    assert learned.weights == {"X": 0.0}
    assert "<0>" in learned.text


def test_text_and_comments_stay(tagger: CRF, data: fstcrf.Corpus) -> None:
    text = f'# of chunks\n{RULE}  # <?> above\nexport Y = at_most[1, "NP", < ? >];\n'
    learned = learn_rules(tagger, data, text)
    x, y = (0.0 - w for w in learned.weights.values())
    assert learned.text == text.replace(", <?>", f", <{x:.6g}>").replace("< ? >", f"<{y:.6g}>")
    assert (tagger & learned.grammar).tag(SENTENCES[1])


def test_in_the_shell(tagger: CRF, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    tagger.save("model")
    lines = ["\n".join(map(" ".join, zip(*s.values(), strict=True))) for s in SENTENCES]
    Path("gold.txt").write_text("\n\n".join(lines) + "\n", "utf-8")
    Path("rules.grm").write_text(RULE, "utf-8")
    result = run("rules", "model", "gold.txt", "rules.grm", "learned.grm", "--l2", "0.5")
    assert result.exit_code == 0, result.stderr
    assert result.stdout.split()[:5] == ["rule", "weight", "gold", "tagger", "with"]
    assert "3 sentences" in result.stderr
    assert "<?>" not in Path("learned.grm").read_text("utf-8")
    assert done("tag", "model", "gold.txt", "--grammar", "learned.grm")
    assert "would overwrite" in failure(
        "rules", "model", "gold.txt", "rules.grm", "rules.grm", status=2
    )
    assert "is open" in failure("tag", "model", "gold.txt", "--grammar", "rules.grm")
    Path("learned.grm").unlink()
    assert "no such file" in failure("rules", "model", "gold.txt", "no.grm", "out.grm").lower()
    assert not Path("out.grm").exists()
