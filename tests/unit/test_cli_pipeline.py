"""Pipelines in the shell: three taggers in a TOML file, trained and used from the shell."""

from __future__ import annotations

import dataclasses
import gzip
import json
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from fstcrf import read_columns, write_columns
from fstcrf.cli import tagging
from fstcrf.ext.pipelines.trained import Decode
from fstcrf.taggers.pipelines import load_pipeline
from tests.support.command import done, failure, program, run
from tests.unit.test_pipelines import CONLLU, GOOD, declared, mixed, sentences


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pipeline")
    done("train", declared(folder, GOOD), "-o", folder / "out")
    return folder


@pytest.fixture(scope="module")
def chain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("chain")
    path = declared(folder, f'normalize = "chain"\n{GOOD}')
    done("train", path, "-o", folder / "out")
    return folder / "out"


TEXT = "a\nb\n\nc\nd\ne\n\n"
SENTENCES = [{"word": ["a", "b"]}, {"word": ["c", "d", "e"]}]


def test_outputs_replace_no_inputs(folder: Path, tmp_path: Path) -> None:
    for name in ("b.fstcrf", "pipeline.json"):
        output = folder / "out" / name
        line = failure("tag", folder / "out", "-o", output, given=TEXT, status=2)
        assert line.startswith(f"--output {output} would overwrite an input")
    assert load_pipeline(folder / "out").tapes == ("a", "b", "c")
    shutil.copy(folder / "out" / "a.fstcrf", tmp_path / "b.fstcrf")
    before = (tmp_path / "b.fstcrf").read_bytes()
    head, _, rest = GOOD.partition("[task.a]")
    path = declared(
        tmp_path, f'{head}[task.a]\nmodel = "b.fstcrf"\n\n[task.b]{rest.split("[task.b]")[1]}'
    )
    line = failure("train", path, "-o", tmp_path, status=2)
    assert line.startswith(f"--output {tmp_path / 'b.fstcrf'} would overwrite an input")
    assert (tmp_path / "b.fstcrf").read_bytes() == before


@pytest.mark.parametrize("decode", ["cascade", "joint", "marginals"])
def test_the_n_best_of_some_tasks_differ_in_them(folder: Path, decode: Decode) -> None:
    model = load_pipeline(folder / "out")
    for tasks in (["a"], ["b"], ["c"], ["a", "c"]):
        ranked = model.nbest_all(SENTENCES, 3, decode=decode, tapes=tasks)
        for paths in ranked:
            assert len({path.labels for path in paths}) == len(paths)
            assert len(paths) == (1 if decode != "joint" and "c" not in tasks else 3)
            chances = [path.probability for path in paths]
            assert sum(chances) <= 1 + 1e-9


@pytest.mark.parametrize("decode", ["cascade", "joint", "marginals"])
def test_the_options_of_tag(folder: Path, decode: str) -> None:
    """A pipeline and its joint model give the same result for the same decoder."""
    whole = folder / "out" / "pipeline.fstcrf"
    known = ("--force", "a=known", "--columns", "word,known", "--on-no-path", "skip")
    ranked = ("--tape", "a", "--nbest", 3, "--set", "confidence=true")
    for more in (ranked, ("--marginals",), (*known, "--bias", "c:C1=0.5")):
        text = TEXT.replace("b\n", "b A2\n").replace("\n", " _\n").replace("A2 _", "A2")
        text = text.replace("\n _", "\n") if "known" in str(more) else TEXT
        printed = done("tag", folder / "out", "--decode", decode, *more, given=text)
        assert printed == done("tag", whole, "--decode", decode, *more, given=text)
        if "--force" in more:
            assert [r.split()[2][:2] for r in printed.splitlines() if r[:2] == "b "] == ["A2"]


@pytest.mark.parametrize("name", ["b.fstcrf", "pipeline.fstcrf", "pipeline.json"])
def test_what_cannot_be_written_is_found_out_before_training(tmp_path: Path, name: str) -> None:
    (tmp_path / "out" / name).mkdir(parents=True)
    text = failure("train", declared(tmp_path, GOOD), "-o", tmp_path / "out")
    assert text == f"{tmp_path / 'out' / name}: Is a directory"
    assert [path.name for path in (tmp_path / "out").iterdir()] == [name]


def test_failures_are_one_line(folder: Path, tmp_path: Path) -> None:
    circle = GOOD.replace('template = "a.tpl"', 'template = "a.tpl"\nreads = ["c"]')
    path = declared(tmp_path, circle)
    (tmp_path / "a.tpl").write_text("U:%y[0,c]\nB\n")
    told = failure("train", path, "-o", tmp_path / "out", status=2)
    assert told.startswith(f"{path}: tasks read each other in a cycle: ")
    assert not (tmp_path / "out").exists()
    assert "the tapes are a, b, c" in failure(
        "tag", folder / "out", "--tape", "x", status=2, given=TEXT
    )
    assert "expected a folder" in failure(
        *("train", folder / "pipeline.toml", "-o", folder / "a.txt"), status=2
    )
    (tmp_path / "none").mkdir()
    assert "a folder, expected" in failure("tag", tmp_path / "none", given=TEXT)


def test_a_long_search_says_how_to_make_it_shorter(
    chain: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tagging, "_LONG", -1.0)
    found = run("tag", chain, "--nbest", 2, given=TEXT)
    assert found.stderr.startswith("fstcrf: 0 of 2 sentences so far: the n best of a chain take lo")
    assert found.stderr.count("\n") == 1


def test_conllu_whose_columns_have_other_names(tmp_path: Path) -> None:
    out = tmp_path / "out"
    done("train", mixed(tmp_path), "-o", out)
    rows = done("tag", out, given=CONLLU.replace("PRON", "_")).splitlines()
    assert rows[0].startswith("1\tWe\twe\tPRON\tPRP\tNumber=Plur\t2\tnsubj\t_\tb=B")
    assert [row.rpartition("\t")[0] for row in rows] == [
        row.rpartition("\t")[0] for row in CONLLU.splitlines()
    ]
    text = failure("tag", out, given="We\ngo\n")
    assert text.startswith(
        "<stdin>:1: 1 columns, expected 10 split by tabs: 'We'; the file is read as "
    )
    assert text.endswith("CoNLL-U: for a column file, name its 1 column with --columns")
    named = done("tag", out, "--columns", "word", given="We\ngo\n")
    assert [row.split()[:2] for row in named.splitlines()[:2]] == [["We", "PRON"], ["go", "VERB"]]
    late = CONLLU + "x\n"
    assert failure("tag", out, given=late).endswith("split by tabs: 'x'")


def test_another_kind_of_joint_decision(folder: Path, chain: Path) -> None:
    kinds: tuple[tuple[Path, Decode], ...] = ((folder / "out", "chain"), (chain, "product"))
    for out, kind in kinds:
        answers = load_pipeline(out).tag_all(SENTENCES, decode=kind)
        wanted = [list(row) for tapes in answers for row in zip(*tapes, strict=True)]
        printed = done("tag", out, "--decode", kind, given=TEXT).splitlines()
        assert [row.split()[1:] for row in printed if row] == wanted


@pytest.mark.thorough
def test_the_input_says_what_it_is(tmp_path: Path) -> None:
    """The first task was trained on CoNLL-U, the second on columns: a text may be either."""
    out = tmp_path / "out"
    done("train", mixed(tmp_path), "-o", out)
    (tmp_path / "columns.txt").write_text("We\ngo\n")
    (tmp_path / "treebank.txt").write_text(f"# a comment\n{CONLLU}")
    with gzip.open(tmp_path / "packed.gz", "wt") as file:
        file.write("-DOCSTART-\n\nWe b\ngo b\n")
    for name, width, place in (("columns.txt", 3, 1), ("packed.gz", 4, 2), ("treebank.txt", 10, 3)):
        rows = done("tag", out, tmp_path / name).splitlines()
        found = [row.split() for row in rows if row and row[0] not in "#-"]
        assert [len(row) for row in found[:2]] == [width, width]
        assert [row[place] for row in found[:2]] == ["PRON", "VERB"]
        whole = tmp_path / "out" / "pipeline.fstcrf"
        assert done("tag", whole, tmp_path / name, "--decode", "cascade").splitlines() == rows
    piped = subprocess.run(program("tag", out), input=b"We\ngo\n", capture_output=True, check=True)
    assert piped.stdout.decode() == done("tag", out, tmp_path / "columns.txt")
    (tmp_path / "wide.txt").write_text("We x y z\n")
    assert "CoNLL-U: for a column file" in failure("tag", out, tmp_path / "wide.txt")


def test_the_folder_of_a_pipeline_is_no_model(folder: Path, tmp_path: Path) -> None:
    whole = folder / "out" / "pipeline.fstcrf"
    text = failure("calibrate", folder / "out", whole, given=TEXT)
    assert f"the folder of a pipeline, expected a model: give {whole}" in text
    text = failure("tag", tmp_path, given=TEXT)
    assert text == f"{tmp_path}: a folder, expected the file of a model"
    assert done("tag", whole, given=TEXT) == done("tag", folder / "out", given=TEXT)


# --- Scores, weights, what there is ---------------------------------------------------------------


@pytest.fixture
def gold(tmp_path: Path) -> Path:
    path = tmp_path / "gold.txt"
    rows = [("a", "A0", "B1"), ("b", "A1", "B0"), None, ("c", "A2", "B1"), ("d", "A0", "B0"), None]
    path.write_text("\n".join(" ".join(row) if row else "" for row in rows))
    return path


def test_a_row_of_scores_for_each_way(folder: Path, gold: Path) -> None:
    out = folder / "out"
    how = ("--columns", "word,gold,b", "--target", "a=gold")
    every = ("--decode", "cascade", "--decode", "marginals", "--decode", "joint")
    found = json.loads(done("eval", out, gold, *how, *every, "--json"))
    assert [row["decode"] for row in found] == ["cascade", "marginals", "joint"]
    corpus = read_columns(gold, ("word", "gold", "b"))
    for row in found:
        labels = load_pipeline(out).decode(corpus, decode=row["decode"])
        right = {
            tape: np.asarray(corpus.columns[column].strings()) == labels[tape].column().strings()
            for tape, column in (("a", "gold"), ("b", "b"))
        }
        assert row["accuracy"] == pytest.approx({t: mine.mean() for t, mine in right.items()})
        both = right["a"] & right["b"]
        assert row["together"] == pytest.approx(both.mean())
        assert row["sentences"] == pytest.approx((both[:2].all() + both[2:].all()) / 2)
    lines = done("eval", out, gold, *how, "--decode", "joint", "--decode", "chain").splitlines()
    heads = "decode a accuracy b accuracy all right sentences seconds"
    assert lines[0].split() == heads.split()
    assert lines[1].split()[0] == "joint"
    told = run("eval", out, gold, *how, *every).stderr
    assert "not scored, as there is no column of gold labels: c" in told


def test_scores_follow_weights_and_grammar(folder: Path, gold: Path, tmp_path: Path) -> None:
    how = ("--columns", "word,a,b", "--decode", "joint", "--decode", "cascade", "--json")
    rule = tmp_path / "no.grm"
    rule.write_text('export NO = ("[A1]" | "[A2]")*;\n')
    free, ruled = (
        json.loads(done("eval", folder / "out", gold, *how, *more))[0]
        for more in ((), ("--grammar", f"a={rule}"))
    )
    assert ruled["accuracy"]["a"] <= 0.5  # two of four gold labels are forbidden
    assert free["accuracy"].keys() == ruled["accuracy"].keys() == {"a", "b"}
    # With no weight of its own, nothing that comes later has a say in the first task.
    first = json.loads(done("eval", folder / "out", gold, *how, "--weights", "1,0,0"))
    assert first[0]["accuracy"]["a"] == first[1]["accuracy"]["a"]


def test_weights_are_chosen_and_kept(folder: Path, gold: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(folder / "out", copy)
    dev = tmp_path / "dev.txt"
    dev.write_text(gold.read_text().replace("B", "C0 B").replace("C0 B1", "C1 B1"))
    told = run("compose", copy, "-o", copy, "--tune", dev, "--columns", "word,a,c,b").stderr
    kept = load_pipeline(copy)
    assert kept.composition.weights[0] == 1.0
    assert f"{copy}: a, b, c; normalize product; weights a 1, " in told
    assert kept.decoder == load_pipeline(folder / "out").decoder


def test_what_a_pipeline_is(folder: Path) -> None:
    printed = done("info", folder / "out")
    for name in "abc":
        assert f"\n{name}: " in printed
    assert printed.count("iterations (") == 3


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--decode", "both"), "'both' is not one of 'cascade', 'marginals', 'joint'"),
        (("--decode", "joint", "--decode", "joint"), "--decode joint occurs twice"),
        (("--weights", "1"), "1 numbers, expected one for each of a, b, c"),
        (("--target", "z=b"), "the tapes are a, b, c"),
    ],
)
def test_scores_that_cannot_be_had(
    folder: Path, gold: Path, arguments: tuple[str, ...], message: str
) -> None:
    given = ("eval", folder / "out", gold, "--columns", "word,a,b", *arguments)
    assert message in failure(*given, status=2)


def test_text_without_gold_and_half_a_pipeline(folder: Path, gold: Path, tmp_path: Path) -> None:
    how = ("--columns", "word,x,y")
    assert "'a'" in failure("eval", folder / "out", gold, *how, status=1)
    half = tmp_path / "half"
    half.mkdir()
    shutil.copy(folder / "out" / "a.fstcrf", half)
    assert "a folder, expected" in failure("eval", half, gold, status=1)
    assert "a folder, expected" in failure("info", half, status=1)
    weights = ("--decode", "cascade", "--weights", "1,1,1")
    assert "--weights" in failure("tag", folder / "out", gold, *weights, status=2)


# --- A folder where a model is expected -----------------------------------------------------------


@pytest.mark.parametrize("decode", ["cascade", "marginals", "joint", "product"])
def test_a_folder_is_scored_and_explained_as_it_decides(
    folder: Path, decode: Decode, tmp_path: Path
) -> None:
    model = dataclasses.replace(load_pipeline(folder / "out"), decoder=decode)
    pipeline, text, read = tmp_path / "p", tmp_path / "abc.txt", ("--columns", "word,a,b,c")
    model.save(pipeline)
    corpus = sentences(9, 12)
    write_columns(corpus, text, ["word", "a", "b", "c"])
    scores = json.loads(done("eval", pipeline, text, "--json", "--tokens", *read))
    labels = dict(zip(model.tapes, model.tag_columns(corpus), strict=True))
    for tape in model.tapes:
        right = np.asarray(labels[tape].strings()) == np.asarray(corpus.column(tape).strings())
        assert scores["tapes"][tape]["accuracy"] == pytest.approx(right.mean())
    page = tmp_path / "r.html"
    done("report", pipeline, text, "-o", page, "--tape", "c", *read)
    assert page.exists()
    explained, answer = model.explain(corpus[0], 0), model.decode([corpus[0]])
    apart = decode in ("cascade", "marginals")
    for tape in model.tapes:
        one = explained.tapes[tape]
        assert one.best == answer[tape].labels(0)[0][0]
        assert {push.tagger for push in one.pushes} <= ({tape} if apart else set(model.tapes))
        if apart:
            row = answer.marginals(tape)[0][0]
            assert list(one.probability.values()) == pytest.approx(row.tolist())
    assert done("info", pipeline, text, "--token", 0, *read).endswith(f"{explained}\n")
    whole = pipeline / "pipeline.fstcrf"
    for way in ("joint", "cascade"):
        options = (text, "--json", "--tokens", "--decode", way, *read)
        assert done("eval", pipeline, *options) == done("eval", whole, *options)
