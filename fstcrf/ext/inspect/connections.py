"""Connections to the page's server: slow clients make room for others."""

from __future__ import annotations

import asyncio
from typing import Any, ClassVar

from uvicorn.protocols.http.auto import AutoHTTPProtocol

MOST = 200
"""Connections at one time; a request on one more is refused."""

PATIENCE = 10.0
"""Seconds within which the headers of a request must arrive."""


class Connection(AutoHTTPProtocol):  # type: ignore[misc, valid-type]  # chosen when imported
    """A connection that is closed if its request takes too long.

    Uvicorn gives the first byte after a response five seconds, and the rest of the headers all the
    time there is.
    """

    # the waiting connections of a server, the oldest first
    asking: ClassVar[dict[Connection, None]]
    most: ClassVar[int]
    patience: ClassVar[float]
    _end: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        """Wait for a request."""
        super().connection_made(transport)
        self._note()
        if len(self.asking) > self.most:
            next(iter(self.asking)).transport.abort()

    def data_received(self, data: bytes) -> None:
        """Take a part of a request."""
        super().data_received(data)
        self._note()

    def on_response_complete(self) -> None:
        """Wait for the next request."""
        super().on_response_complete()
        self._note()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop waiting for the request."""
        super().connection_lost(exc)
        self.asking.pop(self, None)
        self._keep()

    def _note(self) -> None:
        """Note whether a request is awaited, and whether its headers are."""
        idle = self.cycle is None or self.cycle.response_complete
        if idle and self._end is None:
            self._end = self.loop.call_later(self.patience, self.transport.abort)
        if not idle:
            self._keep()
        if idle or self.cycle.more_body:
            self.asking.setdefault(self)
        else:
            self.asking.pop(self, None)

    def _keep(self) -> None:
        if self._end is not None:
            self._end.cancel()
            self._end = None


def protocol(most: int = MOST // 2, patience: float = PATIENCE) -> type[Connection]:
    """Return the connections of one server, for uvicorn.

    Parameters
    ----------
    most : int
        Connections at one time that have not sent a whole request; the oldest of more are closed.
    patience : float
        Seconds that headers may take.
    """
    return type("Served", (Connection,), {"asking": {}, "most": most, "patience": patience})
