"""Where all watches meet: news goes from each to all others, wishes and answers to the fetcher.

Rule 1: news that was new here is passed on to every other watch at once, whoever signed it.
Rule 2: a peer has at most one watch in each direction; a newer one replaces an older one.
Rule 3: nobody dials while the peer's own watch is open; if both dialled at once, the higher peer id ends its own.
"""

import asyncio
import contextlib
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace

from fednode.book import News
from fednode.errors import PeerError
from fednode.exchange.desk import Desk
from fednode.exchange.events import Event, Gone, Have, Send, Want
from fednode.exchange.faults import NO_FAULT
from fednode.exchange.fetcher import Fetcher
from fednode.exchange.giver import Giver
from fednode.exchange.limits import ExchangeLimits
from fednode.exchange.links import Link, Links
from fednode.exchange.stream import Stream
from fednode.exchange.watch import Session
from fednode.exchange.wire import news_size
from fednode.lineage import Pair
from fednode_crypto.identity import PeerId


class Hub:
    """The open watches of the node `me`."""

    def __init__(self, me: PeerId, desk: Desk, limits: ExchangeLimits) -> None:
        self.links = Links()
        self.fetcher = Fetcher(desk, limits, self.session, self._answer_all)
        self.giver = Giver(desk, limits, self.session)
        self._me = me
        self._desk = desk
        self._limits = limits
        self._sessions: dict[PeerId, list[Session]] = {}
        self._changed = asyncio.Event()
        self._stopping = False

    def session(self, peer: PeerId) -> Session | None:
        """The open watch with a peer, one that we dialled first; None if there is none."""
        sessions = [session for session in self._sessions.get(peer, []) if not session.closing]
        return next((session for session in sessions if session.caller), sessions[0] if sessions else None)

    def state(self) -> Mapping[PeerId, Link]:
        """The links with what is being fetched over them."""
        links = self.links.all().items()
        return {peer: replace(link, fetching=self.fetcher.fetching(peer)) for peer, link in links}

    async def watch(self, session: Session, stream: Stream) -> None:
        """Run a watch from its opening to its end. Raises PeerError as `Session.run` does."""
        if self._stopping:
            raise PeerError("cut", "This node stops.")
        self._open(session)
        try:
            await session.run(stream, lambda event: self._hear(session, event), self._said)
        finally:
            self._sessions[session.peer].remove(session)
            self.fetcher.lost(session.peer)
            self._show(session.peer)

    def broadcast(self, news: News, but: PeerId | None = None) -> None:
        """Say news to everybody who watches, except `but`."""
        for peer, sessions in self._sessions.items():
            if peer != but and self._desk.may_call(peer):
                for session in sessions:
                    session.say(news)

    def want(self, pairs: Collection[Pair]) -> None:
        """Replace the wish list, and look again what the peers want that is here now."""
        before = self._wanted()
        self.fetcher.want(pairs)
        if self._wanted() != before:
            for session in self._all():
                session.say(self._wanted())
        self._answer_all()
        self.prune()

    def prune(self) -> None:
        """End the watches of all who take no part any more."""
        for peer in self._sessions:
            if not self._desk.may_call(peer):
                self.kick(peer)
        self.changed()

    def kick(self, peer: PeerId) -> None:
        """End the watches with a peer and what is being pushed to it."""
        for session in self._sessions.get(peer, []):
            session.end(PeerError("not-allowed", "The peer takes no part here any more."))
        self.giver.kick(peer)
        self.changed()

    def changed(self) -> None:
        """Wake everybody who waits for something to be so."""
        self._changed.set()
        self._changed = asyncio.Event()

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait until something is so; looked at whenever something changes."""
        while not condition():
            await self._changed.wait()

    def should_dial(self, peer: PeerId) -> bool:
        """Whether it is on us to open a watch with a peer (Rule 3)."""
        return not self._stopping and self._desk.may_call(peer) and not self._sessions.get(peer)

    def refused(self, peer: PeerId, error: PeerError) -> None:
        """Note what went wrong with a peer; a fault is told to the desk, once for as long as it stays the same."""
        known = self.links.all().get(peer)
        if error.code not in NO_FAULT and (known is None or known.last_error != str(error)):
            self._desk.refused(peer, error)
        self.links.failed(peer, str(error))

    def hear_news(self, peer: PeerId, news: News) -> None:
        """A peer says something that somebody signed."""
        self._desk.count("received", "statement", news_size(news))
        try:
            new = self._desk.accept(news, peer)
        except PeerError as error:
            self._desk.refused(peer, error)
        else:
            if new:
                self.broadcast(news, but=peer)
                self.prune()

    async def close(self, grace: float) -> None:
        """End all: what waits is still said, for at most `grace` seconds."""
        self._stopping = True
        await self.fetcher.stop()
        for session in self._all():
            session.close()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(grace):
                await self.until(lambda: not self._all())
        for session in self._all():
            session.end(PeerError("cut", "This node stops."))
        await self.giver.stop()

    def _all(self) -> list[Session]:
        return [session for sessions in self._sessions.values() for session in sessions]

    def _open(self, session: Session) -> None:
        sessions = self._sessions.setdefault(session.peer, [])
        for other in sessions:
            if bool(other.caller) == bool(session.caller):
                other.end(PeerError("replaced", "The peer has opened another watch."))
            elif self._me > session.peer:
                (session if session.caller else other).close()
        sessions.append(session)
        for news in self._desk.news(session.peer):
            session.say(news)
        session.say(self._wanted())
        self._show(session.peer)

    def _show(self, peer: PeerId) -> None:
        session = self.session(peer)
        self.links.watched(peer, None if session is None else "out" if session.caller else "in")
        self.changed()

    def _said(self, event: Event) -> None:
        if isinstance(event, News):
            self._desk.count("sent", "statement", news_size(event))

    def _hear(self, session: Session, event: Event) -> None:
        match event:
            case News():
                self.hear_news(session.peer, event)
            case Want():
                session.lacks = set(event.pairs)
                self._answer(session)
            case Have():
                self.fetcher.have(session.peer, event.pair)
            case Gone():
                self.fetcher.gone(session.peer, event.pair)
            case Send():
                self.giver.push(session, event.pair)

    def _wanted(self) -> Want:
        return Want(self.fetcher.wishes.pairs()[: self._limits.wants])

    def _answer_all(self) -> None:
        for session in self._all():
            self._answer(session)

    def _answer(self, session: Session) -> None:
        for pair in sorted(session.lacks):
            if self._desk.pieces(pair) is not None:
                session.lacks.discard(pair)
                session.say(Have(pair))
