"""Rules whose weights are learned, alone or with a tagger: what is refused, and the commands."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
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
from fstcrf.ext.course import structured
from fstcrf.ext.rules import learn_rules, train_with_rules
from fstcrf.machines.grammar import Grammar
from fstcrf.taggers import CRF
from fstcrf.training import Progress, Run
from fstcrf.training.lbfgs import LBFGS
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
        ("export X = each[2, <1>];", "wrong arguments for each"),
        ('export X = each["[O]", <1>, tape=t];', "no option 'tape'"),
        ('export X = each["[O]", <?>];', "the cost <?> has no value yet"),
        ('export X = "[O]" <?>;', "<?> can only be the cost of a pattern or constraint"),
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
        ('export X = each["[O]", <1>];', "the rules have no open cost to learn"),
        (
            f"{RULE}\nA = each['[O]', <?>];".replace("'", '"'),
            "an open cost <?> needs its own export",
        ),
        ('export X = (each["[O]", <?>] | any)*;', "needs its own export"),
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


DOORS: list[Callable[..., Any]] = [learn_rules, train_with_rules]
STRICT = f'{RULE}\nexport ONE = at_most[1, "NP"];'
WIDE = "".join(
    f'export X{i} = each["[{a}]" any{{{9 + i}}} "[{b}]", <?>];'
    for i, (a, b) in enumerate([("O", "O"), ("B-NP", "O"), ("I-NP", "B-NP")])
)


@pytest.mark.thorough
@pytest.mark.parametrize("learn", DOORS)
def test_data_and_options_that_are_refused(
    learn: Callable[..., Any], tagger: CRF, data: fstcrf.Corpus
) -> None:
    def error(kind: type[FstcrfError], **given: object) -> str:
        arguments = {"tagger": tagger, "data": data, "rules": RULE, **given}
        with pytest.raises(kind) as caught:
            learn(**structured(arguments))
        assert "\n" not in str(caught.value)
        return str(caught.value)

    closed = error(GrammarError, rules='export X = each["[O]", <1>];')
    assert "the rules have no open cost to learn" in closed
    assert "no sentences" in error(DataError, data=[])
    assert "no column 'gold'" in error(DataError, target="gold")
    odd = [{"word": ["a"], "tag": ["B-VP"]}]
    assert "gold label 'B-VP' is not a label of the tagger" in error(LabelError, data=odd)
    assert learn(tagger, [*SENTENCES, *odd], RULE, on_missing="skip").skipped == 1
    strict = error(DataError, rules=STRICT)
    assert "sentence 2" in strict
    assert "gold labels of 1 of 3 sentences are forbidden" in strict
    unmatched = r"of these 2 sentences has a match of X, so its weight stays 0"
    with pytest.warns(LearningWarning, match=unmatched) as told:
        learned = learn(tagger, data, STRICT, on_missing="skip")
    assert len(told) == 1
    assert (learned.skipped, learned.weights) == (1, {"X": 0.0})
    none = f'{RULE}\nexport NONE = never["NP"];'
    assert "of 3 of 3 sentences" in error(DataError, rules=none, on_missing="skip")
    for name, value in (("l2", -1.0), ("threads", 0), ("on_missing", "x")):
        assert name in error(OptionError, **{name: value})
    other = CRF.train(data, "tag", "U:%x[0,word]", tape="other")
    assert "on top of one tagger" in error(OptionError, tagger=tagger @ other)
    assert "states together" in error(TooLargeError, rules=WIDE)


def test_l1_leaves_rules_out(tagger: CRF, data: fstcrf.Corpus) -> None:
    with pytest.raises(OptionError, match="l1"):
        learn_rules(tagger, data, RULE, method=LBFGS(l1=float("nan")))
    learned = learn_rules(tagger, data, RULE, method=LBFGS(l1=100.0))
    assert learned.weights == {"X": 0.0}
    assert "<0>" in learned.text


def test_text_and_comments_stay(tagger: CRF, data: fstcrf.Corpus) -> None:
    text = f'# of chunks\n{RULE}  # <?> above\nexport Y = at_most[1, "NP", < ? >];\n'
    learned = learn_rules(tagger, data, text)
    x, y = (0.0 - w for w in learned.weights.values())
    assert learned.text == text.replace(", <?>", f", <{x:.6g}>").replace("< ? >", f"<{y:.6g}>")
    assert (tagger & learned.grammar).tag(SENTENCES[1])


@pytest.fixture
def files(tagger: CRF, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Model, text and rules in the folder of the test, and the output's name."""
    monkeypatch.chdir(tmp_path)
    tagger.save("model")
    lines = ["\n".join(map(" ".join, zip(*s.values(), strict=True))) for s in SENTENCES]
    Path("gold.txt").write_text("\n\n".join(lines) + "\n", "utf-8")
    Path("rules.grm").write_text(RULE, "utf-8")
    return [
        *("gold.txt", "-o", "learned.grm", "--structure", "rules"),
        *("--tagger", "model", "--rules", "rules.grm"),
    ]


def test_in_the_shell(files: list[str]) -> None:
    result = run("train", *files, "--l2", "0.5")
    assert result.exit_code == 0, result.stderr
    assert result.stdout.split()[:5] == ["rule", "weight", "gold", "tagger", "with"]
    assert "3 sentences" in result.stderr
    assert "<?>" not in Path("learned.grm").read_text("utf-8")
    assert done("tag", "model", "gold.txt", "--grammar", "learned.grm")
    assert "would overwrite" in failure("train", *files, "-o", "rules.grm", status=2)
    message = failure("tag", "model", "gold.txt", "--grammar", "rules.grm")
    assert "rules.grm:1:36: the cost <?> has no value yet" in message
    Path("learned.grm").unlink()
    assert "no such file" in failure("train", *files, "-o", "out.grm", "--rules", "no.grm").lower()
    assert not Path("out.grm").exists()


# --- Taggers trained together with rules ----------------------------------------------------------


@pytest.mark.thorough
def test_what_training_alone_refuses(tagger: CRF, data: fstcrf.Corpus, tmp_path: Path) -> None:
    (tmp_path / "state").touch()
    cases: tuple[tuple[dict[str, Any], str], ...] = (
        ({"tagger": fstcrf.compose(tagger, weights=[0.5])}, "the weight 0.5"),
        *(({name: value}, name) for name, value in (("max_iterations", 0), ("start", "x"))),
        ({"tagger_l2": float("nan")}, "tagger_l2"),
        ({"resume": True}, "resume needs a checkpoint"),
        ({"checkpoint": tmp_path / "state"}, "exists and holds the state"),
    )
    for given, message in cases:
        arguments: dict[str, Any] = {"tagger": tagger, "data": data, "rules": RULE, **given}
        with pytest.raises(OptionError, match=message):
            train_with_rules(**structured(arguments))
    with pytest.raises(TooLargeError, match=r"the rules \(states: X2 .* at most 10,000"):
        train_with_rules(tagger, data, WIDE)  # the largest first


def test_a_product_that_memory_does_not_hold(
    tagger: CRF, data: fstcrf.Corpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fstcrf.ext.rules.sentences.free_memory", lambda: 1000)
    with pytest.raises(TooLargeError, match=r"X 2\) have 2 states .* a sentence of 3 tokens takes"):
        train_with_rules(tagger, data, RULE)


def test_the_line_of_gold_labels_that_rules_forbid(tagger: CRF, tmp_path: Path) -> None:
    (tmp_path / "gold.txt").write_text("a O\n\nb B-NP\nb B-NP\n\na B-NP\na B-NP\n", "utf-8")
    text = fstcrf.read_columns(tmp_path / "gold.txt", ("word", "tag"))
    with pytest.raises(DataError, match=r"gold.txt:3: the gold labels of 2 of 3 sentences"):
        train_with_rules(tagger, text, STRICT)
    with pytest.warns(LearningWarning, match="has a match of X"):
        both = train_with_rules(tagger, text, STRICT, on_missing="skip")
    assert (both.skipped, both.sentences, both.weights) == (2, 1, {"X": 0.0})


def test_a_rule_that_never_matches(tagger: CRF, data: fstcrf.Corpus) -> None:
    rules = f'export Y = each["[B-NP]" any{{4}} "[O]", <?>];\n{RULE}'  # of longer sentences
    with pytest.warns(LearningWarning, match=r"has a match of Y, so its weight stays 0") as told:
        both = train_with_rules(tagger, data, rules)
    assert len(told) == 1
    assert both.weights["Y"] == 0.0
    assert both.weights["X"] != 0.0


def test_the_record_says_what_was_trained(tagger: CRF, data: fstcrf.Corpus) -> None:
    both = train_with_rules(tagger, data, RULE, tagger_l2=0.25, max_iterations=7)
    record = both.tagger.record
    assert record is not None
    assert (record.target, record.sentences, record.options["l2"]) == ("tag", 3, 0.25)
    assert record.grammar == "learned with it: X"
    assert tagger.record is not None
    assert tagger.record.options["l2"] == 1.0  # it stays as it was
    again = train_with_rules(both.tagger, data, RULE)
    assert again.tagger.record is not None
    assert again.tagger.record.options["l2"] == 0.25  # what it was trained with


def test_ctrl_c_leaves_a_state_to_go_on_from(
    tagger: CRF, data: fstcrf.Corpus, tmp_path: Path
) -> None:
    def press(progress: Progress) -> None:
        if progress.iteration == 3:
            os.kill(os.getpid(), signal.SIGINT)

    path = tmp_path / "state"
    how: dict[str, Any] = {"method": LBFGS(delta=0.0), "start": "zero"}
    first = Run(checkpoint=path, checkpoint_every=None, report=press)
    with pytest.raises(KeyboardInterrupt):
        train_with_rules(tagger, data, RULE, run=first, **how)
    then = Run(checkpoint=path, resume=True)
    resumed = train_with_rules(tagger, data, RULE, run=then, **how)
    whole = train_with_rules(tagger, data, RULE, **how)
    assert np.array_equal(resumed.tagger.theta, whole.tagger.theta)
    assert resumed.text == whole.text


# --- The command ----------------------------------------------------------------------------------


def test_training_in_the_shell(tagger: CRF, data: fstcrf.Corpus, files: list[str]) -> None:
    result = run("train", *files, "--new-tagger", "new", "--set", "tagger_l2=0.5")
    assert result.exit_code == 0, result.stderr
    assert "iteration    1" in result.stderr
    assert "new, learned.grm: 3 sentences" in result.stderr
    assert result.stdout.split()[:3] == ["rule", "weight", "gold"]
    wanted = train_with_rules(tagger, data, RULE, tagger_l2=0.5)
    found = fstcrf.load("new")
    assert isinstance(found, CRF)
    assert found.theta.tobytes() == wanted.tagger.theta.tobytes()
    assert Path("learned.grm").read_text("utf-8") == wanted.text
    assert done("tag", "new", "gold.txt", "--grammar", "learned.grm")
    assert not Path("new.checkpoint").exists()
    again = run("train", *files, "--new-tagger", "new").stderr
    assert "learned.grm is there: the end of learning replaces it" in again
    assert "new is there, the model of a run finished after iteration" in again


def test_wrong_usage(files: list[str]) -> None:
    def wrong(*options: str) -> str:
        return failure("train", *files, *options, status=2)

    assert "--set tagger_l2 needs --new-tagger" in wrong("--set", "tagger_l2=1")
    assert "--resume needs --new-tagger" in wrong("--resume")
    assert "--set l1 is not for --new-tagger" in wrong("--new-tagger", "new", "--set", "l1=1")
    assert "--new-tagger model would overwrite an input" in wrong("--new-tagger", "model")
    assert "give another file name" in wrong("--new-tagger", "learned.grm")
    Path("rules.grm").write_text(f'{RULE}\nexport ONE = at_most[1, "NP"];', "utf-8")
    message = failure("train", *files, "--new-tagger", "new")
    assert message.startswith("gold.txt:8: the gold labels of 1 of 3 sentences are forbidden")
    assert "leave these sentences out with --set on_missing='skip'" in message
    assert not Path("new").exists()
    assert not Path("learned.grm").exists()


def test_a_state_is_kept_and_gone_on_from(files: list[str]) -> None:
    how = ["--new-tagger", "new", "--set", "checkpoint=state", "--set", "start_weights=zero"]
    done("train", *files, *how, "--max-iterations", "2")
    assert "exists and holds the state of an earlier run" in failure(
        "train", *files, *how, status=2
    )
    resumed = run("train", *files, *how, "--resume")
    assert "state: on from iteration 2" in resumed.stderr
    assert "iteration    3" in resumed.stderr
    assert "iteration    2" not in resumed.stderr
    other = ["--new-tagger", "other", "--set", "checkpoint=state", "--resume", "--l2", "7"]
    assert "other data or options" in failure("train", *files, *other)


def test_ctrl_c_in_the_shell(files: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def press(_: object, progress: Progress) -> None:
        if progress.iteration == 2:
            os.kill(os.getpid(), signal.SIGINT)

    with monkeypatch.context() as patched:
        patched.setattr("fstcrf.cli.reporting.Reporter.iteration", press)
        result = run("train", *files, "--new-tagger", "new", "--set", "start_weights=zero")
    assert result.exit_code == 130
    assert "interrupted: the same command with --resume goes on" in result.stderr
    assert not Path("new").exists()
    assert not Path("learned.grm").exists()
    result = run("train", *files, "--new-tagger", "new", "--set", "start_weights=zero", "--resume")
    assert "new.checkpoint: on from iteration 2" in result.stderr
    assert Path("new").exists()
    assert not Path("new.checkpoint").exists()
