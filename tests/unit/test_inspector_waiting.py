"""`fstcrf inspect` on its socket: users who went away, slow ones, and an interrupt."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("starlette", reason="the extra fstcrf[inspect] is not installed")
pytest.importorskip("httpx2", reason="httpx2 is not installed: nothing can ask the page")

import uvicorn

from fstcrf.ext.inspect import application, server
from fstcrf.ext.inspect.connections import protocol
from fstcrf.ext.inspect.questions import (
    Asked,
)


class _Asleep:
    """A workbench whose rankings take until they are let go."""

    def __init__(self) -> None:
        self.begun, self.go = 0, threading.Event()

    def rank(self, asked: Asked) -> dict[str, int]:
        self.begun += 1
        self.go.wait(60)
        return {"n": len(asked.question.rows)}


def _request(port: int, rows: int) -> bytes:
    body = json.dumps({"question": {"rows": [["a"]] * rows}}).encode()
    head = (
        f"POST /api/rank HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Type: application/json\r\n"
    )
    return f"{head}Connection: close\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body


@pytest.fixture
def served() -> Iterator[tuple[_Asleep, int]]:
    """A server whose connections may be four, whose headers have a fifth of a second."""
    bench: Any = _Asleep()
    listening = server.bound("127.0.0.1", 0)
    config = uvicorn.Config(application(bench, threads=1), http=protocol(4, 0.2), log_level="error")
    running = uvicorn.Server(config)
    thread = threading.Thread(target=running.run, args=([listening],))
    thread.start()
    yield bench, listening.getsockname()[1]
    bench.go.set()
    running.should_exit = True
    thread.join(30)
    listening.close()
    assert not thread.is_alive()


def test_questions_of_those_who_went_away_are_not_begun(served: tuple[_Asleep, int]) -> None:
    bench, port = served
    for rows in range(1, 9):
        with socket.create_connection(("127.0.0.1", port)) as client:
            client.sendall(_request(port, rows))
            while not bench.begun:
                time.sleep(0.01)
    before = threading.active_count()
    with socket.create_connection(("127.0.0.1", port)) as client:
        client.sendall(_request(port, 77))
        time.sleep(0.3)  # those who went away have been noticed
        assert bench.begun == 1
        assert threading.active_count() == before
        bench.go.set()
        client.settimeout(30)
        assert b'{"n":77}' in b"".join(iter(lambda: client.recv(1000), b""))
    assert bench.begun == 2


def test_slow_headers_are_not_waited_for(served: tuple[_Asleep, int]) -> None:
    bench, port = served
    bench.go.set()
    with ExitStack() as kept:
        slow = [
            kept.enter_context(socket.create_connection(("127.0.0.1", port), timeout=30))
            for _ in range(9)
        ]
        for client in slow:
            client.sendall(b"POST /api/rank HTTP/1.1\r\nHost: ")
        with socket.create_connection(("127.0.0.1", port), timeout=30) as client:
            client.sendall(_request(port, 3))
            assert b'{"n":3}' in b"".join(iter(lambda: client.recv(1000), b""))
        for client in slow:
            with suppress(ConnectionError):
                assert not client.recv(1)  # closed


def test_a_socket_listens_before_it_is_served() -> None:
    with server.bound("127.0.0.1", 0) as listening:
        socket.create_connection(listening.getsockname(), timeout=5).close()


def test_interrupted_while_it_works(tmp_path: Path) -> None:
    """Ctrl-C ends the server, whatever its threads do; whoever waits is told, in one line."""
    program = tmp_path / "serve.py"
    program.write_text(
        "import sys, time\n"
        "from fstcrf.ext.inspect import Access, serve, server\n"
        "class Bench:\n"
        "    def rank(self, asked):\n"
        "        print('begun', flush=True)\n"
        "        time.sleep(600)\n"
        "listening = server.bound('127.0.0.1', 0)\n"
        "print(listening.getsockname()[1], flush=True)\n"
        "try:\n"
        "    serve(Bench(), listening, Access())\n"
        "except KeyboardInterrupt:\n"
        "    sys.exit(130)\n"
    )
    with subprocess.Popen(
        [sys.executable, program], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as running:
        assert running.stdout is not None
        port = int(running.stdout.readline())
        with socket.create_connection(("127.0.0.1", port)) as client:
            client.sendall(_request(port, 1))
            assert running.stdout.readline() == "begun\n"
            running.send_signal(signal.SIGINT)
            try:
                _, said = running.communicate(timeout=30)
            finally:
                running.kill()
            heard = b"".join(iter(lambda: client.recv(1000), b""))
    assert (running.returncode, said) == (130, "")
    assert b" 503 " in heard.splitlines()[0]
    assert b'{"error":"fstcrf inspect has been ended: start it again"}' in heard
