"""Revocation, rotation and receipt, and the pure rules of when a revocation binds everywhere.

Rule 1: the subject's own signature binds at once: it leaves.
Rule 2: otherwise a quorum of the electorate binds; the electorate is the listed keys and our own, without the subject and
        without tombstoned keys.
Rule 3: votes of keys that were ever listed count for ever, in whatever order they came.
Rule 4: tombstones only grow; they match the issuer, never a digest alone.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, ClassVar, Self

from pydantic import Field, model_validator

from fednode.lineage import Pair
from fednode.statement import Digest, PeerIdText, Reason, Statement
from fednode_crypto.identity import PeerId

MAX_REVOKED = 64
MAX_ERASED = 300  # so that a receipt stays within the limit of an envelope
MAX_REBUILT = 16


class Revocation(Statement):
    """A vote, or the subject's own word, that `subject` takes part no more. Whoever signed the envelope votes."""

    KIND: ClassVar[str] = "revocation"

    subject: PeerIdText
    reason: Reason


class Rotation(Statement):
    """The old key hands over to the new one; valid only if signed by both."""

    KIND: ClassVar[str] = "rotation"

    old: PeerIdText
    new: PeerIdText

    @model_validator(mode="after")
    def _differ(self) -> Self:
        if self.old == self.new:
            raise ValueError("a rotation names two different keys")
        return self


class Receipt(Statement):
    """A node's signed word on what became void, what it erased because of that, and the experts it rebuilt."""

    KIND: ClassVar[str] = "receipt"

    issuer: PeerIdText
    revoked: Annotated[tuple[PeerIdText, ...], Field(max_length=MAX_REVOKED)]
    erased: Annotated[tuple[Pair, ...], Field(max_length=MAX_ERASED)]
    rebuilt: Annotated[tuple[Digest, ...], Field(max_length=MAX_REBUILT)]


@dataclass(frozen=True)
class Voters:
    """Who may vote here: the keys listed now, those ever listed, and our own."""

    me: PeerId
    listed: frozenset[PeerId]
    ever_listed: frozenset[PeerId]


def quorum_size(agreed: int, electorate: int) -> int:
    """Votes needed: what the contract agreed, or (0) a majority of the electorate and at least 2."""
    return agreed or max(2, electorate // 2 + 1)


def tombstones(
    votes: Mapping[PeerId, frozenset[PeerId]], voters: Voters, quorum: int, standing: frozenset[PeerId]
) -> frozenset[PeerId]:
    """All tombstoned keys: those in `standing` for ever, and the subjects whose votes (subject -> signers) bind by Rules 1 to 3.

    Each tombstone shrinks the electorate of the others, so this is repeated until nothing more binds; the result does not
    depend on the order in which votes came.
    """
    found = set(standing)
    while grown := {
        subject
        for subject, signers in votes.items()
        if subject not in found and _binds(subject, signers, voters, quorum, found)
    }:
        found |= grown
    return frozenset(found)


def _binds(subject: PeerId, signers: frozenset[PeerId], voters: Voters, quorum: int, found: set[PeerId]) -> bool:
    if subject in signers:
        return True
    electorate = (voters.listed | {voters.me}) - {subject} - found
    counted = signers & (voters.ever_listed | voters.listed | {voters.me})
    return len(counted) >= quorum_size(quorum, len(electorate))
