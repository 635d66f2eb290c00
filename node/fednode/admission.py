"""Admission: what a received statement must be before it is kept. Pure; the book decides what it changes.

Rule 1: every statement is of our contract, and its issuer is among those who signed it.
Rule 2: a catalogue comes with every manifest it lists, or they are known; each is of the same issuer, within our labels and
        of our image shape. It lists one generator of a label at most, one classifier and one expert, so that nobody speaks twice.
Rule 3: a catalogue or an evaluation may be at most SKEW_SECONDS ahead of our clock. A revocation is never refused because of a
        clock.
Rule 4: an evaluation is about labels of our contract, in its order.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Generic, TypeVar

from fednode.architecture import GeneratorArchitecture, ViTArchitecture
from fednode.catalogue import SKEW_SECONDS, Catalogue
from fednode.contract import Contract
from fednode.errors import PeerError
from fednode.evaluation import Evaluation
from fednode.manifest import Manifest
from fednode.presets import vit_architecture
from fednode.revocation import Receipt
from fednode.roster import Roster
from fednode.statement import Statement
from fednode_crypto.identity import PeerId

S = TypeVar("S", bound=Statement)
S_co = TypeVar("S_co", bound=Statement, covariant=True)

_YEAR_9999 = 253_402_300_799  # the last second that datetime can tell


@dataclass(frozen=True)
class Signed(Generic[S_co]):
    """A verified statement, the envelope that proves it, and whose valid signatures that has."""

    statement: S_co
    envelope: bytes
    signers: frozenset[PeerId]


def open_signed(kind: type[S], envelope: bytes) -> Signed[S]:
    """The verified statement in an envelope. Raises PeerError `bad-statement`."""
    statement, signers = kind.read(envelope)
    return Signed(statement, envelope, frozenset(signers))


def check_contract(statement: Statement, contract: Contract) -> None:
    """Raise PeerError `other-contract` if the statement belongs to another federation, or to another version of ours."""
    if statement.contract != contract.id:
        raise PeerError(
            "other-contract",
            f"A {statement.KIND} is of the contract {statement.contract[:16]}, and ours is {contract.id[:16]}.",
            "Federation name, labels in order, image shape and quorum must be equal in every peers.yaml.",
        )


def check_signer(signed: Signed[Statement], issuer: PeerId) -> None:
    """Raise PeerError `not-signed` if the issuer is not among the signers."""
    if issuer not in signed.signers:
        raise PeerError("not-signed", f"A {signed.statement.KIND} in the name of {issuer} is not signed by it.")


def check_standing(statement: Statement, issuer: PeerId, roster: Roster) -> None:
    """Raise PeerError `stranger` if the issuer is not listed, and `revoked` if it is revoked."""
    if issuer not in roster.members:
        raise PeerError("stranger", f"A {statement.KIND} is of {issuer}, which is not listed here.")
    if issuer in roster.tombstones:
        raise PeerError("revoked", f"A {statement.KIND} is of {issuer}, which is revoked.")


def check_clock(statement: Catalogue | Evaluation, now: float) -> None:
    """Raise PeerError `clock` if the statement was made in our future."""
    if statement.created > now + SKEW_SECONDS:
        raise PeerError(
            "clock",
            f"The clock of {statement.issuer} was at {_utc(statement.created)} when ours is at {_utc(now)}.",
            "One of the two clocks is wrong.",
        )


def admit_manifests(
    catalogue: Catalogue, attached: Iterable[bytes], known: Mapping[str, Signed[Manifest]], contract: Contract
) -> list[Signed[Manifest]]:
    """The manifests to keep with a catalogue: those attached that are not known yet.

    Raises PeerError `bad-statement`, `other-contract`, `not-signed`, `bad-manifest`, `bad-catalogue`, and `incomplete` if a
    listed manifest is neither attached nor known.
    """
    found = {signed.statement.digest: signed for signed in (open_signed(Manifest, envelope) for envelope in attached)}
    if unlisted := found.keys() - set(catalogue.manifests):
        raise PeerError("bad-manifest", f"The manifest {min(unlisted)[:12]} is not in the catalogue it came with.")
    if lacking := set(catalogue.manifests) - found.keys() - known.keys():
        raise PeerError("incomplete", f"A catalogue came without its manifest {min(lacking)[:12]}.")
    listed = [found.get(digest) or known[digest] for digest in catalogue.manifests]
    for signed in listed:
        _check_manifest(signed, catalogue.issuer, contract)
    _check_offer(catalogue, [signed.statement for signed in listed], contract)
    return [signed for digest, signed in found.items() if digest not in known]


def check_evaluation(evaluation: Evaluation, contract: Contract) -> None:
    """Raise PeerError `bad-evaluation` unless its labels are of the contract, in its order (Rule 4)."""
    if list(evaluation.labels) != [label for label in contract.labels if label in set(evaluation.labels)]:
        raise PeerError(
            "bad-evaluation", f"The labels of an evaluation of {evaluation.issuer} are not those of our contract."
        )


def surplus(receipts: Iterable[Receipt], most: int) -> list[Receipt]:
    """Those to drop so that at most `most` of an issuer's receipts are kept: the same ones on every node.

    Receipts that name a revoked peer are dropped last, newer ones later than older ones.
    """
    return sorted(receipts, key=lambda receipt: (bool(receipt.revoked), receipt.created, receipt.digest))[:-most]


def _check_manifest(signed: Signed[Manifest], issuer: PeerId, contract: Contract) -> None:
    manifest = signed.statement
    check_contract(manifest, contract)
    if manifest.issuer != issuer:
        raise PeerError("bad-manifest", f"A catalogue of {issuer} lists a manifest of {manifest.issuer}.")
    check_signer(signed, issuer)
    if foreign := set(manifest.names()) - set(contract.labels):
        raise PeerError("bad-manifest", f"A manifest of {issuer} names {min(foreign)!r}, which is not in our contract.")
    if manifest.architecture.image != contract.image:
        raise PeerError("bad-manifest", f"A manifest of {issuer} is for images of another shape than our contract's.")
    _check_labels(manifest, contract)


def _check_labels(manifest: Manifest, contract: Contract) -> None:
    """A generator draws one label; a classifier or expert has an output for each of its labels, in the contract's order.

    A classifier is a ViT of all labels of the contract; all have the same patches, so that one expert can learn from all.
    """
    names = manifest.names()
    if isinstance(manifest.architecture, GeneratorArchitecture):
        if len(names) != 1:
            raise PeerError("bad-manifest", f"A generator of {manifest.issuer} names {len(names)} labels.")
    elif manifest.kind == "classifier" and not _is_whole(manifest, contract):
        raise PeerError(
            "bad-manifest",
            f"A classifier of {manifest.issuer} is no ViT of our patches and labels, or has seen none of these.",
        )
    elif list(names) != sorted(names, key=contract.labels.index) or len(names) != manifest.architecture.outputs:
        raise PeerError(
            "bad-manifest",
            f"The labels of a manifest of {manifest.issuer} do not fit its outputs, or are out of order.",
        )


def _is_whole(classifier: Manifest, contract: Contract) -> bool:
    shape, wanted = classifier.architecture, vit_architecture(contract.image, len(contract.labels))
    fits = isinstance(shape, ViTArchitecture) and (shape.patch, shape.outputs) == (wanted.patch, wanted.outputs)
    return fits and classifier.names() == contract.labels and bool(classifier.seen())


def _check_offer(catalogue: Catalogue, listed: Iterable[Manifest], contract: Contract) -> None:
    if foreign := {*catalogue.publishes, *catalogue.classifies, *catalogue.holds} - set(contract.labels):
        raise PeerError(
            "bad-catalogue", f"{catalogue.issuer} announces {min(foreign)!r}, which is not in our contract."
        )
    roles = Counter((manifest.kind, manifest.names() if manifest.kind == "generator" else ()) for manifest in listed)
    if twice := [kind for (kind, _), count in roles.items() if count > 1]:
        raise PeerError("bad-catalogue", f"{catalogue.issuer} lists more than one {twice[0]} for the same.")


def _utc(seconds: float) -> str:
    return f"{datetime.fromtimestamp(min(seconds, _YEAR_9999), UTC):%Y-%m-%d %H:%M:%S} UTC"
