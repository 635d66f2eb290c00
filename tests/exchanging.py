"""A node in memory, for tests of the exchange over real sockets: what it holds, whom it lets in, and what it was told."""

import asyncio
import functools
import io
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import AsyncExitStack, asynccontextmanager

from fednode.architecture import GeneratorArchitecture
from fednode.book import News
from fednode.contract import ImageShape
from fednode.errors import PeerError, StorageError
from fednode.exchange.exchange import Exchange
from fednode.exchange.limits import ExchangeLimits
from fednode.lineage import Pair
from fednode.manifest import Audit, LabelCount, Manifest, Numerics, Weights
from fednode_crypto.digest import PieceList, piece_hash, piece_list
from fednode_crypto.identity import Identity, PeerId

CONTRACT = "c" * 64
LOCAL = "127.0.0.1:0"
LIMITS = ExchangeLimits(hello=5, idle=5, handshake=2, first_pause=0.05, last_pause=0.5)


def asynchronous(test: Callable[..., Awaitable[None]]) -> Callable[..., None]:
    """Run a test for 60 seconds at most and end the tasks that it left; any error that nobody handled fails it.

    All tests share one event loop, as all calls of a daemon do: grpc's poller is one for the process, and an event
    of its own that comes after a test's end would find that test's loop closed.
    """

    @functools.wraps(test)
    def run(*args: object, **named: object) -> None:
        unhandled: list[dict[str, object]] = []

        async def bounded() -> None:
            asyncio.get_running_loop().set_exception_handler(lambda _, context: unhandled.append(context))
            try:
                async with asyncio.timeout(60):
                    await test(*args, **named)
            finally:
                left = asyncio.all_tasks() - {asyncio.current_task()}
                for task in left:
                    task.cancel()
                await asyncio.gather(*left, return_exceptions=True)

        _shared_runner().run(bounded())
        assert not unhandled, unhandled

    return run


@functools.cache
def _shared_runner() -> asyncio.Runner:
    return asyncio.Runner()


async def until(condition: Callable[[], object]) -> None:
    """Wait until something is so."""
    while not condition():
        await asyncio.sleep(0.01)


def weights(size: int, seed: int = 0) -> bytes:
    """Some bytes that differ from piece to piece."""
    block = bytes((seed + index * 7 + (index >> 8)) % 256 for index in range(4099))
    return (block * (size // len(block) + 1))[:size]


def generator_of(issuer: PeerId, data: bytes) -> tuple[Manifest, PieceList]:
    """The manifest and the piece list of a generator whose weights are `data`."""
    pieces = piece_list(io.BytesIO(data))
    manifest = Manifest(
        contract=CONTRACT,
        created=1_700_000_000,
        issuer=issuer,
        kind="generator",
        architecture=GeneratorArchitecture(image=ImageShape(size=8, channels=1), channels=(8,), blocks=1),
        recipe="e" * 64,
        labels=(LabelCount(label="zero", images=10),),
        lineage=(),
        weights=Weights(digest=pieces.digest, size=pieces.size, piece_size=pieces.piece_size),
        numerics=Numerics(device="cpu", threads=1, dtype="float32", torch="2.14.1", deterministic=True),
        audit=Audit(digest="a" * 64, passed=True, override=None),
        dp=None,
    )
    return manifest, pieces


class MemoryPartial:
    """A download in memory."""

    def __init__(self, desk: "MemoryDesk", pair: Pair, pieces: PieceList) -> None:
        self._desk, self._pair, self._pieces = desk, pair, pieces
        self._here = desk.downloads.setdefault(pair, {})

    def missing(self) -> list[int]:
        return [index for index in range(len(self._pieces.pieces)) if index not in self._here]

    def write(self, index: int, data: bytes) -> None:
        if piece_hash(data) != self._pieces.pieces[index]:
            raise PeerError("bad-piece", f"Piece {index} does not match its hash.")
        if self._desk.full:
            raise StorageError("The disk has no room.")
        self._here[index] = data
        self._desk.written.append(index)

    def finish(self) -> None:
        assert not self.missing()
        self._desk.files[self._pair] = b"".join(data for _, data in sorted(self._here.items()))


class MemoryDesk:
    """A node in memory. A statement is accepted unless its envelope begins with `bad`."""

    def __init__(self) -> None:
        self.listed: set[PeerId] = set()
        self.receipts_for: set[PeerId] = set()
        self.known: list[News] = []
        self.heard: list[tuple[News, PeerId]] = []
        self.manifests: dict[Pair, Manifest] = {}
        self.lists: dict[Pair, PieceList] = {}
        self.files: dict[Pair, bytes] = {}
        self.downloads: dict[Pair, dict[int, bytes]] = {}
        self.written: list[int] = []
        self.arrivals: list[tuple[Pair, int, PeerId]] = []
        self.faults: list[tuple[PeerId, PeerError]] = []
        self.blocks: list[tuple[Pair, StorageError]] = []
        self.counted: dict[tuple[str, str], int] = {}
        self.full = False
        self.read: Callable[[Pair, int], bytes | None] = lambda pair, index: None

    def offer(self, issuer: PeerId, data: bytes) -> Pair:
        """Know a generator, whose weights are not here."""
        manifest, pieces = generator_of(issuer, data)
        self.manifests[manifest.pair] = manifest
        self.lists[manifest.pair] = pieces
        return manifest.pair

    def hold(self, issuer: PeerId, data: bytes) -> Pair:
        """Know a generator whose weights are here."""
        pair = self.offer(issuer, data)
        self.files[pair] = data
        return pair

    def void(self, pair: Pair) -> None:
        """Nobody stands behind a generator any more, and its bytes are gone."""
        del self.manifests[pair]
        self.files.pop(pair, None)
        self.downloads.pop(pair, None)

    def may_call(self, peer: PeerId) -> bool:
        return peer in self.listed

    def may_fetch_receipts(self, peer: PeerId) -> bool:
        return peer in self.listed | self.receipts_for

    def news(self, peer: PeerId) -> list[News]:
        return sorted(self.known, key=lambda news: news.kind != "revocation")

    def accept(self, news: News, sender: PeerId) -> bool:
        self.heard.append((news, sender))
        if news.envelope.startswith(b"bad"):
            raise PeerError("bad-statement", "It can't be accepted.")
        if news in self.known:
            return False
        self.known.append(news)
        return True

    def manifest(self, pair: Pair) -> Manifest | None:
        return self.manifests.get(pair)

    def pieces(self, pair: Pair) -> PieceList | None:
        return self.lists[pair] if pair in self.files and pair in self.manifests else None

    def read_piece(self, pair: Pair, index: int) -> bytes:
        start = index * self.lists[pair].piece_size
        right = self.files[pair][start : start + self.lists[pair].length(index)]
        return self.read(pair, index) or right

    def partial(self, pair: Pair, pieces: PieceList) -> MemoryPartial:
        return MemoryPartial(self, pair, pieces)

    def completed(self, pair: Pair, bytes_received: int, sender: PeerId) -> None:
        self.arrivals.append((pair, bytes_received, sender))

    def blocked(self, pair: Pair, error: StorageError) -> None:
        self.blocks.append((pair, error))

    def refused(self, peer: PeerId, error: PeerError) -> None:
        self.faults.append((peer, error))

    def count(self, direction: str, kind: str, size: int) -> None:
        self.counted[direction, kind] = self.counted.get((direction, kind), 0) + size


class Node:
    """An identity, its desk and its exchange."""

    def __init__(self, limits: ExchangeLimits = LIMITS, contract: str = CONTRACT) -> None:
        self.identity = Identity.generate()
        self.id = self.identity.peer_id
        self.desk = MemoryDesk()
        self.exchange = Exchange(self.identity, contract, self.desk, limits)
        self.address: str | None = None

    async def listen(self) -> None:
        self.address = f"127.0.0.1:{await self.exchange.start(LOCAL)}"

    async def knows(self, *dialled: "Node", lists: Iterable["Node"] = ()) -> None:
        """List these nodes, and dial the first ones."""
        self.desk.listed |= {node.id for node in (*dialled, *lists)}
        peers: dict[PeerId, str | None] = dict.fromkeys(self.desk.listed)
        await self.exchange.set_peers(peers | {node.id: node.address for node in dialled})

    def linked(self, other: "Node") -> bool:
        return self.exchange.links()[other.id].connected


@asynccontextmanager
async def nodes(count: int, limits: ExchangeLimits = LIMITS) -> AsyncIterator[list[Node]]:
    """Listening nodes that know nobody yet, in the order of their ids."""
    async with AsyncExitStack() as stack:
        made = sorted((Node(limits) for _ in range(count)), key=lambda node: node.id)
        for node in made:
            await node.listen()
            stack.push_async_callback(node.exchange.stop, 1.0)
        yield made
