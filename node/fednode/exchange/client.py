"""Dials one peer, for as long as it is listed: Hello, then the watch, and again after a pause.

Rule 1: pauses grow from one failure to the next and are a little random, so that nodes do not dial in step.
Rule 2: a peer that does not let us take part is asked for what it may still tell us: why, and its receipts.
"""

import asyncio
import logging
import random
import time

from grpc.aio import AioRpcError

from fednode.errors import FednodeError, PeerError
from fednode.exchange.channels import Line
from fednode.exchange.conversation import pause
from fednode.exchange.desk import Desk
from fednode.exchange.faults import fault_of
from fednode.exchange.hello import Reception
from fednode.exchange.hub import Hub
from fednode.exchange.limits import ExchangeLimits
from fednode.exchange.trust import Trust
from fednode.exchange.watch import Session
from fednode.exchange.wire import greeting_message, greeting_of, news_of
from fednode_crypto.identity import PeerId

_LOG = logging.getLogger(__name__)
_STEADY = 5.0  # a watch that held for so many seconds was no failure


class Dialler:
    """What all dials share."""

    def __init__(self, reception: Reception, hub: Hub, trust: Trust, desk: Desk, limits: ExchangeLimits) -> None:
        self._reception = reception
        self._hub = hub
        self._trust = trust
        self._desk = desk
        self._limits = limits
        self._random = random.SystemRandom()

    async def keep(self, peer: PeerId, address: str) -> None:
        """Keep a watch with the peer at `address` open, until cancelled."""
        failures = 0
        while True:
            await self._hub.until(lambda: self._hub.should_dial(peer))
            held = await self._try(peer, address)
            failures = 0 if held > _STEADY else failures + 1
            await asyncio.sleep(pause(failures, self._limits) * self._random.uniform(0.5, 1.0))

    async def _try(self, peer: PeerId, address: str) -> float:
        """One connection from its beginning to its end; the seconds that the watch held. What goes wrong is noted."""
        line = Line(peer, address, self._trust, self._limits, self._desk.may_call)
        session = Session(peer, self._limits, line)
        try:
            async with line:
                await self._dial(line, session, address)
        except PeerError as error:
            self._hub.refused(peer, error)
        except FednodeError as error:
            _LOG.warning("The watch with %s has ended: %s", peer, error)
        except Exception:
            _LOG.exception("The watch with %s has failed.", peer)
        return session.seconds()

    async def _dial(self, line: Line, session: Session, address: str) -> None:
        peer = session.peer
        try:
            await self._hello(line, peer, address)
            stream = line.watch()
            await stream.opened(self._limits.hello)
            await self._hub.watch(session, stream)
            await session.unused()
        except PeerError as error:
            if error.code == "barred" and self._desk.may_call(peer):
                await self._receipts(line, peer)
            raise

    async def _hello(self, line: Line, peer: PeerId, address: str) -> None:
        before = time.time()
        try:
            reply = await line.hello(greeting_message(self._reception.greeting()), self._limits.hello)
        except AioRpcError as error:
            raise fault_of(error, peer, address) from None
        self._reception.greeted(peer, greeting_of(reply), (before + time.time()) / 2)

    async def _receipts(self, line: Line, peer: PeerId) -> None:
        stream = line.receipts()
        try:
            while (message := await stream.read(self._limits.idle)) is not None:
                news = news_of(message, self._limits)
                if news is not None:
                    self._hub.hear_news(peer, news)
        finally:
            stream.cancel()
