"""The book: which statements we accept, what they mean for the peers' standing, and our own statements.

Rule 1: a statement is kept with everything that follows from it, or it is not kept at all.
Rule 2: our own statement is kept before anybody hears it, and no sequence is used twice.
Rule 3: two catalogues of one issuer and sequence quarantine the issuer; both are kept and passed on.
Rule 4: what a peer can make us keep is bounded (BookLimits).
Rule 5: of an issuer's evaluations the newest is kept, until an artifact that it names is void for everybody.
"""

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, replace

from fednode import counts, drafts
from fednode import news as telling
from fednode.admission import (
    Signed,
    admit_manifests,
    check_clock,
    check_contract,
    check_evaluation,
    check_signer,
    check_standing,
    open_signed,
    surplus,
)
from fednode.archive import Archive
from fednode.catalogue import NOTHING_ELSE, SKEW_SECONDS, Announced, Catalogue, Succession, succession
from fednode.contract import Contract
from fednode.errors import PeerError, RefusedError
from fednode.evaluation import Evaluation
from fednode.inventory import Word
from fednode.ledger import Ledger
from fednode.lineage import Pair
from fednode.manifest import Manifest
from fednode.news import News
from fednode.revocation import Receipt, Revocation
from fednode.roster import Roster, Standing
from fednode.statement import Statement
from fednode_crypto.identity import Identity, PeerId

__all__ = ["Book", "BookLimits", "News"]

RENEW_SECONDS = 24 * 3600


@dataclass(frozen=True)
class BookLimits:
    """Bytes of manifests and number of receipts kept of one issuer, and of revocations of keys that were never listed."""

    manifest_bytes: int = 64 * 2**20
    receipts: int = 256
    unlisted_subjects: int = 256


class Book:
    """All accepted statements of one contract, as seen by `me`. `clock` gives Unix seconds."""

    def __init__(
        self,
        ledger: Ledger,
        contract: Contract,
        me: PeerId,
        clock: Callable[[], float],
        limits: BookLimits | None = None,
    ) -> None:
        self._archive = Archive(ledger, contract.id, me, clock)
        self._contract = contract
        self._me = me
        self._clock = clock
        self._limits = limits or BookLimits()

    @property
    def roster(self) -> Roster:
        """Who is listed, and how they stand."""
        return self._archive.roster

    @property
    def tombstones(self) -> frozenset[PeerId]:
        """The revoked keys."""
        return self.roster.tombstones

    @property
    def suspended(self) -> frozenset[PeerId]:
        """The peers that our operator has suspended."""
        return self.roster.suspended

    @property
    def quarantined(self) -> frozenset[PeerId]:
        """The peers that contradicted themselves."""
        return self.roster.quarantined

    def good(self) -> frozenset[PeerId]:
        """The listed peers and us, without those that are tombstoned, suspended or quarantined."""
        return self.roster.good

    def standing(self, peer: PeerId) -> Standing:
        """Where `peer` stands; whether it is present is not known here."""
        return self.roster.standing(peer)

    def votes(self, subject: PeerId) -> frozenset[PeerId]:
        """Those whose votes to revoke `subject` count, itself included."""
        return self._archive.votes().get(subject, frozenset()) & (self.roster.known | {subject})

    def word(self) -> Word:
        """What all accepted statements say."""
        return self._archive.word(self.good())

    def receipts(self) -> list[Receipt]:
        """All receipts, oldest first."""
        found = (signed.statement for signed in self._archive.receipts.values())
        return sorted(found, key=lambda receipt: (receipt.created, receipt.digest))

    def evaluations(self) -> dict[PeerId, Evaluation]:
        """The newest evaluation of each party in good standing."""
        held = self._archive.evaluations
        return {peer: held[peer].statement for peer in self.good() & held.keys()}

    def forget_void(self) -> None:
        """Drop the evaluations that name something void for everybody (Rule 5)."""
        counts.forget_void(self._archive)

    def unconfirmed(self) -> frozenset[PeerId]:
        """The revoked peers that were once listed here and that no receipt of ours names."""
        confirmed = {peer for receipt in self.receipts() if receipt.issuer == self._me for peer in receipt.revoked}
        return (self.tombstones & self.roster.ever_listed) - confirmed

    def news(self, for_peer: PeerId | None = None) -> list[News]:
        """What a peer is told first (the rules are in news.py); None: anyone in good standing."""
        if self._me in self.tombstones:
            return telling.about(self._archive, self._me)
        if for_peer is not None and for_peer not in self.good():
            return telling.about(self._archive, for_peer)
        return telling.for_anyone(self._archive)

    def evidence(self, peer: PeerId) -> list[News]:
        """The catalogues by which a peer contradicted itself, to be passed on."""
        return list(telling.evidence(self._archive, peer))

    def set_listed(self, peers: Collection[PeerId]) -> None:
        """Take over the peers that peers.yaml lists now."""
        listed = frozenset(peers) - {self._me}
        roster = replace(self.roster, listed=listed, ever_listed=self.roster.ever_listed | listed)
        self._archive.keep_roster(self._bound(roster))

    def accept(self, news: News) -> bool:
        """Keep what a peer told us; False if it is nothing new.

        Raises PeerError, and keeps nothing: `bad-statement`, `other-contract`, `stranger`, `revoked`, `not-signed`, `clock`,
        `sequence-jump`, `bad-manifest`, `bad-catalogue`, `bad-evaluation`, `incomplete`, `too-many`, `own-key`; and
        `equivocation`, which quarantines the issuer. Raises StorageError if it can't be kept.
        """
        if news.kind == "catalogue":
            return self._accept_catalogue(open_signed(Catalogue, news.envelope), news.attachments)
        if news.kind == "revocation":
            return self._accept_revocation(open_signed(Revocation, news.envelope))
        if news.kind == "evaluation":
            return self._accept_evaluation(open_signed(Evaluation, news.envelope))
        return self._accept_receipt(open_signed(Receipt, news.envelope))

    def publish(
        self,
        identity: Identity,
        publishes: Iterable[str],
        manifests: Iterable[str],
        announced: Announced = NOTHING_ELSE,
    ) -> News:
        """Our next catalogue: it lists these manifests, by digest, and says what we will publish.

        Raises RefusedError once we are revoked, and KeyError if a manifest was not added before.
        """
        if self._me in self.tombstones:
            raise RefusedError("This node has left the federation, so it publishes nothing more.")
        held = self._archive.catalogues.get(self._me)
        listed = {self._archive.manifests[digest].statement.digest for digest in manifests}
        before = held.statement if held else None
        catalogue = drafts.catalogue(self._author(), before, publishes, listed, announced)
        signed = open_signed(Catalogue, catalogue.seal(identity))
        self._archive.keep_catalogue(signed, [])
        return telling.of_catalogue(self._archive, signed)

    def renew(self, identity: Identity) -> News | None:
        """Our catalogue signed again, a day after the last; None if it is younger, or if there is none to renew.

        One that was signed while our clock was ahead is signed again as well: peers refuse it until its time comes.
        """
        held = self._archive.catalogues.get(self._me)
        if held is None or self._me in self.tombstones:
            return None
        if -SKEW_SECONDS <= self._clock() - held.statement.created < RENEW_SECONDS:
            return None
        said = held.statement
        return self.publish(identity, said.publishes, said.manifests, said.announced)

    def add_manifest(self, identity: Identity, manifest: Manifest) -> None:
        """Sign a manifest of our own and keep it; a catalogue may list it from now on."""
        check_contract(manifest, self._contract)
        signed = open_signed(Manifest, manifest.seal(identity))
        check_signer(signed, manifest.issuer)
        self._archive.keep_manifest(signed)

    def revoke(self, identity: Identity, subject: PeerId, reason: str) -> News:
        """Vote to revoke `subject`, which is suspended at once if the vote does not bind; our own key: leave.

        A second call finds the first vote. Raises RefusedError if `subject` was never listed, or if the reason is empty or
        longer than 500 characters.
        """
        if subject not in self.roster.known:
            raise RefusedError(f"The peer {subject} was never listed here.", "Run `fednode peer list`.")
        held = [
            signed
            for signed in self._archive.revocations
            if signed.statement.subject == subject and self._me in signed.signers
        ]
        signed = held[0] if held else self._sign_revocation(identity, subject, reason)
        new = None if held else signed
        roster = self._bound(self.roster, new)
        if subject not in roster.tombstones:
            roster = replace(roster, suspended=roster.suspended | {subject})
        self._archive.keep_roster(roster, new, reason)
        return News("revocation", signed.envelope)

    def suspend(self, peer: PeerId, reason: str) -> None:
        """Stop using and serving a peer, here alone. Raises RefusedError if it is not a listed peer."""
        if peer not in self.roster.listed:
            raise RefusedError(f"The peer {peer} is not listed here.", "Run `fednode peer list`.")
        self._archive.keep_roster(replace(self.roster, suspended=self.suspended | {peer}), reason=reason)

    def restore(self, peer: PeerId) -> None:
        """Lift suspension and quarantine. Raises RefusedError if the peer is revoked, or neither of the two."""
        if peer in self.tombstones:
            raise RefusedError(
                f"The peer {peer} is revoked, and that is for ever.", "It can join again with a new key."
            )
        if peer not in self.suspended | self.quarantined:
            raise RefusedError(f"The peer {peer} is neither suspended nor quarantined.")
        self._archive.restore(peer)

    def evaluate(self, identity: Identity, evaluation: Evaluation) -> News:
        """Our evaluation, signed; it takes the place of the last one, so it has to be younger."""
        signed = open_signed(Evaluation, evaluation.seal(identity))
        self._archive.keep_evaluation(signed)
        return News("evaluation", signed.envelope)

    def confirm(
        self, identity: Identity, revoked: Iterable[PeerId], erased: Iterable[Pair], rebuilt: Iterable[str]
    ) -> News:
        """Our receipt; the erasures that it names count as reported. What is too much for one is left for the next."""
        receipt = drafts.receipt(self._author(), revoked, erased, rebuilt)
        signed = open_signed(Receipt, receipt.seal(identity))
        self._archive.keep_receipt(signed)
        return News("receipt", signed.envelope)

    def _accept_catalogue(self, signed: Signed[Catalogue], attached: Collection[bytes]) -> bool:
        received = signed.statement
        self._check_issuer(signed, received.issuer)
        held = self._archive.catalogues.get(received.issuer)
        order = succession(held.statement if held else None, received)
        known = received.digest in self._archive.evidence.get(received.issuer, {})
        if known or order in (Succession.SAME, Succession.OLD):
            return False
        check_clock(received, self._clock())
        if held and order is Succession.EQUIVOCATION:
            self._refute(held, signed)
        if order is Succession.JUMP and received.issuer != self._me:
            raise PeerError("sequence-jump", f"The catalogue of {received.issuer} skips over a thousand others.")
        manifests = admit_manifests(received, attached, self._archive.manifests, self._contract)
        self._check_manifest_bytes(received.issuer, manifests)
        self._archive.keep_catalogue(signed, manifests)
        return True

    def _refute(self, held: Signed[Catalogue], received: Signed[Catalogue]) -> None:
        """Rule 3. Raises PeerError in any case; nobody quarantines itself."""
        issuer, sequence = held.statement.issuer, held.statement.sequence
        if issuer == self._me:
            raise PeerError(
                "own-key",
                f"Another node has signed a catalogue {sequence} with our identity.",
                "Is a copy of this home running, or was it restored from a backup?",
            )
        if issuer not in self.quarantined:  # two prove it; more would only fill the disk
            self._archive.quarantine(issuer, held, received)
        raise PeerError("equivocation", f"The peer {issuer} has signed two different catalogues {sequence}.")

    def _accept_revocation(self, signed: Signed[Revocation]) -> bool:
        subject = signed.statement.subject
        check_contract(signed.statement, self._contract)
        counted = signed.signers & (self.roster.known | {subject})
        if not counted:
            raise PeerError(
                "stranger", f"A revocation of {subject} is signed only by keys that were never listed here."
            )
        if counted <= self.votes(subject):
            return False
        self._check_subject(subject)
        self._archive.keep_roster(self._bound(self.roster, signed), signed)
        return True

    def _accept_receipt(self, signed: Signed[Receipt]) -> bool:
        received = signed.statement
        self._check_issuer(signed, received.issuer)
        if received.digest in self._archive.receipts:
            return False
        kept = [receipt for receipt in self.receipts() if receipt.issuer == received.issuer]
        dropped = surplus([*kept, received], self._limits.receipts)
        if received in dropped:
            return False
        self._archive.keep_receipt(signed, [receipt.digest for receipt in dropped])
        return True

    def _accept_evaluation(self, signed: Signed[Evaluation]) -> bool:
        received = signed.statement
        self._check_issuer(signed, received.issuer)
        check_evaluation(received, self._contract)
        if received.issuer == self._me or not counts.is_news(self._archive, received):
            return False
        check_clock(received, self._clock())
        self._archive.keep_evaluation(signed)
        return True

    def _author(self) -> drafts.Author:
        return drafts.Author(self._contract.id, self._me, int(self._clock()))

    def _check_issuer(self, signed: Signed[Statement], issuer: PeerId) -> None:
        check_contract(signed.statement, self._contract)
        check_standing(signed.statement, issuer, self.roster)
        check_signer(signed, issuer)

    def _check_manifest_bytes(self, issuer: PeerId, new: Iterable[Signed[Manifest]]) -> None:
        held = (signed for signed in self._archive.manifests.values() if signed.statement.issuer == issuer)
        if sum(len(signed.envelope) for signed in (*held, *new)) > self._limits.manifest_bytes:
            raise PeerError(
                "too-many", f"The manifests of {issuer} would take over {self._limits.manifest_bytes} bytes."
            )

    def _check_subject(self, subject: PeerId) -> None:
        unlisted = {signed.statement.subject for signed in self._archive.revocations} - self.roster.known
        if subject not in self.roster.known | unlisted and len(unlisted) >= self._limits.unlisted_subjects:
            raise PeerError("too-many", "There are too many revocations of keys that were never listed here.")

    def _bound(self, roster: Roster, new: Signed[Revocation] | None = None) -> Roster:
        """The roster after all votes, the new one included."""
        return replace(roster, tombstones=roster.bound(self._archive.votes(new), self._contract.quorum))

    def _sign_revocation(self, identity: Identity, subject: PeerId, reason: str) -> Signed[Revocation]:
        revocation = drafts.revocation(self._author(), subject, reason)
        return open_signed(Revocation, revocation.seal(identity))
