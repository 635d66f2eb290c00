"""The desk: what the exchange may see and do of this node.

Rule 1: who calls and what is offered is asked of the book at each call, so that a tombstone works at once.
Rule 2: after we left, we serve nothing but the revocation.
"""

import logging
from collections import Counter
from collections.abc import Callable, Sequence

from fednode import core as cores
from fednode.book import News
from fednode.core import Core
from fednode.errors import PeerError, StorageError
from fednode.ledger import Direction, Traffic
from fednode.lineage import Pair
from fednode.manifest import Manifest
from fednode.store import Partial
from fednode_crypto.digest import PieceList
from fednode_crypto.identity import PeerId

log = logging.getLogger("fednode.desk")


class NodeDesk:
    """Answers for the node; `changed` is called whenever there may be something new to do."""

    def __init__(self, core: Core, changed: Callable[[], None]) -> None:
        self._core = core
        self._changed = changed
        self.last_fault: dict[PeerId, str] = {}
        self._block = self._ledger_trouble = ""
        self._counted: Counter[tuple[Direction, Traffic]] = Counter()

    @property
    def trouble(self) -> str:
        """What our own disk hinders now, in words."""
        return self._block or self._ledger_trouble

    def may_call(self, peer: PeerId) -> bool:
        """Whether this peer is listed and in good standing."""
        return peer in self._core.book.good()

    def may_fetch_receipts(self, peer: PeerId) -> bool:
        """Whether this peer may ask for receipts: also one that was revoked."""
        return self.may_call(peer) or peer in self._core.book.tombstones

    def news(self, peer: PeerId) -> Sequence[News]:
        """What this peer should hear first, tombstones first."""
        news = self._core.book.news(peer)
        return [item for item in news if item.kind == "revocation"] if self._core.left else news

    def accept(self, news: News, sender: PeerId) -> bool:
        """Check and keep a statement; True if it is new."""
        new = self._core.book.accept(news)
        if new:
            self._note(f"accepted {news.kind}", peer=sender)
            self._changed()
        return new

    def manifest(self, pair: Pair) -> Manifest | None:
        """The manifest of an artifact on offer."""
        return cores.word(self._core).offers().get(pair)

    def pieces(self, pair: Pair) -> PieceList | None:
        """The piece list of an artifact that is complete here, sound and on offer."""
        if self._core.left or pair not in self._core.store.files() or self.manifest(pair) is None:
            return None
        verdict = self._core.ledger.checks().get(pair)
        return self._core.store.pieces(pair) if verdict is None or verdict.good else None

    def read_piece(self, pair: Pair, index: int) -> bytes:
        """One piece of an artifact that is complete here."""
        return self._core.store.read_piece(pair, index)

    def partial(self, pair: Pair, pieces: PieceList) -> Partial:
        """The download of an artifact, resumed where it was left."""
        return self._core.store.partial(pair, pieces)

    def completed(self, pair: Pair, bytes_received: int, sender: PeerId) -> None:
        """An artifact has become complete."""
        self._note("received", digest=pair.digest, peer=sender, bytes=bytes_received)
        self._block = ""
        self._changed()

    def blocked(self, pair: Pair, error: StorageError) -> None:
        """Our own disk hinders a transfer."""
        log.warning("%s", error)
        self._block = str(error)

    def refused(self, peer: PeerId, error: PeerError) -> None:
        """A peer's fault, for the log and the status."""
        log.warning("%s: %s", self._core.name_of(peer), error)
        self.last_fault[peer] = str(error)
        self._note("refused", peer=peer, code=error.code)

    def count(self, direction: Direction, kind: Traffic, size: int) -> None:
        """Bytes of statements and weights on the wire; `flush` keeps them, since a write for each message would be slow."""
        self._counted[direction, kind] += size

    def flush(self) -> None:
        """Keep the counts of bytes in the ledger; on a full disk they wait for the next time."""
        try:
            with self._core.ledger.transaction("bytes"):
                for (direction, kind), size in self._counted.items():
                    self._core.ledger.count_bytes(direction, kind, size)
        except StorageError as error:
            self._ledger_trouble = str(error)
        else:
            self._ledger_trouble = ""
            self._counted.clear()

    def _note(self, kind: str, **fields: str | float | None) -> None:
        """Add to the history; that the disk is full is no reason to give up what the line is about."""
        try:
            self._core.ledger.record_event(kind, **fields)
        except StorageError as error:
            self._ledger_trouble = str(error)
