"""One artifact from one node to another, whoever dialled.

    giver      offer (piece list)             piece, piece, ... to the end
    receiver                       ask first

Rule 1: the piece list must have the weight digest that the issuer signed, and the size; each piece must have its hash.
Rule 2: before each piece both sides look again whether the artifact is void.
Rule 3: only lack of progress ends a transfer, never its length in time.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from fednode.errors import PeerError, StorageError
from fednode.exchange.desk import Desk
from fednode.exchange.limits import ExchangeLimits
from fednode.exchange.stream import Stream
from fednode.exchange.wire import ask_first, asked_first, offer_message, piece_message, piece_of
from fednode.lineage import Pair
from fednode.manifest import Manifest
from fednode_crypto.digest import PieceList


@dataclass
class Progress:
    """How far a transfer has come, in bytes: `here` of `size`, of which `received` on this stream."""

    here: int = 0
    size: int = 0
    received: int = 0

    def begin(self, pieces: PieceList, missing: Sequence[int]) -> None:
        """Set out from what is here already."""
        self.size = pieces.size
        self.here = pieces.size - sum(map(pieces.length, missing))

    def add(self, count: int) -> None:
        """Bytes of a right piece have come; one that was here already does not count twice."""
        self.received += count
        self.here = min(self.size, self.here + count)


class Transfers:
    """Both sides of the conversation above."""

    def __init__(self, desk: Desk, limits: ExchangeLimits) -> None:
        self._desk = desk
        self._limits = limits

    async def give(self, stream: Stream, pair: Pair) -> None:
        """Send an artifact that the other side asked for. Raises PeerError `not-here` as soon as it is void."""
        desk, idle = self._desk, self._limits.idle
        pieces, kind = _on_offer(desk, pair), _manifest(desk, pair).kind
        await stream.write(offer_message(pair, pieces), idle)
        first = asked_first(await stream.read(idle), pieces)
        for index in range(first, len(pieces.pieces)):
            _on_offer(desk, pair)
            data = _read(desk, pair, index)
            await stream.write(piece_message(index, data), idle)
            desk.count("sent", kind, len(data))

    async def receive(self, stream: Stream, pair: Pair, pieces: PieceList, progress: Progress) -> None:
        """Receive an artifact whose piece list was offered, from the first missing piece on, and make it complete.

        Raises PeerError if the peer sends anything else or stops, and StorageError if our disk can't take it.
        """
        desk, idle = self._desk, self._limits.idle
        kind = _checked(desk, pair, pieces).kind
        partial = desk.partial(pair, pieces)
        missing = partial.missing()
        progress.begin(pieces, missing)
        await stream.write(ask_first(missing, pieces), idle)
        for index in range(missing[0] if missing else len(pieces.pieces), len(pieces.pieces)):
            data = piece_of(await stream.read(idle), index, pieces.length(index))
            desk.count("received", kind, len(data))
            _manifest(desk, pair)
            partial.write(index, data)
            progress.add(len(data))
        partial.finish()


def _checked(desk: Desk, pair: Pair, pieces: PieceList) -> Manifest:
    manifest = _manifest(desk, pair)
    if (pieces.size, pieces.piece_size) != (manifest.weights.size, manifest.weights.piece_size):
        raise PeerError(
            "bad-pieces",
            f"The piece list of {pair.digest[:12]} has {pieces.size} bytes, and its manifest {manifest.weights.size}.",
        )
    return manifest


def _manifest(desk: Desk, pair: Pair) -> Manifest:
    manifest = desk.manifest(pair)
    if manifest is None:
        raise PeerError("not-here", f"Nobody stands behind {pair.digest[:12]} now.")
    return manifest


def _on_offer(desk: Desk, pair: Pair) -> PieceList:
    pieces = desk.pieces(pair)
    if pieces is None:
        raise PeerError("not-here", f"{pair.digest[:12]} is not here, or void.")
    return pieces


def _read(desk: Desk, pair: Pair, index: int) -> bytes:
    try:
        return desk.read_piece(pair, index)
    except StorageError as error:
        desk.blocked(pair, error)
        raise PeerError("not-here", f"{pair.digest[:12]} can't be read here.") from error
