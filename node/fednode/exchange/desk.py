"""What the exchange needs from the node, and nothing else of it."""

from collections.abc import Sequence
from typing import Literal, Protocol

from fednode.book import News
from fednode.errors import PeerError, StorageError
from fednode.lineage import Pair
from fednode.manifest import Manifest
from fednode_crypto.digest import PieceList
from fednode_crypto.identity import PeerId

Direction = Literal["sent", "received"]
Traffic = Literal["statement", "generator", "classifier", "expert"]


class Partial(Protocol):
    """A download that is not complete."""

    def missing(self) -> list[int]:
        """The pieces that are not here yet, in order."""

    def write(self, index: int, data: bytes) -> None:
        """Keep a piece. Raises PeerError `bad-piece` before a byte that does not match is written."""

    def finish(self) -> None:
        """Make the artifact complete; it survives a crash from here on."""


class Desk(Protocol):
    """The node as its exchange sees it.

    All methods are called on the event loop, one at a time, and return soon. `pieces`, `manifest`, `read_piece`, `partial` and
    `count` are called for each piece, in the middle of a transfer, and must not call the exchange back.
    """

    def may_call(self, peer: PeerId) -> bool:
        """Whether this peer is listed and in good standing; asked for each RPC and each message."""

    def may_fetch_receipts(self, peer: PeerId) -> bool:
        """Whether this peer may ask for revocations and receipts: also one that was revoked."""

    def news(self, peer: PeerId) -> Sequence[News]:
        """What this peer should hear first, tombstones first."""

    def accept(self, news: News, sender: PeerId) -> bool:
        """Check and keep a statement; True if it is new. Raises PeerError if it can't be accepted."""

    def manifest(self, pair: Pair) -> Manifest | None:
        """The manifest of an artifact on offer; None if nobody stands behind it now."""

    def pieces(self, pair: Pair) -> PieceList | None:
        """The piece list of an artifact that is complete here and not void."""

    def read_piece(self, pair: Pair, index: int) -> bytes:
        """One piece of an artifact that is complete here. Raises StorageError if it is damaged."""

    def partial(self, pair: Pair, pieces: PieceList) -> Partial:
        """The download of an artifact, resumed where it was left. Raises PeerError (quota) and StorageError."""

    def completed(self, pair: Pair, bytes_received: int, sender: PeerId) -> None:
        """An artifact has become complete; `sender` gave the last pieces, `bytes_received` of them."""

    def blocked(self, pair: Pair, error: StorageError) -> None:
        """Our own disk hinders a transfer; it is tried again later."""

    def refused(self, peer: PeerId, error: PeerError) -> None:
        """A peer's fault, for the log and the status."""

    def count(self, direction: Direction, kind: Traffic, size: int) -> None:
        """Bytes of statements and weights on the wire."""
