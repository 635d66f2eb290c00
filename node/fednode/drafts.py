"""Drafts: our own statements before they are signed.

Rule 1: a catalogue continues the one before by number and digest.
Rule 2: what is too much for one receipt is left for the next.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from pydantic import ValidationError

from fednode.catalogue import FRESH_SECONDS, Announced, Catalogue
from fednode.errors import RefusedError
from fednode.lineage import Pair
from fednode.revocation import MAX_ERASED, MAX_REBUILT, MAX_REVOKED, Receipt, Revocation
from fednode_crypto.identity import PeerId


@dataclass(frozen=True)
class Author:
    """Who speaks, under which contract (its id), and when (Unix seconds)."""

    contract: str
    issuer: PeerId
    now: int


def catalogue(
    author: Author,
    held: Catalogue | None,
    publishes: Iterable[str],
    manifests: Iterable[str],
    announced: Announced,
) -> Catalogue:
    """The author's catalogue after `held`: it lists `manifests`, by digest, and announces the labels `publishes` and the rest."""
    return Catalogue(
        contract=author.contract,
        created=author.now,
        issuer=author.issuer,
        sequence=held.sequence + 1 if held else 1,
        previous=held.digest if held else None,
        fresh_until=author.now + FRESH_SECONDS,
        publishes=tuple(sorted(set(publishes))),
        manifests=tuple(sorted(set(manifests))),
        classifies=tuple(sorted(announced.classifies)),
        holds=tuple(sorted(announced.holds)),
        undecided=announced.undecided,
    )


def revocation(author: Author, subject: PeerId, reason: str) -> Revocation:
    """A vote to revoke `subject`. Raises RefusedError if the reason is empty or longer than 500 characters."""
    try:
        return Revocation(contract=author.contract, created=author.now, subject=subject, reason=reason)
    except ValidationError:
        raise RefusedError("The reason of a revocation has 1 to 500 characters.") from None


def receipt(author: Author, revoked: Iterable[PeerId], erased: Iterable[Pair], rebuilt: Iterable[str]) -> Receipt:
    """The author's word on what was revoked and erased, and on the experts (weight digests) that it rebuilt."""
    return Receipt(
        contract=author.contract,
        created=author.now,
        issuer=author.issuer,
        revoked=tuple(sorted(revoked))[:MAX_REVOKED],
        erased=tuple(sorted(erased))[:MAX_ERASED],
        rebuilt=tuple(sorted(rebuilt))[:MAX_REBUILT],
    )
