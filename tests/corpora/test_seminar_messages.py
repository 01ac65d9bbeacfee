"""The tagged messages, read, against the copy of them that has character spans."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fstcrf.recipes.corpora import corpus_of, read_message

pytestmark = pytest.mark.corpus


def test_texts_and_spans_are_those_of_the_untagged_copy(data: Path) -> None:
    paths = sorted((data / "seminars" / "docs").glob("*.txt"))
    copies = (data / "seminars" / "seminars.jsonl").read_text("utf-8").splitlines()
    assert len(paths) == len(copies) == 485
    messages = [read_message(path) for path in paths]
    for message, line in zip(messages, copies, strict=True):
        copy = json.loads(line)
        assert message.text == copy["text"]
        found = sorted([f.start, f.end, f.name] for f in message.fields)
        assert found == sorted(copy["spans"])
    corpus = corpus_of(messages)
    begun = [label for label in corpus.columns["field"].strings() if label.startswith("B-")]
    assert len(begun) == 756 + 642 + 982 + 431
