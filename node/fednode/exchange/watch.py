"""One open watch: what waits to be said to a peer, and what it says.

Rule 1: saying something never waits; a peer that does not listen loses the watch, and hears all again on the next one.
Rule 2: tombstones overtake everything that waits.
"""

import asyncio
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol

from fednode.book import News
from fednode.errors import PeerError
from fednode.exchange.events import Event
from fednode.exchange.limits import ExchangeLimits
from fednode.exchange.stream import Stream
from fednode.exchange.wire import event_of, watch_message
from fednode.lineage import Pair
from fednode_crypto.identity import PeerId


class Outbox:
    """What waits to be said, bounded by `limit` messages."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._urgent: deque[Event] = deque()
        self._waiting: deque[Event] = deque()
        self._changed = asyncio.Event()
        self._closed = False

    def put(self, event: Event) -> bool:
        """Add an event; False if too many wait already."""
        if len(self._urgent) + len(self._waiting) >= self._limit:
            return False
        urgent = isinstance(event, News) and event.kind == "revocation"
        (self._urgent if urgent else self._waiting).append(event)
        self._changed.set()
        return True

    def close(self) -> None:
        """Nothing more will be said after what waits."""
        self._closed = True
        self._changed.set()

    async def take(self) -> Event | None:
        """The next event; None when all has been said and the outbox is closed."""
        while not self._urgent and not self._waiting:
            if self._closed:
                return None
            self._changed.clear()
            await self._changed.wait()
        return (self._urgent or self._waiting).popleft()


class Caller(Protocol):
    """What only the dialling side has: RPCs for transfers on the same connection."""

    def fetch(self) -> Stream:
        """Open a Fetch."""

    def push(self) -> Stream:
        """Open a Push."""


class Session:
    """A watch with `peer`; `caller` is there if we dialled."""

    def __init__(self, peer: PeerId, limits: ExchangeLimits, caller: Caller | None = None) -> None:
        self.peer = peer
        self.caller = caller
        self.closing = False
        self.lacks: set[Pair] = set()  # what the peer wants and we have not answered
        self._limits = limits
        self._begun: float | None = None
        self._uses = 0
        self._unused = asyncio.Event()
        self._outbox = Outbox(limits.outbox)
        self._broken: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def say(self, event: Event) -> None:
        """Say something as soon as the connection takes it."""
        if not self._outbox.put(event):
            self.end(PeerError("stalled", "The peer does not take what is said to it."))

    def close(self) -> None:
        """End the watch after what waits has been said."""
        self.closing = True
        self._outbox.close()

    def end(self, error: PeerError) -> None:
        """End the watch at once, because of `error`."""
        self.closing = True
        if not self._broken.done():
            self._broken.set_exception(error)
            self._broken.exception()  # seen, also if nobody runs this session any more

    def seconds(self) -> float:
        """How long ago the watch was opened; 0 if it never was."""
        return 0.0 if self._begun is None else time.monotonic() - self._begun

    @contextmanager
    def used(self) -> Iterator[None]:
        """A transfer goes over this connection."""
        self._uses += 1
        self._unused.clear()
        try:
            yield
        finally:
            self._uses -= 1
            if not self._uses:
                self._unused.set()

    async def unused(self) -> None:
        """Wait for the transfers that were begun."""
        if self._uses:
            await self._unused.wait()

    async def run(self, stream: Stream, hear: Callable[[Event], None], said: Callable[[Event], None]) -> None:
        """Talk and listen until one side closes the watch.

        `hear` gets what the peer says, `said` what has been sent. Raises PeerError if the watch breaks or ends by `end`, and
        whatever `hear` raises.
        """
        self._begun = time.monotonic()
        talk = asyncio.create_task(self._talk(stream, said))
        listen = asyncio.create_task(self._listen(stream, hear))
        try:
            await asyncio.wait({talk, listen, self._broken}, return_when=asyncio.FIRST_COMPLETED)
            if talk.done() and not talk.exception() and self.caller:
                await stream.finish()
                last = {listen, self._broken}
                await asyncio.wait(last, timeout=self._limits.hello, return_when=asyncio.FIRST_COMPLETED)
            for part in (self._broken, listen, talk):
                if part.done():
                    part.result()
        finally:
            for task in (talk, listen):
                task.cancel()
            await asyncio.gather(talk, listen, return_exceptions=True)

    async def _talk(self, stream: Stream, said: Callable[[Event], None]) -> None:
        while (event := await self._outbox.take()) is not None:
            await stream.write(watch_message(event))
            said(event)

    async def _listen(self, stream: Stream, hear: Callable[[Event], None]) -> None:
        while (message := await stream.read()) is not None:
            event = event_of(message, self._limits)
            if event is not None:
                hear(event)
