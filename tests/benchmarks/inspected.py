"""Our side of looking into lattices: questions to the server of `fstcrf inspect`.

``python -m tests.benchmarks.inspected WORK JSON`` does one piece of work in a process of its own
and prints a JSON object.

Clients are threads of a process of their own; times are those that the server says of itself, in
its header ``Server-Timing``.
"""

from __future__ import annotations

import http.client
import itertools
import json
import statistics
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from fstcrf import compose
from fstcrf.ext.inspect import Access, Workbench, server
from fstcrf.taggers import JointCRF
from tests.benchmarks.chained import chained, held_out
from tests.benchmarks.work import answer

TOKENS = 40
TOGETHER = 50
_CLIENT = "from tests.benchmarks.inspected import client; client()"


def serve(data: str, models: str, rounds: int, *, quick: bool) -> dict[str, Any]:
    """Return milliseconds of the medians: of single questions, and of 50 that come at once."""
    joint: JointCRF = compose(*chained(Path(data), Path(models), quick=quick))
    bench = Workbench(joint, "three")
    listening = server.bound("127.0.0.1", 0)
    threading.Thread(target=server.serve, args=(bench, listening, Access()), daemon=True).start()
    given = {"port": listening.getsockname()[1], "questions": _questions(data), "rounds": rounds}
    done = subprocess.run(
        [sys.executable, "-c", _CLIENT],
        input=json.dumps(given),
        capture_output=True,
        text=True,
        check=True,
    )
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def _questions(data: str) -> list[str]:
    """Return bodies of questions about text that no tagger has seen, 40 tokens each."""
    words = [
        word
        for corpus in held_out(Path(data)).values()
        for sentence in corpus
        for word in sentence["word"]
    ]
    runs = np.asarray(words[: len(words) // TOKENS * TOKENS]).reshape(-1, TOKENS).tolist()
    return [json.dumps({"question": {"rows": [[word] for word in run]}}) for run in runs]


# --- The process of the clients -------------------------------------------------------------------


def client() -> None:
    """Ask what standard input says; print what the server says of its own times."""
    given = json.load(sys.stdin)
    questions = itertools.cycle(given["questions"])
    local = threading.local()

    def ask(body: str) -> float:
        if not hasattr(local, "link"):
            local.link = http.client.HTTPConnection("127.0.0.1", given["port"], timeout=120)
        local.link.request("POST", "/api/answer", body, {"Content-Type": "application/json"})
        answer = local.link.getresponse()
        text = answer.read()
        if answer.status != 200:
            raise RuntimeError(text.decode())
        return float(str(answer.getheader("server-timing")).partition("dur=")[2])

    for _ in range(10):
        ask(next(questions))
    single = [ask(next(questions)) for _ in range(20 * given["rounds"])]
    with ThreadPoolExecutor(TOGETHER) as pool:
        list(pool.map(ask, itertools.islice(questions, TOGETHER)))  # links are open now
        together = [
            statistics.median(pool.map(ask, list(itertools.islice(questions, TOGETHER))))
            for _ in range(given["rounds"])
        ]
    print(json.dumps({"single": single, "together": together}))


if __name__ == "__main__":
    answer(globals())
