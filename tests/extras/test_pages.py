"""Programs of the documentation that need packages of others, run as they stand there."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.support.bert import tiny_classifier, tiny_tokenizer
from tests.test_docs import DOCS, blocks

pytestmark = [pytest.mark.extras, pytest.mark.filterwarnings("ignore")]
HERE = "tests/extras/test_pages.py runs it"
PIECES = ["an", "##na", "bo", "##b", "met", "in", "ber", "##lin", "sing", "##s", "."]


def programs(name: str) -> list[str]:
    """Return the Python blocks of a page that are left to this file."""
    page = (DOCS / "guides" / name).read_text("utf-8")
    mine = {part.split("```")[0].strip() for part in page.split(f"{HERE} -->\n```python\n")[1:]}
    return [b.text for b in blocks(page) if b.not_run and b.text.strip() in mine]


def ran(program: str) -> dict[str, Any]:
    names: dict[str, Any] = {}
    exec(compile(program, "page", "exec"), names)
    return names


def test_the_program_for_hugging_face(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "my-model"
    folder.mkdir()
    tokenizer = tiny_tokenizer(folder, PIECES)
    tiny_classifier(tokenizer, seed=1).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    program, _, _ = programs("token-classifiers.md")
    names = ran(program)
    assert "'" in capsys.readouterr().out
    long = "Anna met Bob in Berlin. " * 40
    (spans,) = names["decoder"].decode_all(names["pieces"]([long]))
    assert spans[-1].end > 900


def test_the_programs_for_spacy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("spacy")
    monkeypatch.chdir(tmp_path)
    _, first, second = programs("token-classifiers.md")
    ran(first)
    assert "Ann Lee PER" in capsys.readouterr().out
    ran(second)
    assert capsys.readouterr().out == "(Ann Lee, Bob)\n"


class _Label:
    def __init__(self, value: str, score: float) -> None:
        self.value, self.score = value, score


class _Token:
    """What a page uses of flair's tokens."""

    def __init__(self, text: str, start: int) -> None:
        self.text, self.start_position, self.end_position = text, start, start + len(text)

    def get_tags_proba_dist(self, kind: str) -> list[_Label]:
        assert kind == "ner"
        likely = "S-LOC" if self.text == "Washington" else "O"
        names = ["<unk>", "O", "S-LOC", "B-LOC", "I-LOC", "E-LOC", "<START>", "<STOP>"]
        return [_Label(name, 0.79 if name == likely else 0.03) for name in names]


class _Sentence(list[_Token]):
    def __init__(self, text: str) -> None:
        found = re.finditer(r"\w+|[^\w\s]", text)
        super().__init__(_Token(match[0], match.start()) for match in found)
        self.text = text


class _SequenceTagger:
    @staticmethod
    def load(name: str) -> _SequenceTagger:
        assert name == "ner"
        return _SequenceTagger()

    def predict(self, sentence: _Sentence, *, return_probabilities_for_all_classes: bool) -> None:
        assert sentence
        assert return_probabilities_for_all_classes


def test_the_program_for_flair(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """With what it uses of flair, which is not installed."""
    modules: dict[str, dict[str, Any]] = {"data": {"Sentence": _Sentence}, "models": {}}
    modules["models"]["SequenceTagger"] = _SequenceTagger
    monkeypatch.setitem(sys.modules, "flair", ModuleType("flair"))
    for name, values in modules.items():
        module = ModuleType(f"flair.{name}")
        vars(module).update(values)
        monkeypatch.setitem(sys.modules, f"flair.{name}", module)
    page = (DOCS / "guides" / "token-classifiers.md").read_text("utf-8")
    (program,) = [b.text for b in blocks(page) if "from flair" in b.text]
    ran(program)
    assert capsys.readouterr().out.count("Washington LOC 0.") == 2
