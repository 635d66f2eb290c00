"""Gives peers what they ask for: to those who fetch, and by push to those whom we dialled."""

import asyncio
import logging
from collections.abc import Callable

from fednode.errors import PeerError
from fednode.exchange.desk import Desk
from fednode.exchange.events import Gone
from fednode.exchange.faults import NO_FAULT
from fednode.exchange.limits import ExchangeLimits
from fednode.exchange.stream import Stream
from fednode.exchange.transfer import Transfers
from fednode.exchange.watch import Caller, Session
from fednode.lineage import Pair
from fednode_crypto.identity import PeerId

_LOG = logging.getLogger(__name__)


class Giver:
    """Serves artifacts. `session_of` gives the open watch with a peer."""

    def __init__(self, desk: Desk, limits: ExchangeLimits, session_of: Callable[[PeerId], Session | None]) -> None:
        self._desk = desk
        self._limits = limits
        self._session_of = session_of
        self._transfers = Transfers(desk, limits)
        self._pushes: dict[tuple[PeerId, Pair], asyncio.Task[None]] = {}

    async def give(self, stream: Stream, pair: Pair) -> None:
        """Send an artifact; what is not here is told to the peer as soon as it is. Raises PeerError."""
        try:
            await self._transfers.give(stream, pair)
        except PeerError as error:
            session = self._session_of(stream.peer)
            if error.code == "not-here" and session and len(session.lacks) < self._limits.wants:
                session.lacks.add(pair)
            raise

    def push(self, session: Session, pair: Pair) -> None:
        """Begin to push an artifact to a peer that asked for it. Raises PeerError if that peer can fetch it itself."""
        if session.caller is None:
            raise PeerError("protocol", "A peer that dialled asked for a push.")
        key = (session.peer, pair)
        if key in self._pushes:
            return
        if sum(peer == session.peer for peer, _ in self._pushes) >= self._limits.calls_per_peer:
            session.say(Gone(pair))
            return
        self._pushes[key] = asyncio.create_task(self._push(session, session.caller, pair))
        self._pushes[key].add_done_callback(lambda _: self._pushes.pop(key))

    def kick(self, peer: PeerId) -> None:
        """Stop what is being pushed to a peer."""
        for (other, _), task in self._pushes.items():
            if other == peer:
                task.cancel()

    async def stop(self) -> None:
        """Stop all pushes."""
        tasks = list(self._pushes.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _push(self, session: Session, caller: Caller, pair: Pair) -> None:
        stream = caller.push()
        try:
            with session.used():
                await self.give(stream, pair)
                await stream.finish()
                await stream.read(self._limits.idle)
        except PeerError as error:
            if error.code == "not-here":
                session.say(Gone(pair))
            elif error.code not in NO_FAULT:
                self._desk.refused(session.peer, error)
        except Exception:
            _LOG.exception("A push has failed.")
        finally:
            stream.cancel()
