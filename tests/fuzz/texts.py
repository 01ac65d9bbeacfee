"""Texts: corpora, templates, grammars, TOML, and all that is JSON."""

from __future__ import annotations

import contextlib
import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np

import fstcrf
from fstcrf import Grammar, TokenDecoder
from fstcrf.constraints import contiguous
from fstcrf.errors import FstcrfError
from fstcrf.ext.calibration import Calibration, Events
from fstcrf.ext.documents import scores
from fstcrf.taggers.pipelines import load_pipeline, read_pipeline
from fstcrf.text.corpus.items import read_items
from tests.fuzz.target import Target, folder, in_file, nothing

__all__ = ["TEXTS"]

CONLLU = """\
# newdoc id = a
# sent_id = 1
1\tThe\tthe\tDET\tDT\tA=b|C=d\t2\tdet\t_\t_
2-3\tcannot\t_\t_\t_\t_\t_\t_\t_\tSpaceAfter=No
2\tcan\tcan\tAUX\tMD\t_\t0\troot\t_\t_
3\tnot\tnot\tPART\tRB\t_\t2\tadvmod\t_\t_
3.1\tsee\tsee\tVERB\t_\t_\t_\t_\t_\t_

"""
COLUMNS = (
    b"the\tD\tB\na\tJ\tI\n\nx\tN\tO\n",
    b"-DOCSTART- -X- O\n\na b c\n",
    "É\tD\tO\r\n".encode(),
)
ITEMS = (b"O\tw=the\tbias\nB-X\tw=a:2.5\tx\\:y\n\nO\tw\n", b"A\t\xc3\xa9:1e-3\n")
TEMPLATES = (
    b"U1:%x[-1..1,word]\nU2:%x[0,suffix(word,2)]\nU3:%x[0,pos]/%x[1,pos]\nB1:%x[0,pos]\nB\n",
    b"U[0]:%x{-2..2,lower(word)}/%x[@1,shape(word)]\nU4:%v[0,score]\nU5:%y[0,pos]\nBOS\n",
    b'U6:%x[0,match(word,"^[A-Z]+$")]\n# a comment\nU7:%x[0,member(word,"list.txt")]\n',
)
LABELS = ["O", "B-X", "I-X", "B-Y", "I-Y"]
TASKS = b"""\
decode = "cascade"

[task.pos]
data = ["train.txt"]
columns = ["word", "pos", "field"]
template = "pos.tpl"

[task.field]
data = ["train.txt"]
columns = ["word", "pos", "field"]
template = "field.tpl"
reads = ["pos"]
scheme = "iob2"
passing = "marginals"
l2 = 0.5
"""
VIOLATIONS = (
    (
        b'{"format": "fstcrf consistency", "version": 1, "column": "word", "violations": ['
        b'{"relation": "same", "types": ["X", "Y"], "penalty": -1.5, "count": 3}]}'
    ),
    (
        b'{"format": "fstcrf fields", "version": 1, "column": "word", "violations": ['
        b'{"violation": "differing", "type": "X", "penalty": -1.0, "value": "text"}]}'
    ),
)


def decoded(data: bytes) -> str:
    """Return text: what is not UTF-8 is refused elsewhere."""
    return data.decode("utf-8", "replace")


def grammars() -> list[bytes]:
    shipped = Path(__file__).parents[2] / "grammars"
    texts = [path.read_bytes() for path in sorted(shipped.glob("*.grm"))]
    return [text for text in texts if len(text) < 4000]


def bind(grammar: Grammar) -> None:
    grammar.bind(LABELS)


def templates_of(data: bytes) -> object:
    return fstcrf.parse_template(decoded(data), lists={"list.txt": ["the", "a"]})


def extracted(templates: Any) -> None:
    sentence = {"word": ["the", "Dog"], "pos": ["D", "N"], "score": ["1", "2.5"]}
    corpus = fstcrf.Corpus.from_sentences([sentence])
    model = fstcrf.CRF.train([{**sentence, "y": ["A", "B"]}], "y", templates, max_iterations=1)
    model.tag_all(corpus)


def pipeline_of(data: bytes) -> object:
    place = folder() / "tasks"
    if not place.exists():
        place.mkdir()
        (place / "train.txt").write_text("the D O\ndog N B-X\n\nran V O\n")
        (place / "pos.tpl").write_text("U:%x[0,word]\nB\n")
        (place / "field.tpl").write_text("U:%x[0,word]\nU:%y[0,pos]\nB\n")
    (place / "tasks.toml").write_bytes(data)
    return read_pipeline(place / "tasks.toml")


def manifest_of(data: bytes) -> object:
    place = folder() / "pipeline"
    if not place.exists():
        made = fstcrf.Pipeline(
            [
                fstcrf.Task(
                    "pos",
                    fstcrf.Corpus.from_sentences([{"word": ["a", "b"], "pos": ["D", "N"]}]),
                    "U:%x[0,word]\nB\n",
                    options={"max_iterations": 1},
                )
            ]
        ).train()
        made.save(place)
        shutil.copy(place / "pipeline.json", folder() / "pipeline.seed")
    (place / "pipeline.json").write_bytes(data)
    return load_pipeline(place)


def manifests() -> list[bytes]:
    (folder() / "pipeline.seed").unlink(missing_ok=True)
    shutil.rmtree(folder() / "pipeline", ignore_errors=True)
    with contextlib.suppress(FstcrfError):
        manifest_of(b"{}")
    return [(folder() / "pipeline.seed").read_bytes()]


def decoders() -> list[bytes]:
    events = Events.of(np.linspace(0.1, 0.9, 20), np.arange(20) % 3 > 0, ["X", "Y"] * 10)
    made = [
        TokenDecoder(LABELS, "bio"),
        TokenDecoder(LABELS, "bio", grammar=contiguous("X"), temperature=2.0),
        TokenDecoder(
            LABELS, "bio", calibration=Calibration.fit(events), biases={"background_stay": -1.0}
        ),
    ]
    return [json.dumps(one.to_json()).encode() for one in made]


def spans(decoder: TokenDecoder) -> None:
    size = len(decoder.to_json()["labels"])
    decoder.decode(np.eye(4, size), [(2 * i, 2 * i + 1) for i in range(4)])


def calibrations() -> list[bytes]:
    events = Events.of(np.linspace(0.1, 0.9, 20), np.arange(20) % 3 > 0, ["X", "Y"] * 10)
    path, found = folder() / "calibration.json", []
    for kind in ("isotonic", "log-odds"):
        Calibration.fit(events, kind).save(path)
        found.append(path.read_bytes())
    return found


def text(name: str, seeds: Any, read: Any, use: Any = nothing) -> Target:
    return Target(
        name, seeds if callable(seeds) else lambda: list(seeds), read, use, refuses=FstcrfError
    )


TEXTS = (
    text("columns", COLUMNS, in_file(lambda path: fstcrf.read_columns(path, ["word", "pos", "y"]))),
    text("conllu", [CONLLU.encode()], in_file(fstcrf.read_conllu)),
    text("items", ITEMS, in_file(read_items)),
    text("template", TEMPLATES, templates_of, extracted),
    text("grammar", grammars, lambda data: Grammar.from_text(decoded(data)), bind),
    text("tasks", [TASKS, b"# " + b"a" * 400 + b"\n" + TASKS], pipeline_of),
    text("manifest", manifests, manifest_of),
    text("decoder", decoders, in_file(TokenDecoder.load), spans),
    text("calibration", calibrations, in_file(Calibration.load)),
    text("violations", VIOLATIONS, in_file(scores.load)),
)
