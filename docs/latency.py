"""Measure the latency and memory of single requests: ``python docs/latency.py``.

It trains the taggers of the demo, asks one sentence at a time, each kind of request in its own
process, and writes the table into docs/guides/serving.md.
"""

from __future__ import annotations

import json
import platform
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import fstcrf
from fstcrf.constraints import bioes
from fstcrf.demo import COLUMNS, corpus_path, grammar_path, template_path

PAGE = Path(__file__).parent / "guides" / "serving.md"
BEGIN, END = "<!-- latency: python docs/latency.py -->", "<!-- end of latency -->"
ROUNDS = 10  # passes over the test sentences
KINDS = {
    "tagger": "one tagger: labels",
    "probabilities": "one tagger: probabilities of all labels",
    "cascade": "cascade of two taggers",
    "chain": "chain rule, two taggers",
    "product": "product of two taggers under a grammar",
    "decoder": "`TokenDecoder`, 512 pieces, 33 labels, spans with probabilities",
}
MODELS = {"tagger": "pos", "probabilities": "pos"}


def made(folder: Path) -> None:
    """Train the taggers and save them."""
    train = fstcrf.read_columns(corpus_path("train"), COLUMNS)
    pos = fstcrf.CRF.train(train[:200], "pos", template_path("pos"))
    field = fstcrf.CRF.train(
        train[200:], "field", template_path("joint"), scheme="iob2", reads=[pos]
    )
    rule = fstcrf.Grammar.from_file(grammar_path())
    pos.save(folder / "pos.fstcrf")
    field.save(folder / "field.fstcrf")
    fstcrf.compose(pos, field, normalize="chain").save(folder / "chain.fstcrf")
    product = fstcrf.compose(pos, field, normalize="product", weights=(5, 1), grammar=rule)
    product.save(folder / "product.fstcrf")


def asked(kind: str, folder: Path) -> tuple[Callable[[Any], object], list[Any]]:
    """Return a request and its inputs."""
    test = fstcrf.read_columns(corpus_path("test"), COLUMNS)
    sentences: list[Any] = [{"word": list(sentence["word"])} for sentence in test]
    if kind == "decoder":
        labels = ["O", *(f"{letter}-T{k}" for k in range(8) for letter in "BIES")]
        decoder = fstcrf.TokenDecoder(labels, "bioes", pieces="each", grammar=bioes())
        rng = np.random.default_rng(0)
        logits = [3 * rng.normal(size=(512, 33)).astype(np.float32) for _ in range(20)]
        places = [(2 * k, 2 * k + 1) for k in range(512)]
        return lambda one: decoder.decode(one, places), logits
    if kind == "cascade":
        first, second = (fstcrf.load(folder / f"{name}.fstcrf") for name in ("pos", "field"))
        return lambda one: second.tag({**one, "pos": first.tag(one)}), sentences
    model = fstcrf.load(folder / f"{MODELS.get(kind, kind)}.fstcrf")
    if kind == "probabilities":
        return lambda one: model.decode([one]).marginals(), sentences
    return model.tag, sentences


def measured(kind: str, folder: Path) -> dict[str, float]:
    """Return percentiles in milliseconds, and the peak of memory in MB."""
    request, inputs = asked(kind, folder)
    request(inputs[0])  # the first call compiles
    seconds = np.zeros((ROUNDS, len(inputs)))
    for n in range(ROUNDS):
        for k, one in enumerate(inputs):
            begin = time.perf_counter()
            request(one)
            seconds[n, k] = time.perf_counter() - begin
    p50, p99 = np.percentile(np.median(seconds, axis=0), [50, 99]) * 1000
    peak = re.search(r"VmHWM:\s*(\d+) kB", Path("/proc/self/status").read_text("utf-8"))
    return {"p50": p50, "p99": p99, "peak": int(peak[1]) / 1024 if peak else float("nan")}


def processor() -> str:
    """Return the name of the processor."""
    found = re.search(r"model name\s*: (.*)", Path("/proc/cpuinfo").read_text("utf-8"))
    return found[1] if found else platform.machine()


def table(folder: Path) -> str:
    """Measure every kind in a process of its own and return the table."""
    lines = ["| request | p50 | p99 | peak memory |", "| --- | ---: | ---: | ---: |"]
    for kind, name in KINDS.items():
        command = [sys.executable, __file__, kind, str(folder)]
        done = subprocess.run(command, capture_output=True, text=True, check=True)  # noqa: S603
        row = json.loads(done.stdout)
        times = f"{row['p50']:.2f} ms | {row['p99']:.2f} ms"
        lines.append(f"| {name} | {times} | {row['peak']:.0f} MB |")
    return "\n".join([*lines, "", f"{processor()}, one thread, fstcrf {fstcrf.__version__}."])


def main() -> None:
    """Measure one kind, or write the table."""
    if len(sys.argv) == 3:
        sys.stdout.write(json.dumps(measured(sys.argv[1], Path(sys.argv[2]))))
        return
    with tempfile.TemporaryDirectory() as folder:
        made(Path(folder))
        found = table(Path(folder))
    before, _, rest = PAGE.read_text("utf-8").partition(BEGIN)
    PAGE.write_text(f"{before}{BEGIN}\n\n{found}\n\n{END}{rest.partition(END)[2]}", "utf-8")


if __name__ == "__main__":
    main()
