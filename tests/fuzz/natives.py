"""Files of fstcrf's own: models, compositions, segment taggers, checkpoints, what learners keep."""

from __future__ import annotations

import contextlib
import json
import shutil
import struct
import zlib
from collections.abc import Callable
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

import fstcrf
from fstcrf import CRF, SegmentCRF, storage
from fstcrf.constraints import contiguous
from fstcrf.errors import FstcrfError
from fstcrf.ext.feedback import FeedbackLearner
from fstcrf.ext.feedback import folder as kept
from fstcrf.text.corpus import Corpus
from fstcrf.training import Features
from tests.fuzz.target import Target, folder, in_file, nothing
from tests.support.training import flat_train

__all__ = ["OWN"]

COLUMNS: list[dict[str, list[str]]] = [
    {"word": ["the", "big", "dog"], "pos": ["D", "J", "N"], "y": ["B-X", "I-X", "I-X"]},
    {"word": ["a", "dog"], "pos": ["D", "N"], "y": ["B-X", "I-X"]},
    {"word": ["ran"], "pos": ["V"], "y": ["O"]},
]
TEMPLATE = "U1:%x[-1..1,word]\nU2:%x[0,suffix(word,2)]\nB1:%x[0,pos]\nB\n"
LITERAL: list[Any] = [[["w=the", "bias"], {"w": "big", "len": 3.5}], [{"w": "a", "title": True}]]
TARGET = [["B-X", "I-X"], ["B-X"]]
SENTENCES = [{"word": ["a", "new", "dog"], "pos": ["D", "J", "N"]}, {"word": ["x"], "pos": ["y"]}]


def saved(model: Any) -> bytes:
    path = folder() / "seed"
    model.save(path)
    return path.read_bytes()


def trained(target: str = "y", template: str = TEMPLATE, **options: Any) -> CRF:
    return flat_train(COLUMNS, target, template, **{"max_iterations": 3, **options})


def models() -> list[bytes]:
    made = [
        trained(),
        trained(order=2, scheme="iob2", ends=True),
        trained(boundary="skip", pairs="complete", transitions="all"),
        trained(hash_bits=6),
        CRF.train(LITERAL, TARGET, max_iterations=3),
        CRF.train(LITERAL, TARGET, features=Features(hash_bits=4), max_iterations=3),
    ]
    return [saved(model) for model in made]


def compositions() -> list[bytes]:
    one, two = trained("pos", "U:%x[0,word]\nB"), trained("y", "U:%x[0,word]\nB")
    reading = trained("y", "U:%x[0,word]\nU:%y[0,pos]\nB", reads=[one])
    made = [
        fstcrf.compose(one, two),
        fstcrf.compose(one, reading, normalize="chain"),
        two & contiguous(["B-X", "O"]),
        fstcrf.compose(one, two, grammar=contiguous(["N", "V"], tape="pos")),
    ]
    return [saved(model) for model in made]


def segment_taggers() -> list[bytes]:
    data = Corpus.from_sentences(COLUMNS)
    return [saved(SegmentCRF.train(data, "y", "U0:%x[-1..1,word]\nU1", max_iterations=2))]


def products() -> list[bytes]:
    segments = SegmentCRF.train(COLUMNS, "y", "U0:%x[0,word]", max_iterations=2)
    once = fstcrf.constraints.at_most(1, "X", tape="y")
    both = segments @ trained("pos", "U:%x[0,word]\nB")
    return [saved(segments & fstcrf.constraints.at_most(1, "X")), saved(both), saved(both & once)]


def tag(model: Any) -> None:
    sentences: list[Any] = list(SENTENCES)
    if not getattr(model, "columns", ("word",)):
        sentences = list(LITERAL)
    for ask in (model.tag_all, model.marginals_all):
        with contextlib.suppress(FstcrfError):
            ask(sentences)
    if isinstance(model, CRF):
        model.top_features(5)


def use_segments(model: SegmentCRF) -> None:
    model.tag_all([{"word": s["word"]} for s in SENTENCES])


# --- Checkpoints ----------------------------------------------------------------------------------


def checkpoints() -> list[bytes]:
    path = folder() / "made.checkpoint"
    path.unlink(missing_ok=True)
    trained(checkpoint=path, checkpoint_every=1)
    return [path.read_bytes()]


def resumed(path: Path) -> object:
    return trained(checkpoint=path, resume=True, max_iterations=4)


# --- What a learner keeps -------------------------------------------------------------------------


@cache
def learner_files() -> dict[str, bytes]:
    """Return the files of a learner: its model, a state and a journal, by what they begin with."""
    place = folder() / "learner"
    shutil.rmtree(place, ignore_errors=True)
    with FeedbackLearner.create(place, trained("y", "U:%x[0,word]\nB")) as learner:
        made = [learner.propose({"word": words}) for words in (["a", "dog"], ["ran"], ["x"])]
        learner.feedback(made[0], 0.5)
        learner.save()
        learner.feedback(learner.propose({"word": ["dog", "ran"]}), 1.0)
        learner.feedback(made[1], 0.0)
    return {path.name: path.read_bytes() for path in place.iterdir() if path.is_file()}


def named(beginning: str) -> str:
    return next(name for name in sorted(learner_files()) if name.startswith(beginning))


def learner_with(beginning: str) -> Callable[[bytes], FeedbackLearner]:
    def read(data: bytes) -> FeedbackLearner:
        place = folder() / "opened"
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir()
        for name, content in learner_files().items():
            (place / name).write_bytes(content)
        (place / named(beginning)).write_bytes(data)
        return FeedbackLearner.open(place, sync="process")

    return read


def answered(learner: FeedbackLearner) -> None:
    with learner:
        learner.feedback(learner.propose({"word": ["dog", "ran"]}), 0.3)
        for number in list(learner.pending):
            learner.feedback(number, 0.7)
        learner.save()
        learner.model().tag({"word": ["dog"]})


def framed(data: bytes) -> bytes:
    """Return a journal whose frames have the sums of what they hold."""
    head, mark, frame = kept._HEAD, kept._MARK, kept._FRAME
    out, at = bytearray(head), len(head)
    while (at := data.find(mark, at)) >= 0 and at + len(mark) + frame.size <= len(data):
        at += len(mark)
        size = frame.unpack_from(data, at)[0]
        record = data[at + frame.size : at + frame.size + size]
        out += mark + frame.pack(len(record), zlib.crc32(record)) + record
        at += frame.size
    return bytes(out)


# --- Named arrays ---------------------------------------------------------------------------------

_FLOATS = (np.nan, np.inf, -np.inf, 1e300, -1e308, 1e308, 0.0, -1.0, 5e-324)


def parts(data: bytes) -> tuple[dict[str, Any], bytearray]:
    """Return header and arrays of a file."""
    length = int.from_bytes(data[:8], "little")
    return json.loads(data[8 : 8 + length]), bytearray(data[8 + length :])


def whole(header: dict[str, Any], body: bytes | bytearray) -> bytes:
    """Return a file, with the checksum of what it holds where that can be computed."""
    fields, arrays = header["__metadata__"], {}
    for name, given in header.items():
        if name != "__metadata__":
            begin, end = given["data_offsets"]
            flat = np.frombuffer(body[begin:end], dtype=storage._DTYPES[given["dtype"]])
            arrays[name] = flat.reshape(given["shape"])
    fields.pop("sha256", None)
    rest = {key: text for key, text in fields.items() if key != "crc32"}
    fields["crc32"] = storage._crc32(storage._covered(arrays, rest))
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + bytes(body)


def summed(data: bytes) -> bytes:
    """Return a file with its checksum put right, where its header can be read."""
    try:
        return whole(*parts(data))
    except Exception:  # noqa: BLE001 (it is damaged elsewhere)
        return data


def changed(data: bytes, random: Random) -> bytes:
    """Change numbers of arrays or of the metadata, or how an array is described."""
    try:
        header, body = parts(data)
        for _ in range(random.choice((1, 1, 1, 2, 3))):
            random.choice((_change_array, _change_array, _change_text, _change_head))(
                header, body, random
            )
        return whole(header, bytes(body))
    except Exception:  # noqa: BLE001 (it was damaged before)
        return data


def _named(header: dict[str, Any], random: Random) -> str:
    return random.choice([name for name in header if name != "__metadata__"])


def _change_array(header: dict[str, Any], body: bytearray, random: Random) -> None:
    given = header[_named(header, random)]
    dtype = storage._DTYPES[given["dtype"]]
    begin, end = given["data_offsets"]
    values = np.frombuffer(bytes(body[begin:end]), dtype=dtype).copy()
    for _ in range(random.choice((1, 1, 2, 4)) if len(values) else 0):
        place = random.randrange(len(values))
        if dtype.kind == "f":
            values[place] = random.choice(_FLOATS)
            continue
        limits, own = np.iinfo(dtype), int(values[place])
        near = (own - 1, own + 1, int(values[random.randrange(len(values))]), len(values))
        value = random.choice((limits.max, limits.min, 0, 1, -1, 2**31, 2**32 - 1, *near))
        values[place] = max(int(limits.min), min(int(limits.max), value))
    body[begin:end] = values.tobytes()


def _change_text(header: dict[str, Any], _: bytearray, random: Random) -> None:
    fields = header["__metadata__"]
    name = random.choice([key for key in fields if key not in ("format", "version", "crc32")])
    text = fields[name]
    place = random.randrange(len(text) + 1)
    new = random.choice(("0", "-1", "1", "99999999999", "null", "[]", '""', "{}", "1e999", "x", ""))
    fields[name] = text[:place] + new + text[place + random.choice((0, 1, 1, 4)) :]


def _change_head(header: dict[str, Any], _: bytearray, random: Random) -> None:
    name = _named(header, random)
    given, shape = header[name], header[name]["shape"]
    choice = random.randrange(4)
    if choice == 0:
        given["dtype"] = random.choice(list(storage._DTYPES))
    elif choice == 1:
        given["shape"] = random.choice(([*shape, 1], [1, *shape], [0], [], shape[::-1]))
    elif choice == 2:
        del header[name]
    else:
        header[random.choice(["theta", "x", name])] = header.pop(name)


def own(
    name: str, seeds: Callable[[], list[bytes]], read: Callable[[bytes], Any], use: Any
) -> Target:
    return Target(name, seeds, read, use, summed, changed, FstcrfError)


OWN = (
    own("model", models, in_file(fstcrf.load), tag),
    own("composition", compositions, in_file(fstcrf.load), tag),
    own("product", products, in_file(fstcrf.load), tag),
    own("segments", segment_taggers, in_file(SegmentCRF.load), use_segments),
    own("checkpoint", checkpoints, in_file(resumed), nothing),
    own(
        "learner",
        lambda: [learner_files()[named("state")]],
        learner_with("state"),
        answered,
    ),
    Target(
        "journal",
        lambda: [learner_files()[named("journal")]],
        learner_with("journal"),
        answered,
        framed,
        refuses=FstcrfError,
    ),
)
