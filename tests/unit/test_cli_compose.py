"""`fstcrf compose`, and what `info`, `eval`, `explain` and `train` make of compositions."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

import fstcrf
from fstcrf.demo import COLUMNS, corpus_path, grammar_path, template_path
from fstcrf.taggers import CRF
from tests.support.command import done, failure, into_folder_with, run

TEMPLATE = "U0:%x[0,word]\nU1:%x[-1,word]\nB\n"


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with taggers of parts of speech and of fields, which reads the first."""
    folder = tmp_path_factory.mktemp("models")
    data = fstcrf.read_columns(corpus_path("train"), COLUMNS)[:350]
    pos = CRF.train(data[:150], "pos", template_path("pos"), max_iterations=15)
    field = CRF.train(data[150:], "field", template_path("joint"), reads=[pos], max_iterations=15)
    gold = CRF.train(data, "field", template_path("field"), tape="gold", max_iterations=3)
    other = CRF.train(data.with_interned("x", data.column("pos"))[:50], "x", TEMPLATE, tape="pos")
    models = {"pos": pos, "field": field, "gold": gold, "other": other}
    for name, model in models.items():
        model.save(folder / f"{name}.fstcrf")
    CRF.train([[["a"], ["b"]]], [["X", "Y"]], max_iterations=2).save(folder / "literal.fstcrf")
    return folder


@pytest.fixture(autouse=True)
def current(models: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    into_folder_with(models, tmp_path, monkeypatch)


def test_taggers_composed_are_those_of_the_library() -> None:
    result = run("compose", "pos.fstcrf", "field.fstcrf", "-o", "joint", "--weights", "1,0.5")
    assert result.exit_code == 0, result.stderr
    assert result.stdout == ""
    joint = fstcrf.load("joint", fstcrf.Composition)
    pos, field = fstcrf.load("pos.fstcrf"), fstcrf.load("field.fstcrf")
    expected = fstcrf.compose(pos, field, weights=(1, 0.5))
    assert joint.weights == (1.0, 0.5)
    data = fstcrf.read_columns(corpus_path("dev"), COLUMNS)
    assert joint.tag_all(data) == expected.tag_all(data)
    assert str(joint.plan()) in result.stderr
    last = result.stderr.splitlines()[-1]
    assert last == "fstcrf: joint: pos, field; normalize product; weights pos 1, field 0.5"


def test_any_order_chains_and_grammars() -> None:
    given = ["--normalize", "chain", "--grammar", grammar_path(), "--grammar", "field=bio"]
    result = run("compose", "field.fstcrf", "pos.fstcrf", "-o", "joint", *given)
    assert "chain: p(pos) · p(field | pos), decided best first" in result.stderr
    joint = fstcrf.load("joint", fstcrf.Composition)
    assert joint.tapes == ("field", "pos")
    assert joint.normalize == "chain"
    assert [acceptor.tapes for acceptor in joint.conjuncts] == [("field",)] * 8
    done("compose", "joint", "-o", "again", "--grammar", "field=iob1", "--normalize", "product")
    again = fstcrf.load("again", fstcrf.Composition)
    assert again.normalize == "product"
    assert len(again.conjuncts) == 9


def test_weights_tuned_on_held_out_data() -> None:
    dev = fstcrf.read_columns(corpus_path("dev"), COLUMNS)[:40]
    fstcrf.write_columns(dev, "dev.txt")
    taggers = ["pos.fstcrf", "field.fstcrf"]
    result = run("compose", *taggers, "-o", "joint", "--tune", "dev.txt", "--threads", 2)
    assert result.exit_code == 0, result.stderr
    product = fstcrf.compose(*map(fstcrf.load, taggers), normalize="product")
    joint = fstcrf.load("joint", fstcrf.Composition)
    assert joint.weights == product.tune_weights(dev).weights
    assert sum(line.startswith("weights 1, ") for line in result.stderr.splitlines()) > 5
    named = ["--columns", "word,a,b", "--target", "pos=a,field=b", "--set", "metric=field-F"]
    done("compose", *taggers, "-o", "joint", "--tune", "dev.txt", *named)
    joint = fstcrf.load("joint", fstcrf.Composition)
    assert joint.weights == product.tune_weights(dev, metric="field-F").weights


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (["pos.fstcrf"], 2, "too few models: give two models or more, --grammar or --tune"),
        (
            ["pos.fstcrf", "other.fstcrf"],
            2,
            "pos.fstcrf and other.fstcrf both write the tape 'pos'; rename one: fstcrf convert",
        ),
        (["pos.fstcrf", "field.fstcrf", "--weights", "1"], 2, "1 weights for 2"),
        (["pos.fstcrf", "field.fstcrf", "--weights=-1,1"], 2, "weights are [-1.0, 1.0], expected"),
        (["pos.fstcrf", "field.fstcrf", "--weights", "1,x"], 2, "Invalid value for '--weights'"),
        (["pos.fstcrf", "field.fstcrf", "--target", "pos=a"], 2, "--target, --columns and"),
        (["pos.fstcrf", "field.fstcrf", "--tune", "dev"], 1, "dev: No such file"),
        (["gold.fstcrf", "--grammar", "bio", "--tune", "dev"], 2, "weights are chosen for two"),
        (["pos.fstcrf", "--grammar", "pos=bio"], 1, "bio.grm:2:14: bio(): label 'ADJ' is not iob2"),
        (["pos.fstcrf", "none.fstcrf"], 1, "none.fstcrf: No such file or directory"),
        (["pos.fstcrf", "literal.fstcrf"], 2, "some of the taggers read columns, others attribute"),
        (["pos.fstcrf", "field.fstcrf", "--grammar", "none.grm"], 1, "none.grm: No such file"),
        (["pos.fstcrf", "field.fstcrf", "--grammar", "bioo"], 1, "fstcrf ships no grammar 'bioo'"),
    ],
)
def test_bad_compositions(arguments: list[str], status: int, message: str) -> None:
    line = failure("compose", *arguments, "-o", "joint", status=status)
    assert message in line
    assert not Path("joint").exists()


def test_outputs_that_cannot_be() -> None:
    line = failure("compose", "pos.fstcrf", "field.fstcrf", "-o", "pos.fstcrf", status=2)
    assert line.startswith("--output pos.fstcrf would overwrite an input")
    assert failure("compose", "pos.fstcrf", "field.fstcrf", "-o", "no/x").startswith("no/x: ")
    Path("g.grm").write_text("tape field;\n")
    line = failure("compose", "field.fstcrf", "--grammar", "field=g.grm", "-o", "g.grm", status=2)
    assert line.startswith("--output g.grm would overwrite an input")
    line = failure("compose", "pos.fstcrf", "field.fstcrf", "-o", "-", status=2)
    assert line.startswith("--output -: expected the name of a file")
    assert not Path("-").exists()


def test_weights_are_chosen_where_labels_are() -> None:
    Path("dev.txt").write_text("at PREP\nnoon NOUN\n\n")
    given = ["pos.fstcrf", "field.fstcrf", "-o", "joint", "--columns", "word,pos"]
    line = failure("compose", *given, "--tune", "dev.txt")
    assert line == (
        "dev.txt: no column 'field' with the gold labels of tape field; the columns are "
        "word, pos: give --target field=COLUMN"
    )
    line = failure("compose", *given, "--tune", "dev.txt", "--target", "field=pos")
    assert "no gold label of tape 'field' is among its labels" in line
    assert line.endswith("name the column of gold labels, --target TAPE=COLUMN")
    replace(CRF.load("literal.fstcrf"), tape="other").save("other")
    Path("items.txt").write_text("X\ta\n\n")
    given = ["literal.fstcrf", "other", "-o", "joint", "--tune", "items.txt"]
    assert "these read lists of attributes" in failure("compose", *given, status=2)


def test_it_warns_of_labels_that_come_from_the_input() -> None:
    result = run("compose", "field.fstcrf", "--grammar", "bio", "-o", "alone")
    assert "warning: field reads the tape 'pos', which no model here writes" in result.stderr
    sentence = {"word": ["noon"], "pos": ["NOUN"]}
    alone, field = fstcrf.load("alone"), fstcrf.load("field.fstcrf")
    assert alone.tag(sentence) == field.tag(sentence)
    line = failure("tag", "alone", "--columns", "word", given="noon\n\n")
    assert "the model reads the labels of tape 'pos'" in line
    result = run("compose", "pos.fstcrf", "gold.fstcrf", "-o", "joint")
    assert "its template says %x[0,pos], expected %y[0,pos]" in result.stderr


GRAMMARS = [
    ('tape field;\nexport A =\n  "[B-DAYS]" any*;\n', ":3: no label 'B-DAYS'; the nearest are"),
    ("tape field;\nexport A = any - any;\n", ":2: export A accepts no sentence"),
    ("tape fields;\nexport A = any*;\n", ":2: export A: no tape 'fields'; the tapes are"),
    (
        "export A = any*;\n",
        ":1: export A: it does not name the tape that it reads, one of 'pos', 'field'",
    ),
    ("tape field;\nexport A = any* any;\nexport B = any**;;\n", ":3: "),
    (
        'tape field;\nexport A = "[O]" any*;\nexport B = "[B-DAY]" any*;\n',
        ":2: A and g.grm:3: B contradict each other: together they accept nothing",
    ),
]


@pytest.mark.parametrize(("text", "message"), GRAMMARS)
def test_bad_grammars(text: str, message: str) -> None:
    Path("g.grm").write_text(text)
    taggers = ["pos.fstcrf", "field.fstcrf"]
    line = failure("compose", *taggers, "-o", "joint", "--grammar", "g.grm")
    assert re.sub(r"^(g\.grm:\d+):\d+: ", r"\1: ", line).startswith(f"g.grm{message}")
    done("compose", *taggers, "-o", "joint")
    found = failure("tag", "joint", "--grammar", "g.grm", given="noon NOUN O\n\n")
    assert found == line


# --- info, eval, explain, train ---------------------------------------------------------------


@pytest.fixture
def joint() -> str:
    """A composition under a grammar."""
    done(
        *("compose", "pos.fstcrf", "field.fstcrf", "-o", "joint", "--weights", "1,0.25"),
        *("--grammar", grammar_path()),
    )
    return "joint"


def test_info_of_a_composition(joint: str) -> None:
    model = fstcrf.load(joint, fstcrf.Composition)
    text = done("info", joint, "--top", 2)
    assert text.startswith("joint: a composition of 2 taggers\n")
    for part in (
        "writes      pos: 12 labels",
        "normalize   product",
        "weights     pos 1, field 0.25",
        "grammar     notices.grm:5: SCHEME",
        "searched lazily: ",
        "\ntagger of pos: a conditional random field of order 1",
        "\ntagger of field: a conditional random field of order 1",
    ):
        assert part in text
    assert text.count("largest weights\n  ") == 2
    facts = json.loads(done("info", joint, "--json", "--top", 1))
    assert [t["tape"] for t in facts["tapes"]] == ["pos", "field"]
    assert facts["weights"] == [1.0, 0.25]
    assert facts["grammar"] == [acceptor.name for acceptor in model.conjuncts]
    assert facts["plan"]["cells"] == model.plan().cells
    assert [len(t["top"]) for t in facts["taggers"]] == [1, 1]


def test_info_of_a_chain_and_of_a_constrained_tagger() -> None:
    done("compose", "pos.fstcrf", "field.fstcrf", "-o", "chain", "--normalize", "chain")
    assert "  chain: p(pos) · p(field | pos), decided best first\n" in done("info", "chain")
    assert json.loads(done("info", "chain", "--json"))["plan"] is None
    done("compose", "gold.fstcrf", "-o", "legal", "--grammar", "bio")
    text = done("info", "legal")
    assert text.startswith("legal: a composition of a tagger\n")
    assert "folded into the arcs of gold" in text


def test_eval_of_a_composition(joint: str) -> None:
    data = fstcrf.read_columns(corpus_path("test"), COLUMNS)
    model = fstcrf.load(joint, fstcrf.Composition)
    for option, found in (
        ([], model.tag_columns(data)),
        (["--decode", "cascade"], model.cascade(data)),
    ):
        pos, field = (data.with_interned("%", c).column_lists("%") for c in found)
        gold = data.column_lists("pos"), data.column_lists("field")
        text = done("eval", joint, corpus_path("test"), *option)
        first, second, last = text.split("\n\n")
        assert first == f"tape pos\n{fstcrf.evaluate_tokens(gold[0], pos)}"
        assert second.startswith(f"tape field\n{fstcrf.evaluate_spans(gold[1], field)}\nsentences")
        pairs = [
            list(zip(*labels, strict=True)) == list(zip(*wanted, strict=True))
            for labels, wanted in zip(
                zip(pos, field, strict=True), zip(*gold, strict=True), strict=True
            )
        ]
        flat = [
            (a, b) == (c, d)
            for s in zip(*gold, pos, field, strict=True)
            for a, b, c, d in zip(*s, strict=True)
        ]
        assert last == (
            f"all tapes\ntokens: {len(flat)}; right on every tape: "
            f"{100 * sum(flat) / len(flat):6.2f}%\nsentences: {len(pairs)}; all labels right: "
            f"{100 * sum(pairs) / len(pairs):6.2f}%\n"
        )
        facts = json.loads(done("eval", joint, corpus_path("test"), *option, "--json"))
        assert facts["all_tapes"]["correct"] == sum(flat)
        assert facts["tapes"]["field"] == fstcrf.evaluate_spans(gold[1], field).to_dict()


def test_columns_of_the_labels_wanted(joint: str) -> None:
    data = Path(corpus_path("dev")).read_text()
    options = ["eval", joint, "-", "--columns", "word,a,b"]
    text = done(*options, "--target", "pos=a,field=b", given=data)
    assert text == done("eval", joint, corpus_path("dev"))
    line = failure(*options, "--target", "a", given=data, status=2)
    assert line.startswith("--target a: expected TAPE=COLUMN, the tapes are pos, field")
    assert "no column 'pos'" in failure(*options, given=data)


def test_eval_where_nothing_is_legal(joint: str) -> None:
    Path("long.grm").write_text("tape field;\nexport A = any{3,};\n")
    done("compose", joint, "-o", "long", "--grammar", "long.grm")
    text = "a DET O\nb NOUN O\nc NOUN O\n\na DET O\nb NOUN O\n\n"
    line = failure("eval", "long", "-", given=text)
    assert line.startswith("<stdin>:6: no label sequence is legal from here on under long.grm:2: A")
    assert failure(
        "eval", "pos.fstcrf", "-", "--decode", "cascade", given=text, status=2
    ).startswith("--decode is for compositions")


@pytest.mark.thorough
def test_some_tapes_alone(joint: str) -> None:
    fstcrf.write_columns(fstcrf.read_columns(corpus_path("dev"), COLUMNS)[:40], "dev.txt")

    def columns(*options: object) -> list[list[str]]:
        printed = done("tag", joint, "dev.txt", *options).splitlines()
        return [line.split() for line in printed if line and not line.startswith(("#", "-DOC"))]

    model = fstcrf.load(joint, fstcrf.Composition)
    for k, tape in enumerate(model.tapes, len(COLUMNS)):
        for options in ([], ["--grammar", "field=bio"], ["--decode", "cascade"]):
            whole = columns(*options)
            assert columns("--tape", tape, *options) == [[*row[:3], row[k]] for row in whole]
    assert columns("--tape", "pos", "--tape", "field") == columns()
    labels = model.label_sets["field"]
    rows = columns("--tape", "field", "--marginals", "--span-probabilities")
    assert {len(row) for row in rows} == {len(COLUMNS) + 2 + len(labels)}
    assert all(row[-1].startswith(f"{labels[-1]}/") for row in rows)
    line = failure("tag", joint, "dev.txt", "--tape", "x", status=2)
    assert line.startswith("--tape x: the tapes are pos, field")


def test_tapes_without_gold_are_left_out(joint: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether the column is not among those of --columns, or missing in the file."""
    lines = [line.split() for line in Path(corpus_path("dev")).read_text().splitlines()]
    text = "\n".join(" ".join(line[:2]) for line in lines)
    whole = done("eval", joint, corpus_path("dev"))
    for options in ([], ["--columns", "word,pos"], ["--target", "pos=pos"]):
        result = run("eval", joint, "-", *options, given=text)
        assert result.exit_code == 0
        assert result.stderr == (
            "fstcrf: <stdin>: not scored, as there is no column of gold labels: field\n"
        )
        assert result.stdout.split("\n\n")[0] == whole.split("\n\n")[0]
    facts = json.loads(done("eval", joint, "-", "--json", given=text))
    assert list(facts["tapes"]) == ["pos"]
    monkeypatch.setattr("fstcrf.cli.evaluate.tagged", None)  # nothing is decoded
    assert "no column 'pos'" in failure("eval", joint, "-", "--columns", "word", given="a\n")
    given = ["--columns", "word,pos", "--target"]
    assert "no column 'x'" in failure("eval", joint, "-", *given, "pos=x", given=text)
    assert "no column 'field'" in failure("eval", joint, "-", *given, "field=field", given=text)


def test_columns_that_a_later_tagger_reads_are_missed_first(
    joint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first tagger of a cascade has all that it reads, and is not asked."""
    data = fstcrf.read_columns(corpus_path("train"), COLUMNS)[:50]
    for k, name in enumerate(("word", "pos")):
        CRF.train(data, "field", f"U:%x[0,{name}]\n", tape=f"t{k}", max_iterations=2).save(f"t{k}")
    done("compose", "t0", "t1", "-o", "two", "--normalize", "chain")
    monkeypatch.setattr(CRF, "tag_column", None)
    monkeypatch.setattr("fstcrf.cli.evaluate.tagged", None)
    given = ["--columns", "word,x,field", "--target", "t0=field,t1=field"]
    for way in ("joint", "cascade"):
        line = failure("eval", "two", "-", *given, "--decode", way, given="a b O\n")
        assert line.startswith("<stdin>: no column 'pos'")
    monkeypatch.setattr(fstcrf.Composition, "tune_weights", None)
    Path("dev").write_text("a b O\n")
    line = failure("compose", "t0", "t1", "-o", "three", "--tune", "dev", *given)
    assert line.startswith("dev: no column 'pos'")


def test_explain_tells_of_every_tape(joint: str) -> None:
    data = fstcrf.read_columns(corpus_path("test"), COLUMNS)
    model = fstcrf.load(joint, fstcrf.Composition)
    printed = done("info", joint, corpus_path("test"), "--sentence", 1, "--token", 2)
    head, *rest = printed.splitlines()
    assert head.split()[2] == f"[{data[1]['word'][2]}]"
    assert "\n".join(rest) == str(model.explain(data[1], 2))
    labels = [tape[2] for tape in model.tag(data[1])]
    for tape, label in zip(model.tapes, labels, strict=True):
        assert f"token 2, tape {tape}: {label}" in rest
    assert any("field: U" in line and "  given pos " in line for line in rest)
    assert any("field: U" in line and "  given field " in line for line in rest)
    line = failure("info", joint, "--token", 1, given="a DET O\n\n", status=2)
    assert line.startswith("token 1 of a sentence of 1")


def test_commands_that_want_one_tagger(joint: str) -> None:
    message = "joint: a composition of taggers; expected one of the taggers"
    Path("t.txt").write_text("a DET O\n\n")
    Path("t.tpl").write_text("U:%y[0,pos]\n")
    train = ["train", "t.txt", "-o", "m", "--columns", "word,pos,field", "--target", "field"]
    assert failure(*train, "--template", "t.tpl", "--reads", joint) == message


def test_taggers_of_different_columns() -> None:
    """The columns of the input are those of a tagger that has all that is read."""
    data = fstcrf.read_columns(corpus_path("train"), COLUMNS)
    words = fstcrf.Corpus({"word": data.column("word"), "x": data.column("pos")}, data.offsets)
    CRF.train(words[:50], "x", TEMPLATE, max_iterations=2).save("x")
    done("compose", "x", "pos.fstcrf", "-o", "both")
    assert done("tag", "both", given="at\nnoon\n\n").count("\n") == 3
    CRF.train(words[:50], "word", "U:%x[0,x]\n", max_iterations=2).save("y")
    done("compose", "y", "gold.fstcrf", "-o", "both")
    line = failure("tag", "both", given="at PREP\n\n", status=2)
    assert line.startswith("--columns is missing: the taggers were trained on different columns")
    named = ["--columns", "word,pos,x"]
    assert done("tag", "both", *named, given="at PREP PREP\n\n").startswith("at PREP PREP ")


def test_a_grammar_of_another_scheme_is_told_once() -> None:
    """Under `bio`, a tagger of IOB1 had no span left, without a word."""
    data = fstcrf.Corpus.from_sentences(
        [{"word": ["a", "b", "c"], "ner": ["I-X", "I-X", "O"]}, {"word": ["a"], "ner": ["B-Y"]}]
    )
    fstcrf.CRF.train(data, "ner", TEMPLATE, max_iterations=3).save("iob1.fstcrf")
    result = run("compose", "iob1.fstcrf", "--grammar", "bio", "-o", "legal.fstcrf")
    assert result.exit_code == 0
    (warned,) = (line for line in result.stderr.splitlines() if "warning" in line)
    assert warned == (
        "fstcrf: warning: bio allows no labelling with I-X, so they are never chosen; are labels "
        "written in another scheme, such as iob1?"
    )
