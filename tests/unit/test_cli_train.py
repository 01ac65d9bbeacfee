"""`fstcrf train`: options, progress, interrupts, checkpoints, bad input."""

from __future__ import annotations

import errno
import json
import os
import signal
from pathlib import Path

import numpy as np
import pytest

import fstcrf
from fstcrf.cli.models import CHECKPOINT_EVERY
from fstcrf.cli.options import spoken
from fstcrf.cli.reporting import Reporter
from fstcrf.cli.train import train as command
from fstcrf.demo import corpus_path, template_path
from fstcrf.taggers import CRF
from fstcrf.taggers.training import MethodName
from fstcrf.training import Chain, Checkpoint, Progress, Run
from fstcrf.training.loop import saved_iteration
from fstcrf.training.options import DEFAULTS
from tests.support.command import done, failure, run, start
from tests.support.interrupts import interrupt, interrupt_at

ROWS = ["--columns", "word,pos,field", "--target", "pos"]
TRAIN = ["train", "train.txt", "-o", "m", *ROWS, "--template", "pos.tpl"]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder, made the current one, with some sentences of the demo corpus."""
    for part, size in (("train", 120), ("dev", 40), ("test", 40)):
        blocks = corpus_path(part).read_text("utf-8").split("\n\n")[:size]
        (tmp_path / f"{part}.txt").write_text("\n\n".join(blocks) + "\n\n", "utf-8")
    for name in ("pos", "field"):
        (tmp_path / f"{name}.tpl").write_bytes(template_path(name).read_bytes())
    monkeypatch.chdir(tmp_path)
    return tmp_path


def trained(*options: object, output: str = "m.fstcrf", data: str = "train.txt") -> CRF:
    done("train", data, "-o", output, *ROWS, "--template", "pos.tpl", *options)
    return CRF.load(output)


@pytest.mark.thorough
@pytest.mark.parametrize("method", ["lbfgs", "pa"])
def test_trains_what_the_library_trains(folder: Path, method: MethodName) -> None:
    found = trained("--method", method, "--max-iterations", 3, "--order", 1, "--set", "ends=true")
    data = fstcrf.read_columns("train.txt", ("word", "pos", "field"))
    wanted = CRF.train(
        data, "pos", folder / "pos.tpl", method=method, max_iterations=3, structure=Chain(ends=True)
    )
    assert found.labels == wanted.labels
    assert np.array_equal(found.theta, wanted.theta)
    assert found.record == wanted.record


def test_the_defaults_are_those_of_the_library() -> None:
    with command.make_context(
        "train", ["x", "-o", "m", "--target", "t", "--template", "f"]
    ) as made:
        ours = made.params
    for name, usual in DEFAULTS.items():
        assert ours[name] == usual, name
    assert ours["threads"] == Run().threads
    assert Run().checkpoint_every == CHECKPOINT_EVERY


def test_progress_is_plain_lines_and_a_summary(folder: Path) -> None:
    result = run(*TRAIN, "--max-iterations", 2, "--dev", "dev.txt")
    first, *iterations, last = result.stderr.splitlines()
    assert result.stdout == ""
    assert first.startswith("fstcrf: read 9")
    assert [line.split()[:2] for line in iterations] == [["iteration", "1"], ["iteration", "2"]]
    assert all("objective" in line and " dev " in line for line in iterations)
    assert last.startswith("fstcrf: m: ")
    assert "the limit of 2 iterations" in last
    assert "; dev " in last


def test_log_json_gives_a_json_object_a_line(folder: Path) -> None:
    result = run(*TRAIN, "--max-iterations", 2, "--set", "log_json=true", "--method", "perceptron")
    events = [json.loads(line) for line in result.stderr.splitlines()]
    assert [e["event"] for e in events] == ["data", "iteration", "iteration", "done"]
    assert events[1]["iteration"] == 1
    assert events[1]["gradient_norm"] is None
    assert events[-1]["weights"] == CRF.load("m").space.size


def test_log_json_gives_errors_too(folder: Path) -> None:
    line = ["train", "train.txt", "-o", "m", *ROWS[:2], "--set", "log_json=true"]
    for options, status, message in (
        (["--target", "pos"], 2, "Missing option '--template' (see 'fstcrf train --help')"),
        (["--ordr", "1"], 2, "No such option '--ordr'"),
        (["--target", "x", "--template", "pos.tpl"], 1, "train.txt: no column 'x'"),
        (["--target", "pos", "--template", "none.tpl"], 1, "none.tpl: No such file"),
    ):
        result = run(*line, *options)
        facts = [json.loads(line) for line in result.stderr.splitlines()]
        assert result.exit_code == status
        assert facts[-1].keys() == {"event", "message", "status"}
        assert (facts[-1]["event"], facts[-1]["status"]) == ("error", status)
        assert facts[-1]["message"].startswith(message)
        assert {fact["event"] for fact in facts[:-1]} <= {"data"}
    assert run(*line[:-2], "--ordr", "1").stderr.startswith("fstcrf: error: No such option")


def test_log_json_gives_interruptions_too(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for place in ("fstcrf.taggers.training.train_crf", "fstcrf.text.corpus.concatenated"):
        monkeypatch.setattr(place, interrupt)
        result = run(*TRAIN, "--set", "log_json=true")
        facts = json.loads(result.stderr.splitlines()[-1])
        assert (result.exit_code, facts["event"], facts["status"]) == (130, "interrupted", 130)
        assert facts["message"].startswith("interrupted")


@pytest.mark.thorough
def test_a_terminal_gets_a_live_line(folder: Path) -> None:
    master, slave = os.openpty()
    with start(*TRAIN, "--max-iterations", 3, stderr=slave) as process:
        os.close(slave)
        shown = b""
        try:
            while chunk := os.read(master, 4096):
                shown += chunk
        except OSError as error:
            assert error.errno == errno.EIO  # noqa: PT017 (a terminal ends so)
    os.close(master)
    assert process.returncode == 0
    text = shown.decode()
    assert "fstcrf: m: " in text
    assert "\x1b[" in text
    assert not any(line.startswith("iteration") for line in text.splitlines())


def test_several_files_dev_and_options_reach_the_model(folder: Path) -> None:
    done(
        *("train", "train.txt", "dev.txt", "-o", "m", *ROWS, "--template", "pos.tpl"),
        *("--max-iterations", 2, "--l2", 2, "--min-count", 2, "--set", "boundary=skip"),
        *("--set", "pairs=complete", "--set", "transitions=all", "--set", "class_weights=NOUN=2"),
        *("--threads", 2, "--set", "seed=7", "--set", "tape_name=tag"),
    )
    model = CRF.load("m")
    assert model.tape == "tag"
    assert model.record is not None
    options = model.record.options
    given = {"l2": 2, "min_count": 2, "boundary": "skip"}
    given |= {"pairs": "complete", "transitions": "all", "seed": 7}
    assert {name: options[name] for name in given} == given
    sizes = [len(fstcrf.read_columns(f, ("w", "p", "f"))) for f in ("train.txt", "dev.txt")]
    assert model.record.sentences == sum(sizes)


def test_reads_an_earlier_tagger(folder: Path) -> None:
    trained("--max-iterations", 5, output="pos.fstcrf")
    (folder / "y.tpl").write_text("U0:%x[0,word]\nU1:%y[0,pos]\nB\n")
    done(
        *("train", "train.txt", "-o", "field.fstcrf", "--columns", "word,gold,field"),
        *("--target", "field", "--template", "y.tpl", "--max-iterations", 5),
        *("--reads", "pos.fstcrf", "--scheme", "iob2", "--order", 2),
    )
    model = CRF.load("field.fstcrf")
    assert [tape.name for tape in model.reads] == ["pos"]
    # Tagging alone, it takes the tape as a column of that name.
    text = "the DET\nhall NOUN\n\n"
    assert len(done("tag", "field.fstcrf", "--columns", "word,pos", given=text).split()) == 6
    assert "tape 'pos'" in failure("tag", "field.fstcrf", "test.txt")


def test_a_grammar_becomes_part_of_the_tagger(folder: Path) -> None:
    (folder / "few.grm").write_text('export FEW = never["B-END"];\n', "utf-8")
    options = ["--columns", "word,pos,field", "--target", "field", "--template", "pos.tpl"]
    options += ["--max-iterations", "5", "--grammar", "bio"]
    done("train", "train.txt", "-o", "plain", *options)
    plain, legal = CRF.load("plain"), fstcrf.Grammar.shipped("bio").bound(CRF.load("plain").labels)
    sentences = fstcrf.read_columns("test.txt", ("word", "pos", "field"))
    assert all(legal.accepts(labels) for labels in plain.tag_all(sentences))
    message = failure("train", "train.txt", "-o", "m", *options, "--grammar", "few.grm")
    assert "B-END" in message  # the corpus has what the grammar forbids
    assert "none.grm" in failure("train", "train.txt", "-o", "m", *options, "--grammar", "none.grm")
    (folder / "wrong.grm").write_text('\nexport X = never["B-NED"];\n', "utf-8")
    assert failure("train", "train.txt", "-o", "m", *options, "--grammar", "wrong.grm").startswith(
        "wrong.grm:2:12: "
    )
    assert not (folder / "m").exists()


def test_warm_start_and_partial_labels(folder: Path) -> None:
    old = trained("--max-iterations", 5, output="old")
    (folder / "more.txt").write_text("a DET O\nzyx NEW O\n\nthe DET|NOUN O\nhall _ O\n\n")
    new = trained("--set", "start=old", "--max-iterations", 2, data="more.txt")
    assert new.labels == (*old.labels, "NEW")
    whole = trained("--set", "partial=false", "--max-iterations", 2, data="more.txt", output="w")
    assert {"_", "DET|NOUN"} <= set(whole.labels)


def test_conllu(folder: Path) -> None:
    rows = "# newdoc\n1\tTwo\ttwo\tNUM\tCD\tNumForm=Word\t0\troot\t_\t_\n"
    rows += "2-2\tx" + 8 * "\t_" + "\n2\tNew York\t_\tPROPN\tNNP\tNumber=Sing\t1\t_\t_\t_\n\n"
    (folder / "a.conllu").write_text(rows)
    (folder / "c.tpl").write_text("U:%x[0,form]\nB\n")
    common = ["train", "a.conllu", "-o", "m", "--template", "c.tpl", "--max-iterations", 3]
    done(*common, "--target", "upos")
    assert CRF.load("m").labels == ("NUM", "PROPN")
    blank = rows.replace("NUM\t", "_\t").replace("PROPN\t", "_\t")
    assert blank != rows
    assert done("tag", "m", given=blank) == done("tag", "m", "a.conllu") == rows
    done(*common, "--target", "Number", "--set", "feature_columns=Number")
    assert CRF.load("m").labels == ("Sing", "_")
    assert done("eval", "m", "a.conllu").startswith("processed 2 tokens")
    assert "--columns is for column files" in failure(
        *common, "--target", "upos", "--format", "conllu", "--columns", "a", status=2
    )


# --- Interrupts and checkpoints -------------------------------------------------------------


ENDLESS = ["--method", "perceptron", "--max-iterations", "1000000"]


def interrupted(*options: object, sign: signal.Signals = signal.SIGINT) -> tuple[int, str]:
    """Train as a process, interrupt it after some iterations; return its status and last line."""
    with start(*TRAIN, *ENDLESS, *options) as process:
        assert process.stderr is not None
        for line in process.stderr:
            if line.startswith("iteration    3"):
                break
        process.send_signal(sign)
        rest = process.stderr.read()
    return process.returncode, rest.splitlines()[-1]


@pytest.mark.thorough
@pytest.mark.parametrize("sign", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_saves_the_best_model_so_far(folder: Path, sign: signal.Signals) -> None:
    status, line = interrupted(sign=sign)
    assert status == 130
    assert line.startswith("fstcrf: interrupted: the best model so far, of iteration ")
    record = CRF.load("m").record
    assert record is not None
    assert record.interrupted
    assert f"iteration {record.best_iteration}," in line
    assert sorted(p.name for p in folder.iterdir() if "tmp" in p.name) == []


def stopped_at(monkeypatch: pytest.MonkeyPatch, iteration: int, *options: object) -> str:
    """Train, with Ctrl-C after an iteration; return the last line of stderr."""
    told = Reporter.iteration

    def stop(self: Reporter, progress: Progress) -> None:
        told(self, progress)
        interrupt_at(iteration)(progress)

    with monkeypatch.context() as patch:
        patch.setattr(Reporter, "iteration", stop)
        result = run(*TRAIN, *options)
    assert result.exit_code == 130, result.stderr
    return result.stderr.splitlines()[-1]


def iterations(path: str) -> int:
    record = CRF.load(path).record
    assert record is not None
    return record.iterations


def test_every_interrupt_leaves_the_state_of_its_iteration(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    line = stopped_at(monkeypatch, 7)
    assert line == (
        "fstcrf: interrupted: the best model so far, of iteration 7, is saved in m; "
        "the same command with --resume goes on"
    )
    assert (iterations("m"), saved_iteration("m.checkpoint")) == (7, 7)
    stopped_at(monkeypatch, 9, "--resume")
    assert (iterations("m"), saved_iteration("m.checkpoint")) == (9, 9)
    result = run(*TRAIN, "--resume", "--max-iterations", 12)
    assert result.exit_code == 0
    assert result.stderr.splitlines()[0] == "fstcrf: m.checkpoint: on from iteration 9"
    whole = trained("--max-iterations", 12, output="whole")
    assert np.array_equal(CRF.load("m").theta, whole.theta)
    assert CRF.load("m").record == whole.record
    assert not Path("m.checkpoint").exists()


def test_a_run_that_was_interrupted_is_not_begun_anew_in_silence(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stopped_at(monkeypatch, 7)
    before = {name: Path(name).read_bytes() for name in ("m", "m.checkpoint")}
    assert failure(*TRAIN, status=2) == (
        "m.checkpoint exists and holds the state of an earlier run: continue it with --resume, "
        "or remove it to start again"
    )
    assert {name: Path(name).read_bytes() for name in before} == before
    Path("m.checkpoint").unlink()
    line = stopped_at(monkeypatch, 3, "--resume")  # as if the state were lost
    assert line == (
        "fstcrf: interrupted: m is left as it was, the model of a run interrupted after "
        "iteration 7; the same command with --resume goes on"
    )
    assert Path("m").read_bytes() == before["m"]
    assert saved_iteration("m.checkpoint") == 3
    stopped_at(monkeypatch, 8, "--resume")
    assert iterations("m") == 8, "further than what was there"


def test_resume_says_that_there_is_nothing_to_go_on_from(folder: Path) -> None:
    result = run(*TRAIN, "--max-iterations", 1, "--resume")
    assert result.exit_code == 0
    assert result.stderr.splitlines()[0] == (
        "fstcrf: m.checkpoint is not there, nothing to resume: training begins at the start"
    )


@pytest.mark.parametrize("other", [[], ["--l2", 2], ["--dev", "dev.txt"]])
def test_an_interrupt_replaces_no_other_model(
    folder: Path, other: list[object], monkeypatch: pytest.MonkeyPatch
) -> None:
    trained("--max-iterations", 4, *other, output="m")
    before = Path("m").read_bytes()
    line = stopped_at(monkeypatch, 6)
    assert "m is left as it was, the model of a run finished after iteration 4" in line
    assert ("dev " in line) == ("--dev" in other)
    assert line.endswith("; the same command with --resume goes on")
    assert Path("m").read_bytes() == before
    result = run(*TRAIN, "--resume", "--max-iterations", 7)
    assert result.stderr.splitlines()[1].startswith("fstcrf: m is there, the model of a run finish")
    assert result.stderr.splitlines()[1].endswith(
        ": the end of training replaces it, an interruption leaves it as it is"
    )
    assert iterations("m") == 7


def test_what_is_no_tagger_is_not_replaced_in_silence(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("m").write_bytes(b"older")
    assert "m is left as it was, a file without a record" in stopped_at(monkeypatch, 2)
    assert Path("m").read_bytes() == b"older"


def test_a_model_that_has_no_place_and_no_state_goes_elsewhere(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("m").write_bytes(b"older")
    monkeypatch.setenv("TMPDIR", str(folder))
    monkeypatch.setattr("tempfile.tempdir", None)
    monkeypatch.setattr(Checkpoint, "save", _full)
    line = stopped_at(monkeypatch, 2)
    assert CRF.load(line.split("; the best of iteration 2 is ")[1]).tape == "pos"


def _full(*_: object) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "m.checkpoint")


@pytest.mark.thorough
def test_an_interrupt_is_answered_at_once(folder: Path) -> None:
    with start(*TRAIN, *ENDLESS, "--set", "log_json=true") as process:
        assert process.stderr is not None
        process.stderr.readline()
        process.stderr.readline()
        process.send_signal(signal.SIGINT)
        rest = process.stderr.read()
    assert '{"event": "note", "message": "stopping after this iteration' in rest
    assert process.returncode == 130


@pytest.mark.thorough
def test_a_checkpoint_of_ones_own_stays_and_goes_on(folder: Path) -> None:
    options = ["--method", "asgd", "--set", "checkpoint=state", "--max-iterations"]
    trained(*options, 3)
    assert Path("state").exists()
    resumed = trained(*options, 6, "--resume")
    whole = trained("--method", "asgd", "--max-iterations", 6, output="whole")
    assert np.array_equal(resumed.theta, whole.theta)
    arguments = ["train", "dev.txt", "-o", "m", *ROWS, "--template", "pos.tpl", *options, 7]
    assert "other data or options" in failure(*arguments, "--resume")


def test_an_interrupt_before_the_first_iteration_saves_nothing(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("m").write_bytes(b"older")

    monkeypatch.setattr("fstcrf.training.lbfgs.LBFGSOptimiser.step", interrupt)
    result = run(*TRAIN)
    assert result.exit_code == 130
    assert result.stderr.endswith(
        "fstcrf: interrupted before an iteration ended: nothing is saved\n"
    )
    assert Path("m").read_bytes() == b"older"


def test_an_interrupt_while_saving_waits(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save = CRF.save

    def impatient(model: CRF, path: str) -> None:
        os.kill(os.getpid(), signal.SIGINT)
        save(model, path)

    monkeypatch.setattr(CRF, "save", impatient)
    assert run(*TRAIN, "--max-iterations", 1).exit_code == 130
    assert CRF.load("m").tape == "pos"


# --- Bad input ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--set", "f_gamma=2"], "--set f_gamma needs --objective 'mce-f', not 'likelihood'"),
        (
            ["--objective", "mce", "--method", "cg"],
            (
                "--objective 'mce' is trained by 'lbfgs', 'quickprop', 'gpd', not 'cg', "
                "which is for --objective 'likelihood'"
            ),
        ),
        (
            ["--set", "error_sensitive=false", "--method", "ap"],
            "--set error_sensitive needs --method 'pa', not 'ap'",
        ),
        (
            ["--set", "jackknife=3"],
            "--set jackknife is for the taggers of --reads, and there are none",
        ),
    ],
)
def test_options_that_do_not_go_together_are_refused_before_a_file_is_read(
    folder: Path, options: list[object], message: str
) -> None:
    given = ["train", "none.txt", "-o", "m", *ROWS, "--template", "none.tpl"]
    assert failure(*given, *options, status=2) == message


def test_words_that_are_no_options_stay() -> None:
    for message in (
        "the features of order 2 are too many",
        "train.txt: no column 'pos'",
        "a method of its own: no method 'x' there, nor a min_count; order=3 and a seed",
    ):
        worded = message.replace("method 'x'", "--method 'x'").replace("min_count", "--min-count")
        assert spoken(message, command) == worded


def test_bad_templates_and_columns(folder: Path) -> None:
    common = ["train", "train.txt", "-o", "m", "--columns", "word,pos,field"]
    Path("t.tpl").write_text("U0:%x[0,word]\nU1:%x[0,shoe]\n")
    line = failure(*common, "--target", "pos", "--template", "t.tpl")
    assert line.startswith("t.tpl:2: ")
    assert "column 'shoe'; train.txt has 'word', 'pos', 'field'" in line
    line = failure(*common, "--target", "chunk", "--template", "pos.tpl")
    assert line == "train.txt: no column 'chunk'; there are 'word', 'pos', 'field'"
    line = failure(*common, "--target", "pos", "--template", "none.tpl")
    assert line == "none.tpl: No such file or directory"
    line = failure("train", "none.txt", "-o", "m", *ROWS, "--template", "pos.tpl")
    assert line == "none.txt: No such file or directory"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--order", "3"], "'--order'"),
        (["--l2", "-1"], "'--l2'"),
        (["--l2", "nan"], "l2 is nan"),
        (["--set", "class_weights=NOUN"], "LABEL=NUMBER"),
        *(
            (["--set", f"class_weights={x}"], "LABEL=NUMBER")
            for x in ("A=x", "=1", "A=", "A=nan", "A=inf")
        ),
        (["--columns", "a,,b"], "empty name"),
        (["--columns", "a,b,a"], "named twice"),
        (["--set", "feature_columns=Number"], "--format conllu"),
        (["--set", "hash_bits=99"], "--set hash_bits is 99"),
        (["--output", "train.txt"], "would overwrite an input"),
        (["--nothing"], "No such option"),
    ],
)
def test_wrong_usage(folder: Path, options: list[str], message: str) -> None:
    before = Path("train.txt").read_bytes()
    assert message in failure(*TRAIN, *options, status=2)
    assert Path("train.txt").read_bytes() == before


def test_columns_must_be_named(folder: Path) -> None:
    unnamed = [given for given in TRAIN if given not in ROWS[:2]]
    assert failure(*unnamed, status=2).startswith("--columns is missing")


def test_where_the_model_cannot_go_is_found_out_first(folder: Path) -> None:
    for output, reason in (("none/m", "No such file or directory"), (".", "Is a directory")):
        result = run("train", "none.txt", "-o", output, *ROWS, "--template", "pos.tpl")
        assert result.stderr == f"fstcrf: error: {output}: {reason}\n"


def test_a_model_that_cannot_be_saved_goes_elsewhere(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save = CRF.save

    def full(model: CRF, path: str | Path) -> None:
        if str(path) == "m":
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "m")
        save(model, path)

    monkeypatch.setattr(CRF, "save", full)
    monkeypatch.setenv("TMPDIR", str(folder))
    monkeypatch.setattr("tempfile.tempdir", None)
    line = failure(*TRAIN, "--max-iterations", 1)
    assert line.startswith("m: No space left on device; the model is in ")
    spare = line.split(" is in ")[1].removesuffix(" instead")
    assert CRF.load(spare).tape == "pos"
