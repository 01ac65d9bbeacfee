"""All commands: few options, short help, one meaning for each name, settings and TOML files."""

from __future__ import annotations

import re
from collections import defaultdict
from pathlib import Path

import click
import pytest

from fstcrf import demo
from fstcrf.cli.main import COMMANDS
from fstcrf.cli.options import Setting, key_of
from fstcrf.cli.settings import commands
from fstcrf.training.options import DEFAULTS
from tests.support.command import ROOT, done, failure

ALL = dict(commands())


def options(command: str) -> list[click.Option]:
    return [p for p in ALL[command].params if isinstance(p, click.Option)]


def test_there_are_few_commands_and_options() -> None:
    """Each structure of `train` counts as a command of its own."""
    flags = [p for command in ALL for p in options(command) if not isinstance(p, Setting)]
    assert {command.partition(" ")[0] for command in ALL} <= COMMANDS.keys()
    assert len(COMMANDS) <= 14
    assert len(flags) <= 200
    page = (ROOT.parent / "docs/reference/command-line.md").read_text("utf-8")
    assert [name for name in COMMANDS if f"\n## {name}\n" not in page] == []


@pytest.mark.parametrize("command", ALL)
def test_the_help_fits_on_a_page(command: str) -> None:
    lines = done(*command.split(), "--help").splitlines()
    assert len(lines) <= 60
    assert max(map(len, lines)) <= 80
    assert [p.name for p in options(command) if not p.help] == []
    name, *structure = command.split(" ")
    if not structure:
        assert ALL[command].get_short_help_str(200) == COMMANDS[name].help
    long = {"tag", "eval", "tune", "recipe", "convert", "calibrate", "compose", "report"}
    assert (name in long) == any("--progress" in line for line in lines)


def meaning(option: click.Option) -> tuple[str, str]:
    """Return how the help begins, without the methods that read an option, and the kind.

    A list in one value is another kind; ``TAPE=COLUMN`` for several tapes is not.
    """
    text = re.sub(r"^[a-z0-9, -]+: ", "", option.help or "")
    kind = re.sub("(Int|Float)(Range|ParamType)", "number", type(option.type).__name__)
    kind = re.sub("Choice|Parsed|StringParamType", "text", kind)
    kind += ", ..." * bool(re.fullmatch(r"\w+,\.\.\.", option.metavar or ""))
    return re.split(r"[:.;,(]|  | for | of ", text)[0].strip().lower(), kind


def test_each_name_has_one_meaning() -> None:
    meanings: dict[str, set[tuple[str, str]]] = defaultdict(set)
    for command in ALL:
        for option in options(command):
            meanings[key_of(option)].add(meaning(option))
    assert {name: each for name, each in meanings.items() if len(each) > 1} == {}


def test_there_is_one_way_to_name_the_output() -> None:
    written = [c for c in ALL if any(p.name == "output" for p in options(c))]
    assert len(written) > 12
    for command in written:
        assert next(p for p in options(command) if p.name == "output").opts == ["-o", "--output"]


@pytest.mark.parametrize(
    "command", [c for c in ALL if any(p.name == "settings" for p in options(c))]
)
def test_unknown_settings_are_refused(command: str) -> None:
    name = next(key_of(p) for p in options(command) if isinstance(p, Setting))
    line = failure(*command.split(), "--set", f"{name}x=1", status=2)
    assert line.startswith(f"--set {name}x=1: there is no setting '{name}x'; did you mean '")
    assert "expected NAME=VALUE" in failure(*command.split(), "--set", name, status=2)
    listed = done("options", *command.replace("--structure ", "").split())
    for option in options(command):
        name = key_of(option) if isinstance(option, Setting) else option.opts[-1]
        assert re.search(rf"^  .*{name}\b", listed, re.MULTILINE)


def test_messages_name_options_that_exist() -> None:
    several = [p for c in ALL for p in options(c) if not isinstance(p, Setting)]
    known = {flag for p in several for flag in (*p.opts, *p.secondary_opts)} | {"--help"}
    package = ROOT.parent / "fstcrf"
    for path in (*package.glob("cli/*.py"), *package.glob("ext/*/command.py")):
        named = re.findall(r"(?<![\w-])--[a-z][a-z-]+", path.read_text("utf-8"))
        assert set(named) <= known, path


def test_an_option_of_its_own_is_no_setting() -> None:
    line = failure("tag", "m", "--set", "nbest=2", status=2)
    assert line.startswith("--set nbest=2: nbest is an option of its own, write --nbest")
    assert "; it is --set sweeps=VALUE" in failure("tag", "m", "--sweeps", "2", status=2)
    assert "'--set sweeps': 0 is not in the range x>=1" in failure(
        "tag", "m", "--set", "sweeps=0", status=2
    )
    line = failure("train", "t", "-o", "m", "--lexicon", "x", status=2)
    assert line.startswith("--lexicon is for --structure segments (see")
    assert "there are train, tag" in failure("options", "x", status=2)
    assert "has no structure 'x'" in failure("options", "train", "x", status=2)


# --- TOML files -----------------------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "in").mkdir()
    text = demo.corpus_path("train").read_text("utf-8").split("\n\n")[:60]
    (tmp_path / "in/train.txt").write_text("\n\n".join(text) + "\n\n", "utf-8")
    (tmp_path / "in/pos.tpl").write_text("U0:%x[0,word]\nB\n", "utf-8")
    return tmp_path


DECLARED = """
data = ["train.txt"]
columns = ["word", "pos", "field"]
target = "pos"
template = "pos.tpl"
max_iterations = 3
ends = true
class_weights = {NOUN = 2}
"""


def test_a_toml_file_has_options_and_settings(folder: Path) -> None:
    Path("in/t.toml").write_text(DECLARED, "utf-8")
    done("train", "in/t.toml", "-o", "one")
    flags = ["--columns", "word,pos,field", "--target", "pos", "--template", "in/pos.tpl"]
    flags += ["--max-iterations", "3", "--set", "ends=true", "--set", "class_weights=NOUN=2"]
    done("train", "in/train.txt", "-o", "two", *flags)
    assert Path("one").read_bytes() == Path("two").read_bytes()
    done("train", "in/t.toml", "-o", "two", "--max-iterations", "2")
    assert Path("one").read_bytes() != Path("two").read_bytes()
    Path("in/names.txt").write_text("New York\n", "utf-8")
    segments = 'structure = "segments"\ntails = false\non_missing = "skip"\nlexicon = "names.txt"\n'
    lines = DECLARED.replace("ends = true\nclass_weights = {NOUN = 2}\n", segments)
    Path("in/s.toml").write_text(lines.replace('"pos"\ntemplate', '"field"\ntemplate'), "utf-8")
    done("train", "in/s.toml", "-o", "three")
    assert "segments" in done("info", "three").lower()


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("ordr = 2", "in/t.toml: there is no option 'ordr'; did you mean 'order'?"),
        ("order = 3", "Invalid value for '--order'"),
        ("hash_bits = 99", "hash_bits"),
        ("l2 = 'x'", "Invalid value for '--l2'"),
        ("method = 'ap'\nl1 = 1", "l1 needs --method 'lbfgs'"),
        ("structure = 'tree'", "structure"),
        ("= 2", "in/t.toml: not valid TOML"),
    ],
)
def test_what_a_toml_file_may_not_hold(folder: Path, line: str, message: str) -> None:
    Path("in/t.toml").write_text(f"{DECLARED}{line}\n", "utf-8")
    assert message in failure("train", "in/t.toml", "-o", "m", status=2)


def test_every_option_of_training_is_an_option_or_a_setting() -> None:
    known = {key_of(p) for p in options("train --structure chain")}
    assert set(DEFAULTS) <= known
