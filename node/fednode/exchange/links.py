"""What is known of the connection to each peer, for the status."""

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

from fednode.exchange.events import Greeting
from fednode.exchange.fetcher import Fetching
from fednode_crypto.identity import PeerId


@dataclass(frozen=True)
class Link:
    """One peer as the exchange sees it. Times are seconds since 1970, and 0 for never.

    `since`: when the state of `connected` began. `skew`: seconds that the peer's clock is ahead, None if unknown.
    `same_roster`: whether it lists the same peers, None if unknown. `last_error` is a sentence, empty once connected.
    """

    address: str | None
    connected: bool = False
    direction: Literal["in", "out"] | None = None
    since: float = 0.0
    last_contact: float = 0.0
    last_error: str = ""
    software: str = ""
    protocol: int = 0
    skew: float | None = None
    same_roster: bool | None = None
    fetching: tuple[Fetching, ...] = ()


class Links:
    """The links to all listed peers."""

    def __init__(self) -> None:
        self._links: dict[PeerId, Link] = {}

    def set_peers(self, peers: Mapping[PeerId, str | None]) -> None:
        """Who is listed now, and where; what is known of those that stay is kept."""
        known = self._links
        self._links = {peer: replace(known.get(peer, Link(None)), address=at) for peer, at in peers.items()}

    def all(self) -> Mapping[PeerId, Link]:
        """Every listed peer's link; an open one is in contact now."""
        now = time.time()
        links = self._links.items()
        return {peer: replace(link, last_contact=now) if link.connected else link for peer, link in links}

    def greeted(self, peer: PeerId, greeting: Greeting, skew: float, protocol: int, roster: str) -> None:
        """A peer has said what it is."""
        self._update(
            peer,
            software=greeting.software,
            protocol=protocol,
            skew=round(skew, 3),
            same_roster=greeting.roster == roster,
            last_contact=time.time(),
        )

    def failed(self, peer: PeerId, sentence: str) -> None:
        """Something went wrong with a peer."""
        self._update(peer, last_error=sentence)

    def watched(self, peer: PeerId, direction: Literal["in", "out"] | None) -> None:
        """The watch with a peer is open in this direction, or (None) not open."""
        link = self._links.get(peer)
        if link is None or link.direction == direction:
            return
        connected = direction is not None
        now = time.time()
        since = link.since if link.connected == connected else now
        error = "" if connected else link.last_error
        self._update(peer, connected=connected, direction=direction, since=since, last_contact=now, last_error=error)

    def _update(self, peer: PeerId, **changes: object) -> None:
        if peer in self._links:
            self._links[peer] = replace(self._links[peer], **changes)  # type: ignore[arg-type]
