"""Keys and anchors as gRPC takes them.

Rule 1: our leaf lives in memory and is minted anew daily; a connection made before keeps the one it was made with.
Rule 2: gRPC asks for our certificates in a thread of its own and trusts everybody if that raises: so everything is made
        beforehand, and it gets a finished object, or None while nothing has changed.
Rule 3: gRPC frees what it held when it gets a new object, without asking whether a handshake in another thread has begun to
        read it; a flood of handshakes crashed the process so. It lets nobody begin while it asks: so a new object is
        handed over only after HANDOVER seconds, by when those who had begun have long finished reading.
Rule 4: TLS lets in whom we list, revoked or not; who may say what is decided behind it, for each call.
"""

import time
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

import grpc

from fednode_crypto.certificate import leaf_issuer, make_anchor, mint_leaf
from fednode_crypto.identity import Identity, PeerId

HANDOVER = 0.3


class Trust:
    """Our leaf and the anchors of the listed peers."""

    def __init__(self, identity: Identity) -> None:
        self._identity = identity
        self._leaf = mint_leaf(identity, datetime.now(UTC))
        self._anchors: dict[PeerId, bytes] = {}
        self._callers: dict[bytes, PeerId] = {}
        # An empty set of anchors would mean the system's; nobody else has our key, and we do not list ourselves.
        self._own_anchor = make_anchor(identity.peer_id)
        self._current = self._handed = self._configuration()

    def set_peers(self, peers: Iterable[PeerId]) -> None:
        """Whom TLS lets in from now on."""
        self._anchors = {peer: self._anchors.get(peer) or make_anchor(peer) for peer in peers}
        self._callers.clear()
        self._current = self._configuration()

    def renew(self) -> None:
        """Mint a new leaf."""
        self._leaf = mint_leaf(self._identity, datetime.now(UTC))
        self._current = self._configuration()

    def server_credentials(self) -> grpc.ServerCredentials:
        """Credentials that follow `set_peers` and `renew`."""
        self._handed = self._current
        fetch: Any = self._fetch  # the stubs leave out that it may give None
        return grpc.dynamic_ssl_server_credentials(self._current, fetch, True)

    def channel_credentials(self, peer: PeerId) -> grpc.ChannelCredentials:
        """Credentials with which only this peer is accepted as the one who answers."""
        return grpc.ssl_channel_credentials(make_anchor(peer), self._leaf.key_pem, self._leaf.certificate_pem)

    def caller(self, leaf_pem: bytes) -> PeerId | None:
        """The listed peer whose key has signed a caller's leaf; no name in the leaf is looked at."""
        if leaf_pem not in self._callers:
            peer = leaf_issuer(leaf_pem, self._anchors)
            if peer is None:
                return None
            if len(self._callers) >= 1024:
                self._callers.clear()
            self._callers[leaf_pem] = peer
        return self._callers[leaf_pem]

    def _fetch(self) -> grpc.ServerCertificateConfiguration | None:
        """Rules 2 and 3; in a thread of gRPC's, one call at a time."""
        current = self._current
        if current is self._handed:
            return None
        time.sleep(HANDOVER)
        self._handed = current
        return current

    def _configuration(self) -> grpc.ServerCertificateConfiguration:
        pair = (self._leaf.key_pem, self._leaf.certificate_pem)
        anchors = b"".join([self._own_anchor, *self._anchors.values()])
        return grpc.ssl_server_certificate_configuration([pair], anchors)
