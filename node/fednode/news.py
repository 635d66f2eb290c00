"""News: statements on their way to a peer, and what a peer is told first.

Rule 1: revocations come first, then evidence of equivocation and the current catalogues of parties in good standing with all
        their manifests, then receipts, then evaluations.
Rule 2: who isn't in good standing is told only what is about itself; once we are revoked, everybody hears only that.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from fednode.admission import Signed, open_signed
from fednode.archive import Archive
from fednode.catalogue import Catalogue
from fednode_crypto.identity import PeerId


@dataclass(frozen=True)
class News:
    """A statement on its way; a catalogue's `attachments` are the envelopes of the manifests that it lists."""

    kind: Literal["catalogue", "revocation", "receipt", "evaluation"]
    envelope: bytes
    attachments: tuple[bytes, ...] = ()


def for_anyone(archive: Archive) -> list[News]:
    """Rule 1."""
    good = archive.roster.good
    return [
        *(News("revocation", signed.envelope) for signed in archive.revocations),
        *(news for peer in sorted(archive.roster.quarantined) for news in evidence(archive, peer)),
        *(of_catalogue(archive, archive.catalogues[peer]) for peer in sorted(good & archive.catalogues.keys())),
        *(News("receipt", signed.envelope) for signed in archive.receipts.values() if signed.statement.issuer in good),
        *(News("evaluation", archive.evaluations[peer].envelope) for peer in sorted(good & archive.evaluations.keys())),
    ]


def about(archive: Archive, peer: PeerId) -> list[News]:
    """Rule 2: the votes against `peer`, and the receipts that name it."""
    return [
        *(News("revocation", signed.envelope) for signed in archive.revocations if signed.statement.subject == peer),
        *(News("receipt", signed.envelope) for signed in archive.receipts.values() if peer in signed.statement.revoked),
    ]


def evidence(archive: Archive, peer: PeerId) -> Iterator[News]:
    """The catalogues by which a peer contradicted itself."""
    for envelope in archive.evidence.get(peer, {}).values():
        yield of_catalogue(archive, open_signed(Catalogue, envelope))


def of_catalogue(archive: Archive, signed: Signed[Catalogue]) -> News:
    """A catalogue with those of its manifests that are known here."""
    known = (archive.manifests.get(digest) for digest in signed.statement.manifests)
    return News("catalogue", signed.envelope, tuple(manifest.envelope for manifest in known if manifest))
