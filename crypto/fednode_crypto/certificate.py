"""TLS between identities without exchanging certificates.

Rule 1: a node shows a P-256 leaf that its Ed25519 identity has signed (grpc takes no Ed25519 leaf). The
        leaf lives in memory only, for at most 30 days.
Rule 2: the verifier makes the trust anchor itself, a CA around the listed public key that may name nobody but
        that peer. A trust anchor's own signature is never checked, so a key made for the moment signs it.
Rule 3: who is calling is decided by which listed key verifies the leaf, never by a name in it: a listed peer
        can put any name into its leaf.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from fednode_crypto.identity import Identity, PeerId, public_bytes, verify

LIFETIME = timedelta(days=30)
BACKDATED = timedelta(hours=24)  # clocks of institutions differ

_ANCHOR_BEGINS = datetime(2000, 1, 1, tzinfo=UTC)
_ANCHOR_ENDS = datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC)  # RFC 5280: no date of expiry


@dataclass(frozen=True)
class Leaf:
    """What a TLS endpoint shows, and the private key for it, which is never written to disk."""

    certificate_pem: bytes
    key_pem: bytes = field(repr=False)
    expires: datetime


def server_name(peer_id: PeerId) -> str:
    """The name to expect in a peer's leaf. `.invalid` is reserved, so it is never looked up (RFC 6761)."""
    return f"{_compact(peer_id)}.fednode.invalid"


def mint_leaf(identity: Identity, now: datetime) -> Leaf:
    """A new leaf of `identity`, valid from 24 hours before to 30 days after `now` (with a time zone)."""
    key = ec.generate_private_key(ec.SECP256R1())
    expires = now.replace(microsecond=0) + LIFETIME
    builder = (
        x509.CertificateBuilder()
        .subject_name(_subject(identity.peer_id))
        .issuer_name(_authority(identity.peer_id))
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - BACKDATED)
        .not_valid_after(expires)
    )
    certificate = identity.sign_certificate(_with_leaf_extensions(builder, identity.peer_id))
    key_pem = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return Leaf(certificate.public_bytes(serialization.Encoding.PEM), key_pem, expires)


def make_anchor(peer_id: PeerId) -> bytes:
    """The trust anchor (PEM) under which only leaves with this peer's signature and name are accepted."""
    permitted = [x509.DNSName(server_name(peer_id))]
    builder = (
        x509.CertificateBuilder()
        .subject_name(_authority(peer_id))
        .issuer_name(_authority(peer_id))
        .public_key(Ed25519PublicKey.from_public_bytes(public_bytes(peer_id)))
        .serial_number(x509.random_serial_number())
        .not_valid_before(_ANCHOR_BEGINS)
        .not_valid_after(_ANCHOR_ENDS)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(x509.NameConstraints(permitted, excluded_subtrees=None), critical=True)
    )
    anchor = builder.sign(ec.generate_private_key(ec.SECP256R1()), hashes.SHA256())
    return anchor.public_bytes(serialization.Encoding.PEM)


def leaf_issuer(leaf_pem: bytes, listed: Iterable[PeerId]) -> PeerId | None:
    """Which of the `listed` peers has signed this leaf; None if none has, or if it is no certificate.

    Dates are not looked at: TLS has checked them by the time a leaf is at hand.
    """
    try:
        leaf = x509.load_pem_x509_certificate(leaf_pem)
    except ValueError:
        return None
    signed = leaf.tbs_certificate_bytes
    return next((peer_id for peer_id in listed if verify(peer_id, leaf.signature, signed)), None)


def _with_leaf_extensions(builder: x509.CertificateBuilder, peer_id: PeerId) -> x509.CertificateBuilder:
    usages = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
    return (
        builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(server_name(peer_id))]), critical=False)
        .add_extension(x509.ExtendedKeyUsage(usages), critical=False)
    )


def _compact(peer_id: PeerId) -> str:
    """The peer id without dashes: 59 characters, within the 63 of a DNS label and the 64 of a common name."""
    return peer_id.replace("-", "")


def _subject(peer_id: PeerId) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, _compact(peer_id))])


def _authority(peer_id: PeerId) -> x509.Name:
    """The anchor's name; it differs from the leaf's subject, else the leaf would look signed by itself."""
    kind = x509.NameAttribute(NameOID.ORGANIZATION_NAME, "fednode identity")
    return x509.Name([kind, *_subject(peer_id)])
