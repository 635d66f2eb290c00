"""The greeting: whether two nodes fit each other.

Rule 1: another contract is refused, and the message names the field and both values.
Rule 2: the highest protocol version that both speak is used; without one the message names both sides' versions.
Rule 3: another roster or clock only shows in the status.
"""

import time
from collections.abc import Iterable

from fednode.errors import PeerError
from fednode.exchange.events import Greeting
from fednode.exchange.links import Links
from fednode_crypto.digest import digest_json
from fednode_crypto.identity import PeerId

PROTOCOLS = (1,)


class Reception:
    """Says who we are and takes in who a peer is. `software` is the name and version of this program."""

    def __init__(self, me: PeerId, contract: str, software: str, links: Links) -> None:
        self._me = me
        self._contract = contract
        self._software = software
        self._links = links
        self._roster = ""
        self._greeted: set[PeerId] = set()
        self.set_peers(())

    def set_peers(self, peers: Iterable[PeerId]) -> None:
        """Who is listed now; the digest of the roster covers us as well, so that it is equal in a whole federation."""
        self._roster = digest_json("fednode/roster/v1", sorted({*peers, self._me}))

    def greeting(self) -> Greeting:
        """What we say of ourselves now."""
        return Greeting(self._software, PROTOCOLS, self._contract, time.time(), self._roster)

    def greeted(self, peer: PeerId, greeting: Greeting, our_clock: float) -> None:
        """A peer said `greeting` when our clock showed `our_clock`. Raises PeerError (other-contract, other-version)."""
        self._greeted.discard(peer)
        if greeting.contract != self._contract:
            raise PeerError(
                "other-contract",
                f"contract: {greeting.contract} there, {self._contract} here.",
                "Compare the contract in both files peers.yaml.",
            )
        common = set(PROTOCOLS) & set(greeting.protocols)
        if not common:
            raise PeerError(
                "other-version",
                f"protocols: {list(greeting.protocols)} there, {list(PROTOCOLS)} here.",
                "Update the older node.",
            )
        self._greeted.add(peer)
        self._links.greeted(peer, greeting, greeting.clock - our_clock, max(common), self._roster)

    def check(self, peer: PeerId) -> None:
        """Raise PeerError `no-hello` unless this peer has greeted, and fits."""
        if peer not in self._greeted:
            raise PeerError("no-hello", "A peer did not say Hello first.")
