"""The workbench over HTTP: a page, and questions as JSON.

Requests that another site could make a browser send are refused: requests must name a host that the
server was started for, and must have its page as their origin. Only the page's three files are read
from disk; sizes are limited; work ends when the client disconnects.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import hmac
import ipaddress
import logging
import socket
import time
import warnings
from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import dataclass
from functools import partial
from importlib import resources
from typing import Any, TypeAlias, TypeVar
from urllib.parse import quote

import anyio
import msgspec
import uvicorn
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from fstcrf.errors import FstcrfError, InexactWarning, OptionError
from fstcrf.ext.inspect.connections import MOST, protocol
from fstcrf.ext.inspect.questions import Asked, CellAsked, Shown
from fstcrf.ext.inspect.workbench import Workbench
from fstcrf.ext.inspect.workers import Workers

T = TypeVar("T")
_Message: TypeAlias = MutableMapping[str, Any]
_Receive: TypeAlias = Callable[[], Awaitable[_Message]]
_Send: TypeAlias = Callable[[_Message], Awaitable[None]]

MAX_BODY = 4 << 20
"""Bytes that a question may have."""

PATIENCE = 30.0
"""Seconds within which a question must arrive."""

_READ = 64 << 20  # bytes of an oversized question that are read so that the client reads the answer

THREADS = 2
"""Batches of questions that are worked on at one time; the others wait."""

_BATCH, _BATCH_TOKENS = 64, 4_000
_BACKLOG = 2048  # connections that wait

_LOCAL = ("localhost", "127.0.0.1", "[::1]")
_PAGE = {
    "/": ("index.html", "text/html; charset=utf-8"),
    "/inspect.js": ("inspect.js", "text/javascript; charset=utf-8"),
    "/inspect.css": ("inspect.css", "text/css; charset=utf-8"),
}
_HEADERS = {
    b"content-security-policy": b"default-src 'none'; script-src 'self'; style-src 'self'; "
    b"connect-src 'self'; img-src 'self' data:; base-uri 'none'; form-action 'none'; "
    b"frame-ancestors 'none'",
    b"x-content-type-options": b"nosniff",
    b"referrer-policy": b"no-referrer",
    b"cross-origin-opener-policy": b"same-origin",
    b"cross-origin-resource-policy": b"same-origin",
    b"cache-control": b"no-store",
}


@dataclass(frozen=True, slots=True)
class Access:
    """The clients with access.

    Parameters
    ----------
    hosts : tuple of str
        Names that a ``Host`` header may have, with or without a port; ``*`` is any.
    token : str
        The token that every question must send as ``Authorization: Bearer``; an empty one requires
        nothing.
    """

    hosts: tuple[str, ...] = _LOCAL
    token: str = ""

    @classmethod
    def of(cls, host: str, token: str = "") -> Access:
        """Return access for this machine only, or, with a token, for clients that name the host.

        Raises
        ------
        OptionError
            A host that others can reach, and no token; a token that no header can carry.
        """
        if not all(" " < c <= "~" for c in token):
            raise OptionError("--set secret: expected printable ASCII without blanks")
        if _is_local(host):
            return cls(tuple(dict.fromkeys((*_LOCAL, _bracketed(host)))), token)
        if not token:
            raise OptionError(
                f"--set host={host}: other machines can reach it: give --set secret=, a secret "
                "that users must enter"
            )
        everywhere = host in ("0.0.0.0", "::")  # noqa: S104 (somebody asks for it, with a token)
        return cls(("*",) if everywhere else (*_LOCAL, _bracketed(host)), token)

    def serves(self, host: str) -> bool:
        """Return whether the server serves the host of a ``Host`` header."""
        name = host.rsplit(":", 1)[0] if host.rpartition(":")[2].isdecimal() else host
        return "*" in self.hosts or name.lower() in self.hosts

    def knows(self, authorization: str) -> bool:
        """Return whether an ``Authorization`` header contains the token."""
        given = authorization.removeprefix("Bearer ").encode()
        return not self.token or hmac.compare_digest(given, self.token.encode())


def _is_local(host: str) -> bool:
    if host == "localhost":
        return True
    with contextlib.suppress(ValueError):
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    return False


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host and not host.startswith("[") else host.lower()


class _RefusedError(Exception):
    """An answer that is an error: a status and one line."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status, self.message = status, message


# --- What comes before every question -------------------------------------------------------------


class _Guard:
    """ASGI middleware: refuses strangers, limits bodies, adds the headers that protect a page."""

    def __init__(self, inner: Any, access: Access) -> None:
        self._inner, self._access = inner, access
        self._open: set[anyio.CancelScope] = set()

    def end(self) -> None:
        """Stop waiting for answers: open requests receive an error about the end of the server."""
        for scope in self._open:
            scope.cancel()

    async def __call__(self, scope: Any, receive: _Receive, send: _Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            await self._inner(scope, receive, send)
            return
        refused, begun = self._refused(Request(scope)), time.perf_counter()
        answered = False

        async def sending(message: _Message) -> None:
            nonlocal answered
            answered = True
            if message["type"] == "http.response.start":
                spent = f"total;dur={1000 * (time.perf_counter() - begun):.1f}"  # milliseconds
                timing = (b"server-timing", spent.encode())
                message["headers"] = [*message.get("headers", ()), *_HEADERS.items(), timing]
            await send(message)

        target = self._inner if refused is None else _error(refused)
        with anyio.CancelScope() as waiting:
            self._open.add(waiting)
            try:
                await target(scope, receive, sending)
            finally:
                self._open.remove(waiting)
        if waiting.cancelled_caught and not answered:
            ended = _RefusedError(503, "fstcrf inspect has been ended: start it again")
            await _error(ended)(scope, receive, sending)

    def _refused(self, request: Request) -> _RefusedError | None:
        host, origin = request.headers.get("host", ""), request.headers.get("origin")
        if not self._access.serves(host):
            return _RefusedError(421, f"this server is not called {host[:100]!r}")
        if origin is not None and origin not in (f"http://{host}", f"https://{host}"):
            return _RefusedError(
                403, f"requests of {origin[:100]!r} are refused: only its own page asks"
            )
        if request.headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
            return _RefusedError(403, "requests of other sites are refused")
        asks = request.url.path.startswith("/api/")
        if asks and not self._access.knows(request.headers.get("authorization", "")):
            return _RefusedError(
                401, "the token is missing or wrong: open the link that was printed"
            )
        return None


def _error(refused: _RefusedError) -> Response:
    return _json({"error": refused.message}, refused.status)


def _json(value: object, status: int = 200) -> Response:
    return Response(msgspec.json.encode(value), status, media_type="application/json")


# --- Questions ------------------------------------------------------------------------------------


class _Waiting:
    """A question that waits for its answer."""

    def __init__(self, asked: Asked) -> None:
        self.asked, self.woken = asked, anyio.Event()
        self.found: Shown | Exception | None = None


class _Batches:
    """Answers questions that wait at the same time together, which costs little more than one."""

    def __init__(self, bench: Workbench, threads: int) -> None:
        self._bench, self._idle, self._workers = bench, threads, Workers(threads)
        self._waiting: list[_Waiting] = []

    async def answer(self, asked: Asked) -> Shown:
        """Return the answer to a question; one that is given up before its turn is not begun."""
        mine = _Waiting(asked)
        self._waiting.append(mine)
        self._begin()
        try:
            await mine.woken.wait()
        finally:
            if mine in self._waiting:
                self._waiting.remove(mine)
        if isinstance(mine.found, Exception):
            raise mine.found
        assert mine.found is not None  # noqa: S101 (it is set before it is woken)
        return mine.found

    def _begin(self) -> None:
        """Begin with the questions that wait, as many as make a batch, while a thread is idle."""
        while self._idle and self._waiting:
            batch, self._waiting = self._cut()
            self._idle -= 1
            work = partial(self._bench.answers, [waiting.asked for waiting in batch])
            self._workers.begin(work).add_done_callback(partial(self._answered, batch))

    def _cut(self) -> tuple[list[_Waiting], list[_Waiting]]:
        size = 1
        tokens = len(self._waiting[0].asked.question.rows)
        while size < min(len(self._waiting), _BATCH):
            tokens += len(self._waiting[size].asked.question.rows)
            if tokens > _BATCH_TOKENS:
                break
            size += 1
        return self._waiting[:size], self._waiting[size:]

    def _answered(self, batch: list[_Waiting], answer: asyncio.Future[list[Any]]) -> None:
        if answer.cancelled():  # the server ends
            return
        self._idle += 1
        failed = answer.exception()
        found = [failed] * len(batch) if failed is not None else answer.result()
        for waiting, one in zip(batch, found, strict=True):
            waiting.found = one
            waiting.woken.set()
        self._begin()


@dataclass(frozen=True, slots=True)
class _Desk:
    """Takes questions of clients to the workbench, in threads, some at a time."""

    bench: Workbench
    batches: _Batches
    workers: Workers

    async def model(self, request: Request) -> Response:
        return await self._worked(request, self.bench.describe)

    async def answer(self, request: Request) -> Response:
        asked = _decoded(await _body(request), Asked)
        return await _while_there(request, partial(self.batches.answer, asked))

    async def rank(self, request: Request) -> Response:
        asked = _decoded(await _body(request), Asked)
        return await self._worked(request, partial(self.bench.rank, asked))

    async def compare(self, request: Request) -> Response:
        asked = _decoded(await _body(request), Asked)
        return await self._worked(request, partial(self.bench.compare, asked))

    async def judge(self, request: Request) -> Response:
        asked = _decoded(await _body(request), Asked)
        return await self._worked(request, partial(self.bench.judge, asked.question))

    async def explain(self, request: Request) -> Response:
        asked = _decoded(await _body(request), CellAsked)
        return await self._worked(request, partial(self.bench.explain, asked))

    async def sentences(self, request: Request) -> Response:
        first = _number(request.query_params.get("first", "0"))
        return await self._worked(request, partial(self.bench.sentences, first))

    async def sentence(self, request: Request) -> Response:
        number = _number(request.path_params["number"])
        return await self._worked(request, partial(self.bench.opened, number))

    async def _worked(self, request: Request, work: Callable[[], object]) -> Response:
        async def worked() -> object:
            return await self.workers.begin(work)

        return await _while_there(request, worked)


async def _while_there(request: Request, work: Callable[[], Awaitable[object]]) -> Response:
    """Answer unless the client disconnects first: waiting work is then cancelled."""
    found: list[Response] = []
    async with anyio.create_task_group() as group:

        async def watch() -> None:
            while (await request.receive())["type"] != "http.disconnect":
                pass
            group.cancel_scope.cancel()

        group.start_soon(watch)
        try:
            found.append(_json(await work()))
        except FstcrfError as error:
            found.append(_error(_RefusedError(422, str(error))))
        except MemoryError:
            found.append(_error(_RefusedError(507, "out of memory: a shorter text may do")))
        group.cancel_scope.cancel()
    return found[0] if found else Response(status_code=499)


async def _body(request: Request) -> bytes:
    """Return the body of a request, which is not larger than is allowed."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise _RefusedError(415, "questions are application/json")
    announced = _number(request.headers.get("content-length", "0"))
    parts, size = [], 0
    with anyio.move_on_after(PATIENCE):
        if announced <= _READ:
            # a client that is still sending would not read an answer
            async for part in request.stream():
                size += len(part)
                if size > _READ:
                    break
                if size <= MAX_BODY:
                    parts.append(part)
        if max(announced, size) <= MAX_BODY:
            return b"".join(parts)
        raise _RefusedError(
            413, f"more than {MAX_BODY >> 20} MB: paste less text, or tag the file by fstcrf tag"
        )
    raise _RefusedError(408, f"no complete request arrived within {PATIENCE:g} seconds")


def _decoded(body: bytes, kind: type[T]) -> T:
    try:
        return msgspec.json.decode(body, type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise _RefusedError(400, f"not a question: {error}") from None


def _number(text: str) -> int:
    if not (text.isascii() and text.isdecimal()) or len(text) > 12:
        raise _RefusedError(400, f"{text[:20]!r} is no number")
    return int(text)


def _file(name: str, kind: str) -> Callable[[Request], Awaitable[Response]]:
    content = (resources.files("fstcrf.ext.inspect") / "page" / name).read_bytes()

    async def give(request: Request) -> Response:
        del request
        return Response(content, headers={"content-type": kind})

    return give


async def _refused(request: Request, error: Exception) -> Response:
    del request
    assert isinstance(error, _RefusedError)  # noqa: S101 (registered for that)
    return _error(error)


async def _broken(request: Request, error: Exception) -> Response:
    del request  # the server logs details to its standard error
    while isinstance(error, ExceptionGroup):
        error = error.exceptions[0]
    return _json({"error": f"this should not happen: {type(error).__name__}"}, 500)


async def _left(request: Request, error: Exception) -> Response:
    del request, error
    return Response(status_code=499)


class _Server(uvicorn.Server):
    """A server that ends without waiting for open answers."""

    def __init__(self, settings: uvicorn.Config, served: _Guard) -> None:
        super().__init__(settings)
        self._served = served

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)  # of tasks that are cut short
        self._served.end()
        await super().shutdown(sockets)


def application(bench: Workbench, access: Access | None = None, *, threads: int = THREADS) -> Any:
    """Return the ASGI application of a workbench.

    Parameters
    ----------
    bench : Workbench
    access : Access, optional
        The clients with access; by default, only this machine.
    threads : int
        Batches of questions that are worked on at one time.

    Returns
    -------
    callable
        For an ASGI server, such as uvicorn's.
    """
    desk = _Desk(bench, _Batches(bench, threads), Workers(threads))
    routes = [Route(path, _file(*file)) for path, file in _PAGE.items()]
    routes += [
        Route("/api/model", desk.model),
        Route("/api/answer", desk.answer, methods=["POST"]),
        Route("/api/rank", desk.rank, methods=["POST"]),
        Route("/api/compare", desk.compare, methods=["POST"]),
        Route("/api/judge", desk.judge, methods=["POST"]),
        Route("/api/explain", desk.explain, methods=["POST"]),
        Route("/api/sentences", desk.sentences),
        Route("/api/sentences/{number}", desk.sentence),
    ]
    inner = Starlette(
        routes=routes,
        exception_handlers={_RefusedError: _refused, ClientDisconnect: _left, Exception: _broken},
    )
    return _Guard(inner, access or Access())


def bound(host: str, port: int) -> socket.socket:
    """Return a socket that listens; port 0 is any that is free.

    Raises
    ------
    OptionError
        The port is in use or not permitted, or the host is not an address of this machine.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    found = socket.socket(family, socket.SOCK_STREAM)
    found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        found.bind((host.strip("[]"), port))
        found.listen(_BACKLOG)  # clients wait until they are served
    except OSError as error:
        found.close()
        why = error.strerror or str(error)
        if isinstance(error, socket.gaierror) or error.errno == errno.EADDRNOTAVAIL:
            raise OptionError(f"{host}: {why}; --set host is an address of this machine") from None
        raise OptionError(f"{host}:{port}: {why}; choose another --port, or 0 for any") from None
    return found


def serve(
    bench: Workbench, listening: socket.socket, access: Access, *, threads: int = THREADS
) -> None:
    """Serve a workbench until Ctrl-C.

    Parameters
    ----------
    bench : Workbench
    listening : socket.socket
        As `bound` returns it.
    access : Access
    threads : int
        Batches of questions that are worked on at one time.
    """
    served = application(bench, access, threads=threads)
    settings = uvicorn.Config(
        served,
        http=protocol(),
        log_level="error",
        access_log=False,
        timeout_graceful_shutdown=1,
        limit_concurrency=MOST,
        backlog=_BACKLOG,
        server_header=False,
    )
    warnings.simplefilter("ignore", InexactWarning)  # the page shows which answers are not proven
    _Server(settings, served).run(sockets=[listening])


def link(listening: socket.socket, token: str) -> str:
    """Return the address of the page; the page keeps the token and takes it out of the address."""
    host, port = listening.getsockname()[:2]
    query = f"#token={quote(token, safe='')}" if token else ""
    return f"http://{_bracketed(host)}:{port}/{query}"
