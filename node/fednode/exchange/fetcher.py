"""Gets what this node lacks, over whatever connection there is.

Rule 1: over a connection that we dialled we Fetch; over one that the peer dialled we ask it to Push.
Rule 2: a push that nobody asked for is refused.
Rule 3: what is not wanted any more stops at once.
"""

import asyncio
import logging
from collections.abc import Callable, Collection
from dataclasses import dataclass

from fednode.errors import PeerError, StorageError
from fednode.exchange.conversation import Wishes
from fednode.exchange.desk import Desk
from fednode.exchange.events import Send
from fednode.exchange.faults import NO_FAULT, short
from fednode.exchange.limits import ExchangeLimits
from fednode.exchange.stream import Stream
from fednode.exchange.transfer import Progress, Transfers
from fednode.exchange.watch import Caller, Session
from fednode.exchange.wire import ask_artifact, offered
from fednode.lineage import Pair
from fednode_crypto.digest import PieceList
from fednode_crypto.identity import PeerId

_LOG = logging.getLogger(__name__)
_WRONG_BYTES = frozenset({"bad-piece", "bad-pieces", "protocol", "quota"})


@dataclass(frozen=True)
class Fetching:
    """A fetch under way: bytes here and in all (0 until the peer has said it)."""

    pair: Pair
    here: int
    size: int


@dataclass
class Pushed:
    """A push that has come, and the promise to its RPC that it may end."""

    stream: Stream
    pieces: PieceList
    served: asyncio.Future[PeerError | None]


@dataclass(frozen=True)
class Run:
    """A fetch that runs now."""

    task: asyncio.Task[None]
    progress: Progress


class Fetcher:
    """Runs the fetches that `Wishes` chooses.

    `session_of` gives the open watch with a peer, dialled ones first; `arrived` is called when an artifact has become complete.
    """

    def __init__(
        self,
        desk: Desk,
        limits: ExchangeLimits,
        session_of: Callable[[PeerId], Session | None],
        arrived: Callable[[], None],
    ) -> None:
        self.wishes = Wishes(limits)
        self._desk = desk
        self._limits = limits
        self._session_of = session_of
        self._arrived = arrived
        self._transfers = Transfers(desk, limits)
        self._runs: dict[Pair, Run] = {}
        self._awaited: dict[tuple[PeerId, Pair], asyncio.Future[Pushed | PeerError]] = {}
        self._alarm: asyncio.TimerHandle | None = None

    def want(self, pairs: Collection[Pair]) -> None:
        """Replace the wish list; fetches of what is on it no more are stopped."""
        for pair in self.wishes.want(pairs):
            self._runs.pop(pair).task.cancel()
            self._awaited = {key: awaited for key, awaited in self._awaited.items() if key[1] != pair}
        self.pump()

    def have(self, peer: PeerId, pair: Pair) -> None:
        """A peer holds an artifact."""
        self.wishes.have(peer, pair)
        self.pump()

    def gone(self, peer: PeerId, pair: Pair) -> None:
        """A peer does not hold an artifact any more, or will not push it."""
        self.wishes.gone(peer, pair)
        error = PeerError("not-here", f"{short(peer)} does not hold {pair.digest[:12]} now.")
        self._answer(peer, pair, error)

    def lost(self, peer: PeerId) -> None:
        """A watch with a peer has ended: if it was the last, nothing can be fetched from it."""
        if self._session_of(peer) is None:
            self.wishes.lost(peer)
        for other, pair in list(self._awaited):
            if other == peer:
                self._answer(peer, pair, PeerError("cut", f"The connection to {short(peer)} was cut."))

    def fetching(self, peer: PeerId) -> tuple[Fetching, ...]:
        """What is being fetched from a peer."""
        mine = sorted(pair for pair, giver in self.wishes.fetching().items() if giver == peer)
        progress = [(pair, self._runs[pair].progress) for pair in mine]
        return tuple(Fetching(pair, state.here, state.size) for pair, state in progress)

    async def pushed(self, stream: Stream) -> None:
        """A peer pushes: hand the stream to the fetch that waits for it, until that has ended. Raises PeerError."""
        pair, pieces = offered(await stream.read(self._limits.idle))
        served: asyncio.Future[PeerError | None] = asyncio.get_running_loop().create_future()
        if not self._answer(stream.peer, pair, Pushed(stream, pieces, served)):
            raise PeerError("not-asked", f"{short(stream.peer)} pushed what it was not asked for.")
        self._runs[pair].task.add_done_callback(lambda _: _let_go(served, None))
        if error := await served:
            raise error

    async def stop(self) -> None:
        """Stop all fetches and begin no more."""
        tasks = [run.task for run in self._runs.values()]
        self.want(())
        await asyncio.gather(*tasks, return_exceptions=True)

    def pump(self) -> None:
        """Begin what can begin now, and come back when more can."""
        loop = asyncio.get_running_loop()
        while chosen := self.wishes.next(loop.time()):
            pair, peer = chosen
            progress = Progress()
            self._runs[pair] = Run(loop.create_task(self._fetch(pair, peer, progress)), progress)
        if self._alarm:
            self._alarm.cancel()
        wake = self.wishes.wake()
        self._alarm = loop.call_at(wake, self.pump) if wake is not None else None

    async def _fetch(self, pair: Pair, peer: PeerId, progress: Progress) -> None:
        try:
            await self._receive(pair, peer, progress)
        except PeerError as error:
            self._failed(pair, progress, fault=error.code in _WRONG_BYTES)
            if error.code == "not-here":
                self.wishes.gone(peer, pair)
            if error.code not in NO_FAULT:
                self._desk.refused(peer, _with_counts(error, progress))
        except StorageError as error:
            self._failed(pair, progress, fault=True)
            self._desk.blocked(pair, error)
        except Exception:
            _LOG.exception("A fetch has failed.")
            self._failed(pair, progress, fault=True)
        else:
            del self._runs[pair]
            self.wishes.completed(pair)
            self._desk.completed(pair, progress.received, peer)
            self._arrived()
        self.pump()

    def _failed(self, pair: Pair, progress: Progress, fault: bool) -> None:
        del self._runs[pair]
        now = asyncio.get_running_loop().time()
        self.wishes.failed(pair, now, progressed=progress.received > 0, fault=fault)

    def _answer(self, peer: PeerId, pair: Pair, answer: Pushed | PeerError) -> bool:
        """Tell the fetch that waits for a push; False if there is none."""
        awaited = self._awaited.pop((peer, pair), None)
        if awaited is None or awaited.done():
            return False
        awaited.set_result(answer)
        return True

    async def _receive(self, pair: Pair, peer: PeerId, progress: Progress) -> None:
        session = self._session_of(peer)
        if session is None:
            raise PeerError("cut", f"There is no connection to {short(peer)}.")
        if session.caller:
            with session.used():
                await self._fetched(session.caller, pair, progress)
        else:
            await self._asked(session, pair, progress)

    async def _fetched(self, caller: Caller, pair: Pair, progress: Progress) -> None:
        stream = caller.fetch()
        try:
            await stream.write(ask_artifact(pair), self._limits.idle)
            offer, pieces = offered(await stream.read(self._limits.idle))
            if offer != pair:
                raise PeerError("protocol", f"{short(stream.peer)} offers another artifact than was asked for.")
            await self._transfers.receive(stream, pair, pieces, progress)
        finally:
            stream.cancel()

    async def _asked(self, session: Session, pair: Pair, progress: Progress) -> None:
        awaited: asyncio.Future[Pushed | PeerError] = asyncio.get_running_loop().create_future()
        self._awaited[session.peer, pair] = awaited
        session.say(Send(pair))
        try:
            async with asyncio.timeout(self._limits.idle):
                pushed = await awaited
        except TimeoutError:
            raise PeerError("stalled", f"{short(session.peer)} did not push {pair.digest[:12]}.") from None
        finally:
            if self._awaited.get((session.peer, pair)) is awaited:
                del self._awaited[session.peer, pair]
        if isinstance(pushed, PeerError):
            raise pushed
        await self._served(pushed, pair, progress)

    async def _served(self, pushed: Pushed, pair: Pair, progress: Progress) -> None:
        outcome: PeerError | None = PeerError("not-here", f"{pair.digest[:12]} is not wanted any more.")
        try:
            await self._transfers.receive(pushed.stream, pair, pushed.pieces, progress)
            outcome = None
        except PeerError as error:
            outcome = error
            raise
        finally:
            _let_go(pushed.served, outcome)


def _let_go(served: asyncio.Future[PeerError | None], outcome: PeerError | None) -> None:
    """Let the RPC of a push end, if it has not been let go before."""
    if not served.done():
        served.set_result(outcome)


def _with_counts(error: PeerError, progress: Progress) -> PeerError:
    if not progress.size:
        return error
    return PeerError(error.code, f"{error.message} {progress.here} of {progress.size} bytes are here.", error.hint)
