"""`fstcrf tune`: the table, the command that it prints, models, interrupts, bad input."""

from __future__ import annotations

import json
import shlex
import signal
from pathlib import Path

import click
import pytest

from fstcrf.cli.train import train as train_command
from fstcrf.cli.train import train_line
from fstcrf.demo import corpus_path, template_path
from fstcrf.ext.tune import Tuning
from fstcrf.ext.tune.command import tune as command
from fstcrf.taggers import CRF
from tests.support.command import done, failure, run, start
from tests.support.interrupts import interrupt_at

pytest.importorskip("optuna", reason="the extra fstcrf[tune] is not installed")

ROWS = ["--columns", "word,pos,field", "--target", "field"]
SEARCH = ["tune", "train.txt", *ROWS, "--template", "small.tpl", "--template", "large.tpl"]
QUICK = ["--try", "order=1", "--max-iterations", 10, "--trials", 4]
TEMPLATES = {"small": "U0:%x[0,word]\nB\n", "large": "U0:%x[0,word]\nU1:%x[-1..1,pos]\nB\n"}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder, made the current one, with some sentences of the demo corpus."""
    for part, size in (("train", 120), ("dev", 40)):
        blocks = corpus_path(part).read_text("utf-8").split("\n\n")[:size]
        (tmp_path / f"{part}.txt").write_text("\n\n".join(blocks) + "\n\n", "utf-8")
    for name, text in TEMPLATES.items():
        (tmp_path / f"{name}.tpl").write_text(text, "utf-8")
    (tmp_path / "pos.tpl").write_bytes(template_path("pos").read_bytes())
    monkeypatch.chdir(tmp_path)
    return tmp_path


def arguments_of(line: str) -> list[str]:
    """The arguments of a printed ``fstcrf`` command."""
    program, *arguments = shlex.split(line)
    assert program == "fstcrf"
    return arguments


@pytest.mark.thorough
@pytest.mark.parametrize("given", [["--dev", "dev.txt"], ["--folds", 3]])
def test_the_printed_command_trains_the_model(folder: Path, given: list[object]) -> None:
    options = ["--scheme", "iob2", "--set", "ends=true", "--min-count", 2]
    options += ["--set", "boundary=skip", "--set", "seed=3"]
    printed = done(*SEARCH, *QUICK, *given, *options, "-o", "tuned.fstcrf")
    line = printed.splitlines()[-1]
    model = Path("tuned.fstcrf").read_bytes()
    Path("tuned.fstcrf").unlink()
    done(*arguments_of(line))
    assert Path("tuned.fstcrf").read_bytes() == model
    assert ("--dev dev.txt" in line) == (given[0] == "--dev")


def test_the_score_is_that_of_training(folder: Path) -> None:
    table, line = done(*SEARCH, *QUICK, "--dev", "dev.txt").split("\n\n")
    assert not Path("tuned.fstcrf").exists()
    done(*arguments_of(line.strip()))
    record = CRF.load("tuned.fstcrf").record
    assert record is not None
    assert record.dev_score is not None
    head, best, *others = table.splitlines()
    assert head.split() == ["trial", "score", "iterations", "template", "l2", "l1"]
    assert best.split()[1] == f"{100 * record.dev_score:.2f}"
    assert len(others) == 3


def test_trials_are_told_one_by_one(folder: Path) -> None:
    result = run(*SEARCH, *QUICK, "--dev", "dev.txt", "--try", "l1=0")
    first, *trials = result.stderr.splitlines()
    assert first.startswith("fstcrf: read ")
    assert [line.split()[:2] for line in trials] == [["trial", str(n)] for n in range(1, 5)]
    assert "method lbfgs  order 1  l2 0.5  l1 0.0  template small.tpl" in trials[0]


def test_trials_as_json(folder: Path) -> None:
    result = run(*SEARCH, *QUICK, "--dev", "dev.txt", "--set", "log_json=true")
    read, *told = [json.loads(line) for line in result.stderr.splitlines()]
    assert (read["event"], read["sentences"]) == ("data", 97)
    assert [t["number"] for t in told] == [1, 2, 3, 4]
    assert told[0]["best"]
    assert told[0]["options"]["l2"] == 0.5


def test_a_search_that_goes_on_tells_of_all_trials(folder: Path) -> None:
    """Those of the journal were missing: the first new one was marked as the best so far."""

    def told(*given: object) -> list[tuple[int, float, bool]]:
        result = run(*SEARCH, *QUICK, "--dev", "dev.txt", "--set", "log_json=true", *given)
        trials = [json.loads(line) for line in result.stderr.splitlines()][1:]
        return [(trial["number"], trial["score"], trial["best"]) for trial in trials]

    whole = told("--journal", "whole.log")
    assert told("--journal", "parts.log", "--trials", 2) == whole[:2]
    assert told("--journal", "parts.log", "--resume") == whole


@pytest.mark.thorough
def test_an_interrupt_prints_what_is_known(folder: Path) -> None:
    given = [*SEARCH, "--dev", "dev.txt", "--trials", 10_000, "--journal", "search.log"]
    with start(*given, "--try", "order=1", "-o", "m") as process:
        assert process.stderr is not None
        assert process.stdout is not None
        for line in process.stderr:
            if line.startswith("trial   3"):
                break
        process.send_signal(signal.SIGINT)
        printed, last = process.stdout.read(), process.stderr.read().splitlines()[-1]
    assert process.returncode == 130
    assert last.startswith("fstcrf: interrupted after ")
    assert last.endswith(" trials; the same command with --resume goes on")
    table, line = printed.split("\n\n")
    trials = len(table.splitlines()) - 1
    assert trials >= 3
    assert line.startswith("fstcrf train train.txt -o m --columns word,pos,field")
    assert not Path("m").exists()
    again = done(*given, "--try", "order=1", "--resume", "--trials", trials)
    assert again == printed.replace(" -o m ", " -o tuned.fstcrf ")


@pytest.mark.thorough
def test_an_interrupted_training_goes_on_by_the_printed_command(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = [*SEARCH, *QUICK, "--dev", "dev.txt", "-o"]
    done(*given, "whole")
    train = Tuning.train

    stop = interrupt_at(3)
    with monkeypatch.context() as patch:
        patch.setattr(Tuning, "train", lambda found, **more: train(found, **more, report=stop))
        result = run(*given, "m")
    assert result.exit_code == 130
    assert result.stderr.endswith("is saved in m; the printed command with --resume goes on\n")
    assert "m.checkpoint exists" in failure(*given, "m", status=2)
    done(*arguments_of(result.stdout.splitlines()[-1]), "--resume")
    assert Path("m").read_bytes() == Path("whole").read_bytes()
    assert not Path("m.checkpoint").exists()


def test_a_model_is_not_replaced_in_silence(folder: Path) -> None:
    Path("m").write_bytes(b"older")
    result = run(*SEARCH, *QUICK, "--dev", "dev.txt", "-o", "m")
    assert result.exit_code == 0
    assert result.stderr.startswith("fstcrf: m is there, a file without a record of training: ")


def test_the_printed_command_has_only_what_its_method_reads(folder: Path) -> None:
    given = ["--try", "method=perceptron,pa", "--set", "aggressiveness=0.5"]
    given += ["--try", "order=0", "--trials", "2"]
    printed = done(*SEARCH[:-2], *given, "--max-iterations", 2, "--dev", "dev.txt")
    line = printed.splitlines()[-1]
    assert ("--set aggressiveness=0.5" in line) == ("--method pa" in line)
    done(*arguments_of(line))


def test_taggers_that_are_read_and_grammars(folder: Path) -> None:
    done(
        *("train", "train.txt", "-o", "pos.fstcrf", "--columns", "word,pos,field"),
        *("--target", "pos", "--template", "pos.tpl", "--method", "perceptron"),
    )
    Path("small.tpl").write_text("U0:%x[0,word]\nU1:%y[0,pos]\nB\n", "utf-8")
    given = ["--reads", "pos.fstcrf", "--grammar", "bio", "--set", "class_weights=B-DAY=2"]
    printed = done(*SEARCH, *QUICK, "--dev", "dev.txt", *given, "--trials", 2, "-o", "m")
    model = Path("m").read_bytes()
    done(*arguments_of(printed.splitlines()[-1]))
    assert Path("m").read_bytes() == model


@pytest.mark.thorough
def test_trials_that_start_from_a_model(folder: Path) -> None:
    done(
        *("train", "train.txt", "-o", "start.fstcrf", *ROWS, "--template", "small.tpl"),
        *("--scheme", "iob2", "--max-iterations", 5),
    )
    given = ["--objective", "mce-f", "--scheme", "iob2", "--set", "start=start.fstcrf"]
    printed = done(
        *SEARCH[:-2], *given, "--dev", "dev.txt", "--trials", 2, "--max-iterations", 3, "-o", "m"
    )
    line = printed.splitlines()[-1]
    assert "--set start=start.fstcrf" in line
    model = Path("m").read_bytes()
    done(*arguments_of(line))
    assert Path("m").read_bytes() == model
    refused = failure(
        *SEARCH, "--dev", "dev.txt", "--set", "start=start.fstcrf", "--try", "order=1,2", status=2
    )
    assert refused == "--order is 1, 2, and --set start is a model of order 1"
    written = failure(
        *SEARCH, "--dev", "dev.txt", "--set", "start=start.fstcrf", "-o", "start.fstcrf", status=2
    )
    assert "would overwrite an input" in written


def test_every_option_of_training_that_stays_the_same_is_here() -> None:
    ours = {p.name for p in command.params}
    missing = [p.name for p in train_command.params if p.name not in ours]
    elsewhere = ["dask", "workers", "memory_limit"]
    searched = ["template", "method", "order", "l2", "l1"]
    assert set(missing) == {*searched, *elsewhere, "structure", "checkpoint", "checkpoint_every"}


def test_a_command_repeats_what_it_was_given() -> None:
    line = (
        "fstcrf train a.txt 'b c.txt' -o m --columns w,t --set separator=tab --target t "
        "--template 'my template' --reads x --reads y --method pa --order 2 --l2 0.1 "
        "--set ends=true --set hash_bits=12 --set partial=false --set error_sensitive=false "
        "--set class_weights=O=0.25"
    )
    with click.Context(train_command) as parent:
        arguments = shlex.split(line)[2:]
        with train_command.make_context("train", arguments, parent) as context:
            assert train_line(context.params) == line


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ([], "give either --dev FILE or --folds K"),
        (["--dev", "dev.txt", "--folds", 3], "give either --dev FILE or --folds K"),
        (["--folds", 3, "--resume"], "--resume needs the --journal"),
        (["--folds", 3, "--try", "l2=high"], "'high' is not numbers or ranges"),
        (["--folds", 3, "--try", "order=1,3"], "order=1,3: expected some of 0,1,2"),
        (["--folds", 3, "--try", "method=lbfgs,magic"], "'magic' is not one of"),
        (["--folds", 3, "--template", "small.tpl"], "--template small.tpl is given twice"),
        (["--folds", 3, "-o", "train.txt"], "--output train.txt would overwrite an input"),
        (
            ["--folds", 3, "--journal", "train.txt", "--resume"],
            "--journal train.txt would overwrite",
        ),
        (
            ["--folds", 3, "--journal", "x", "-o", "x"],
            "--journal x would overwrite the file of --output",
        ),
    ],
)
def test_wrong_usage(folder: Path, given: list[object], message: str) -> None:
    before = sorted(p.name for p in folder.iterdir())
    assert message in failure(*SEARCH, *given, status=2)
    assert sorted(p.name for p in folder.iterdir()) == before


def test_options_that_do_not_go_together_are_refused_before_a_file_is_read(folder: Path) -> None:
    given = ["tune", "none.txt", *SEARCH[2:], "--dev", "dev.txt"]
    for options, message in (
        (["--set", "f_gamma=2"], "--set f_gamma needs --objective 'mce-f', not 'likelihood'"),
        (
            ["--try", "method=pa,ap", "--set", "memory=3"],
            "--set memory needs --method 'lbfgs', not 'pa'",
        ),
        (
            ["--try", "method=ap", "--try", "l2=0.1,1"],
            "--l2 is given, and is no option of --method 'ap'",
        ),
    ):
        assert failure(*given, *options, status=2).startswith(message)


def test_what_cannot_be_done(folder: Path) -> None:
    assert "none.tpl" in failure(*SEARCH, "--template", "none.tpl", "--folds", 2)
    Path("bad.tpl").write_text("U0:%x[0,form]\nB\n", "utf-8")
    assert "bad.tpl:1: " in failure(*SEARCH, "--template", "bad.tpl", "--folds", 2)
    text = Path("train.txt").read_text("utf-8")
    empty = "\n".join(f"{line.rsplit(' ', 1)[0]} _" if line else "" for line in text.split("\n"))
    Path("unlabelled.txt").write_text(empty, "utf-8")
    given = ["tune", "unlabelled.txt", *SEARCH[2:], "--dev", "dev.txt"]
    assert "the target column holds no label" in failure(*given)
    Path("torn").write_text("no journal\n", "utf-8")
    message = failure(*SEARCH, "--folds", 2, "--journal", "torn", "--resume")
    assert message == "torn:1: is no journal of a search"
