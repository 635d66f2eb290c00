"""The roster: the listed peers and their standing.

Rule 1: a tombstone is stronger than peers.yaml, than a suspension and than evidence; nothing lifts it.
Rule 2: in good standing is who is listed, or is us, and is neither tombstoned, quarantined nor suspended.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from fednode.revocation import Voters, tombstones
from fednode_crypto.identity import PeerId


class Standing(StrEnum):
    """Where a peer stands with us; `present` is a listed peer that we have contact with."""

    LISTED = "listed"
    PRESENT = "present"
    SUSPENDED = "suspended"
    QUARANTINED = "quarantined"
    REVOKED = "revoked"
    RETIRED = "retired"
    UNLISTED = "unlisted"


@dataclass(frozen=True)
class Roster:
    """Who is listed, was ever listed, and stands badly. `listed` and `ever_listed` leave us out."""

    me: PeerId
    listed: frozenset[PeerId] = frozenset()
    ever_listed: frozenset[PeerId] = frozenset()
    tombstones: frozenset[PeerId] = frozenset()
    suspended: frozenset[PeerId] = frozenset()
    quarantined: frozenset[PeerId] = frozenset()

    @property
    def members(self) -> frozenset[PeerId]:
        """The listed peers and us, whatever their standing."""
        return self.listed | {self.me}

    @property
    def known(self) -> frozenset[PeerId]:
        """Everyone whose vote counts: all that were ever listed, and us."""
        return self.members | self.ever_listed

    @property
    def good(self) -> frozenset[PeerId]:
        """Those in good standing."""
        return self.members - self.tombstones - self.suspended - self.quarantined

    def standing(self, peer: PeerId) -> Standing:
        """Where `peer` stands; `present` is not told here, since it takes a connection."""
        if peer in self.tombstones:
            return Standing.REVOKED
        if peer in self.quarantined:
            return Standing.QUARANTINED
        if peer in self.suspended:
            return Standing.SUSPENDED
        return Standing.LISTED if peer in self.members else Standing.UNLISTED

    def bound(self, votes: Mapping[PeerId, frozenset[PeerId]], quorum: int) -> frozenset[PeerId]:
        """All tombstones after `votes` (subject -> signers): those there are, for ever, and those that bind now."""
        return tombstones(votes, Voters(self.me, self.listed, self.ever_listed), quorum, self.tombstones)
