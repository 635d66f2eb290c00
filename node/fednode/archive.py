"""The archive: the accepted statements and the roster, in memory for reading and in the ledger for ever.

Rule 1: each method writes in one transaction, and changes what is in memory only after that is on the disk.
Rule 2: what is read back is verified again; statements of another contract stay in the ledger and out of sight.
"""

from collections.abc import Callable, Collection
from dataclasses import replace
from typing import TypeVar

from fednode.admission import Signed, open_signed
from fednode.catalogue import Catalogue
from fednode.errors import PeerError, StorageError
from fednode.evaluation import Evaluation
from fednode.inventory import SOURCES, Word
from fednode.ledger import Ledger
from fednode.manifest import Manifest
from fednode.records import Record
from fednode.revocation import Receipt, Revocation
from fednode.roster import Roster
from fednode.statement import Statement
from fednode_crypto.identity import PeerId

S = TypeVar("S", bound=Statement)


class Archive:
    """Everything accepted under one contract, as seen by `me`. Raises StorageError if the ledger is damaged."""

    def __init__(self, ledger: Ledger, contract: str, me: PeerId, clock: Callable[[], float]) -> None:
        self._ledger = ledger
        self._contract = contract
        self._clock = clock
        self.manifests = {signed.statement.digest: signed for signed in self._load(Manifest)}
        self.catalogues = {signed.statement.issuer: signed for signed in self._load(Catalogue)}
        self.receipts = {signed.statement.digest: signed for signed in self._load(Receipt)}
        self.evaluations = {signed.statement.issuer: signed for signed in self._load(Evaluation)}
        self.revocations = self._load(Revocation)
        self.evidence = ledger.evidence()
        self.roster = Roster(
            me=me,
            ever_listed=ledger.ever_listed(),
            tombstones=ledger.tombstones(),
            suspended=frozenset(ledger.suspended()),
            quarantined=ledger.quarantined(),
        )

    def word(self, good: frozenset[PeerId]) -> Word:
        """What all accepted statements say to someone for whom these parties stand well."""
        catalogues = {issuer: signed.statement for issuer, signed in self.catalogues.items()}
        manifests = {digest: signed.statement for digest, signed in self.manifests.items()}
        return Word(good, catalogues, manifests, SOURCES)

    def votes(self, new: Signed[Revocation] | None = None) -> dict[PeerId, frozenset[PeerId]]:
        """Who signed a revocation of whom, `new` included: subject -> signers."""
        found: dict[PeerId, frozenset[PeerId]] = {}
        for signed in [*self.revocations, *([new] if new else [])]:
            subject = signed.statement.subject
            found[subject] = found.get(subject, frozenset()) | signed.signers
        return found

    def keep_manifest(self, signed: Signed[Manifest]) -> None:
        """Keep one of our own manifests."""
        self._put(signed, signed.statement.issuer)
        self.manifests[signed.statement.digest] = signed

    def keep_catalogue(self, signed: Signed[Catalogue], manifests: Collection[Signed[Manifest]]) -> None:
        """Keep a catalogue in place of the issuer's last one, and the manifests that are new with it."""
        issuer = signed.statement.issuer
        held = self.catalogues.get(issuer)
        with self._ledger.transaction("catalogue"):
            for manifest in manifests:
                self._put(manifest, issuer)
            if held:
                self._ledger.drop_statement("catalogue", held.statement.digest)
            self._put(signed, issuer, sequence=signed.statement.sequence)
        self.manifests |= {manifest.statement.digest: manifest for manifest in manifests}
        self.catalogues[issuer] = signed

    def keep_receipt(self, signed: Signed[Receipt], instead: Collection[str] = ()) -> None:
        """Keep a receipt, in place of those with the digests `instead`; the erasures that our own names are reported."""
        receipt = signed.statement
        with self._ledger.transaction("receipt"):
            for digest in instead:
                self._ledger.drop_statement("receipt", digest)
            self._put(signed, receipt.issuer)
            if receipt.issuer == self.roster.me:
                self._ledger.mark_reported(receipt.erased)
        kept = {digest: other for digest, other in self.receipts.items() if digest not in instead}
        self.receipts = {**kept, receipt.digest: signed}

    def keep_evaluation(self, signed: Signed[Evaluation]) -> None:
        """Keep an evaluation in place of the issuer's last one."""
        issuer = signed.statement.issuer
        held = self.evaluations.get(issuer)
        with self._ledger.transaction("evaluation"):
            if held:
                self._ledger.drop_statement("evaluation", held.statement.digest)
            self._put(signed, issuer)
        self.evaluations = {**self.evaluations, issuer: signed}

    def drop_evaluations(self, issuers: Collection[PeerId]) -> None:
        """Forget the evaluations of these issuers."""
        with self._ledger.transaction("evaluation"):
            for issuer in issuers:
                self._ledger.drop_statement("evaluation", self.evaluations[issuer].statement.digest)
        self.evaluations = {issuer: held for issuer, held in self.evaluations.items() if issuer not in issuers}

    def keep_roster(self, roster: Roster, vote: Signed[Revocation] | None = None, reason: str = "") -> None:
        """Keep who is listed, revoked and (for `reason`) suspended now, together with the vote that changed it."""
        with self._ledger.transaction("revocation" if vote else "roster"):
            if vote:
                self._put(vote, sorted(vote.signers)[0], subject=vote.statement.subject)
            self._ledger.add_listed(roster.ever_listed - self.roster.ever_listed)
            self._ledger.add_tombstones(roster.tombstones - self.roster.tombstones)
            for peer in sorted(roster.suspended - self.roster.suspended):
                self._ledger.suspend(peer, reason)
        self.revocations = [*self.revocations, *([vote] if vote else [])]
        self.roster = roster

    def quarantine(self, peer: PeerId, *catalogues: Signed[Catalogue]) -> None:
        """Quarantine a peer and keep the evidence against it."""
        found = {signed.statement.digest: signed.envelope for signed in catalogues}
        self._ledger.quarantine(peer, found)
        self.evidence = {**self.evidence, peer: {**self.evidence.get(peer, {}), **found}}
        self.roster = replace(self.roster, quarantined=self.roster.quarantined | {peer})

    def restore(self, peer: PeerId) -> None:
        """Lift suspension and quarantine; the evidence stays."""
        self._ledger.restore(peer)
        suspended, quarantined = self.roster.suspended - {peer}, self.roster.quarantined - {peer}
        self.roster = replace(self.roster, suspended=suspended, quarantined=quarantined)

    def _put(
        self, signed: Signed[Statement], issuer: PeerId, subject: PeerId | None = None, sequence: int | None = None
    ) -> None:
        kind, digest = signed.statement.KIND, signed.statement.digest
        self._ledger.put_statement(Record(kind, digest, issuer, signed.envelope, subject, sequence, self._clock()))

    def _load(self, kind: type[S]) -> list[Signed[S]]:
        try:
            found = [open_signed(kind, record.envelope) for record in self._ledger.statements(kind.KIND)]
        except PeerError as error:
            raise StorageError(f"The ledger is damaged: {error.message}", "Restore this home from a backup.") from error
        return [signed for signed in found if signed.statement.contract == self._contract]
