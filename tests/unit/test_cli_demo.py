"""``fstcrf demo``: every claim that it prints is checked against the library."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
import warnings
from pathlib import Path

import pytest

from fstcrf import CRF, compose, read_columns
from fstcrf.cli.demo import _FIRST, _NEXT, _WEIGHTS
from fstcrf.demo import COLUMNS, corpus_path, template_path
from tests.house.prose import sentences, turns
from tests.support import command as program


@pytest.fixture(scope="module")
def shown() -> str:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        result = program.run("demo")
    assert result.exit_code == 0, result.output
    assert re.fullmatch(r"fstcrf: demo done in [0-9.]+ s\n", result.stderr)
    return result.stdout


def test_it_is_one_screen_of_text(shown: str) -> None:
    lines = shown.splitlines()
    assert len(lines) <= 60
    assert max(map(len, lines)) <= 90
    assert "\x1b" not in shown


def test_its_text_is_plain(shown: str) -> None:
    assert [s for s in sentences(shown) if turns(s)] == []


def test_each_step_changes_the_answer(shown: str) -> None:
    answers = re.findall(r"^ {4}(Will: .*)$", shown, flags=re.MULTILINE)
    cascade, joint, ruled = answers
    assert cascade.startswith("Will: NAME;")
    assert joint.startswith("Will: AUX;")
    assert joint.count("START") == 2
    assert ruled.count("START") == 1


def test_later_decisions_have_more_sentences_right(shown: str) -> None:
    right = [int(n) for n in re.findall(r"(\d+)\s+(?:test\s+)?sentences\s+have\s+no", shown)]
    assert len(right) == 3
    assert right == sorted(set(right))
    repaired, spoiled = zip(
        *re.findall(r"repairs (\d+)\s+sentences\s+of the cascade and spoils (\d+)", shown),
        strict=True,
    )
    gains = [int(r) - int(s) for r, s in zip(repaired, spoiled, strict=True)]
    assert gains == [right[1] - right[0], right[2] - right[0]]


def test_the_outputs_of_the_transducer_are_sorted_by_probability(shown: str) -> None:
    found = [float(p) for p in re.findall(r"^ {4}(0\.\d\d)  [A-Z ]+$", shown, flags=re.MULTILINE)]
    assert len(found) == 3
    assert found == sorted(found, reverse=True)
    assert sum(found) <= 1


@pytest.mark.thorough
def test_the_weights_are_the_ones_that_the_dev_part_chooses() -> None:
    train, dev = (read_columns(corpus_path(part), COLUMNS) for part in ("train", "dev"))
    pos = CRF.train(train[:_FIRST], "pos", template_path("pos"))
    field = CRF.train(train[_FIRST:], "field", template_path("joint"), scheme="iob2", reads=[pos])
    tuned = compose(pos, field, normalize="product").tune_weights(dev).weights
    assert tuned[0] / tuned[1] == pytest.approx(_WEIGHTS[0] / _WEIGHTS[1])


@pytest.mark.thorough
def test_the_commands_under_next_run(tmp_path: Path) -> None:
    command = shlex.join([sys.executable, "-m", "fstcrf"])
    script = re.sub(r"^  fstcrf|(?<=&& )fstcrf", command, _NEXT, flags=re.MULTILINE)
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", script.replace("| head -20", "> tagged.txt")],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert len((tmp_path / "notices" / "tagged.txt").read_text("utf-8").splitlines()) > 300
