from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta, timezone

import grpc
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.x509.oid import ExtendedKeyUsageOID

from fednode_crypto.certificate import Leaf, leaf_issuer, make_anchor, mint_leaf, server_name
from fednode_crypto.identity import Identity, PeerId, public_bytes

NOW = datetime.now(UTC)
A, B, STRANGER = Identity.generate(), Identity.generate(), Identity.generate()


def certificate_of(identity: Identity) -> x509.Certificate:
    return x509.load_pem_x509_certificate(mint_leaf(identity, NOW).certificate_pem)


def forged_leaf(signer: Identity, subject: x509.Name, issuer: x509.Name, name: str | None) -> Leaf:
    """A leaf signed by `signer` that says what it likes; without `name` it has no SAN at all."""
    key = ec.generate_private_key(ec.SECP256R1())
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(NOW - timedelta(hours=1))
        .not_valid_after(NOW + timedelta(days=1))
    )
    if name is not None:
        builder = builder.add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
    key_pem = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    pem = signer.sign_certificate(builder).public_bytes(serialization.Encoding.PEM)
    return Leaf(pem, key_pem, NOW)


# --- what a leaf and an anchor say ---


def test_the_server_name_is_the_peer_id_without_dashes_under_a_reserved_domain() -> None:
    label, rest = server_name(A.peer_id).split(".", 1)
    assert label == A.peer_id.replace("-", "")
    assert len(label) <= 63
    assert rest == "fednode.invalid"


def test_a_leaf_holds_from_a_day_before_to_thirty_days_after() -> None:
    now = datetime(2026, 3, 1, 12, 0, 0, 999_999, tzinfo=timezone(timedelta(hours=9)))
    leaf = mint_leaf(A, now)
    certificate = x509.load_pem_x509_certificate(leaf.certificate_pem)
    assert certificate.not_valid_before_utc == datetime(2026, 2, 28, 3, 0, 0, tzinfo=UTC)
    assert certificate.not_valid_after_utc == datetime(2026, 3, 31, 3, 0, 0, tzinfo=UTC)
    assert leaf.expires == certificate.not_valid_after_utc


def test_a_leaf_is_a_p256_certificate_for_both_ends_in_the_peers_name() -> None:
    extensions = certificate_of(A).extensions
    key = certificate_of(A).public_key()
    assert isinstance(key, ec.EllipticCurvePublicKey)
    assert isinstance(key.curve, ec.SECP256R1)
    assert extensions.get_extension_for_class(x509.BasicConstraints).value.ca is False
    names = extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert list(names) == [x509.DNSName(server_name(A.peer_id))]
    usages = extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    assert set(usages) == {ExtendedKeyUsageOID.CLIENT_AUTH, ExtendedKeyUsageOID.SERVER_AUTH}


def test_each_leaf_has_a_key_of_its_own_which_no_representation_shows() -> None:
    one, two = mint_leaf(A, NOW), mint_leaf(A, NOW)
    assert one.key_pem != two.key_pem
    assert "PRIVATE KEY" not in repr(one)


def test_an_anchor_is_made_from_the_peer_id_alone_and_may_name_nobody_else() -> None:
    anchor = x509.load_pem_x509_certificate(make_anchor(A.peer_id))
    key = anchor.public_key()
    assert isinstance(key, Ed25519PublicKey)
    assert key.public_bytes_raw() == public_bytes(A.peer_id)
    assert anchor.subject == certificate_of(A).issuer
    constraints = anchor.extensions.get_extension_for_class(x509.NameConstraints)
    assert constraints.critical
    assert constraints.value.permitted_subtrees == [x509.DNSName(server_name(A.peer_id))]
    assert anchor.extensions.get_extension_for_class(x509.BasicConstraints).value.path_length == 0


# --- who has signed a leaf ---


def test_the_signer_of_a_leaf_is_found_among_the_listed() -> None:
    leaf = mint_leaf(A, NOW).certificate_pem
    assert leaf_issuer(leaf, [B.peer_id, A.peer_id]) == A.peer_id
    assert leaf_issuer(leaf, [B.peer_id]) is None
    assert leaf_issuer(leaf, []) is None


def test_names_in_a_leaf_decide_nothing() -> None:
    b = certificate_of(B)
    everything_of_b = forged_leaf(A, b.subject, b.issuer, server_name(B.peer_id)).certificate_pem
    assert leaf_issuer(everything_of_b, [B.peer_id, A.peer_id]) == A.peer_id
    assert leaf_issuer(everything_of_b, [B.peer_id]) is None


def test_an_expired_leaf_still_tells_its_signer() -> None:
    leaf = mint_leaf(A, NOW - timedelta(days=400))
    assert leaf_issuer(leaf.certificate_pem, [A.peer_id]) == A.peer_id


def test_an_anchor_is_nobodys_leaf() -> None:
    assert leaf_issuer(make_anchor(A.peer_id), [A.peer_id]) is None


@pytest.mark.parametrize("data", [b"", b"\xff", b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"])
def test_bytes_that_are_no_certificate_have_no_signer(data: bytes) -> None:
    assert leaf_issuer(data, [A.peer_id]) is None


# --- over real sockets ---

NO_PROXY = [("grpc.enable_http_proxy", 0), ("grpc.so_reuseport", 0)]
METHOD = "/test.Who/Calls"


@contextmanager
def serving(leaf: Leaf, listed: Sequence[PeerId]) -> Iterator[int]:
    """A server that shows `leaf`, admits the `listed`, and answers each call with the caller's peer id."""

    def who(_request: bytes, context: grpc.ServicerContext) -> bytes:
        [pem] = context.auth_context()["x509_pem_cert"]
        return (leaf_issuer(pem, listed) or "nobody").encode()

    server = grpc.server(ThreadPoolExecutor(1), options=NO_PROXY)
    handlers = {"Calls": grpc.unary_unary_rpc_method_handler(who)}
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("test.Who", handlers),))
    roots = b"".join(make_anchor(peer_id) for peer_id in listed)
    credentials = grpc.ssl_server_credentials(
        [(leaf.key_pem, leaf.certificate_pem)], root_certificates=roots, require_client_auth=True
    )
    port = server.add_secure_port("127.0.0.1:0", credentials)
    server.start()
    try:
        yield port
    finally:
        server.stop(None).wait()


def call(port: int, leaf: Leaf | None, wanted: PeerId, anchors: Sequence[PeerId] = ()) -> str:
    """What the server answers a caller that shows `leaf` and wants to talk to `wanted`; raises grpc.RpcError."""
    credentials = grpc.ssl_channel_credentials(
        b"".join(make_anchor(peer_id) for peer_id in anchors or [wanted]),
        leaf.key_pem if leaf else None,
        leaf.certificate_pem if leaf else None,
    )
    options = [*NO_PROXY, ("grpc.ssl_target_name_override", server_name(wanted))]
    with grpc.secure_channel(f"127.0.0.1:{port}", credentials, options) as channel:
        return bytes(channel.unary_unary(METHOD)(b"", timeout=10)).decode()


def refused(port: int, leaf: Leaf | None, wanted: PeerId, anchors: Sequence[PeerId] = ()) -> bool:
    try:
        call(port, leaf, wanted, anchors)
    except grpc.RpcError as error:
        return error.code() == grpc.StatusCode.UNAVAILABLE
    return False


@pytest.fixture(scope="module")
def port_of_a() -> Iterator[int]:
    with serving(mint_leaf(A, NOW), [A.peer_id, B.peer_id]) as port:
        yield port


def test_two_identities_talk_knowing_only_each_others_peer_ids(port_of_a: int) -> None:
    assert call(port_of_a, mint_leaf(B, NOW), A.peer_id) == B.peer_id


def test_a_caller_who_trusts_several_peers_reaches_the_one_it_wants(port_of_a: int) -> None:
    assert call(port_of_a, mint_leaf(B, NOW), A.peer_id, [B.peer_id, A.peer_id]) == B.peer_id


def test_a_clock_that_is_half_a_day_off_does_no_harm(port_of_a: int) -> None:
    ahead = mint_leaf(B, NOW + timedelta(hours=12))
    assert call(port_of_a, ahead, A.peer_id) == B.peer_id


def test_a_stranger_is_refused(port_of_a: int) -> None:
    assert refused(port_of_a, mint_leaf(STRANGER, NOW), A.peer_id)


def test_a_caller_without_a_certificate_is_refused(port_of_a: int) -> None:
    assert refused(port_of_a, None, A.peer_id)


@pytest.mark.parametrize("shift", [timedelta(days=-31), timedelta(days=2)])
def test_an_expired_and_a_not_yet_valid_leaf_are_refused(port_of_a: int, shift: timedelta) -> None:
    assert refused(port_of_a, mint_leaf(B, NOW + shift), A.peer_id)


def test_an_expired_server_is_refused() -> None:
    with serving(mint_leaf(A, NOW - timedelta(days=31)), [B.peer_id]) as port:
        assert refused(port, mint_leaf(B, NOW), A.peer_id)


def test_a_plaintext_caller_is_refused(port_of_a: int) -> None:
    with (
        grpc.insecure_channel(f"127.0.0.1:{port_of_a}", NO_PROXY) as channel,
        pytest.raises(grpc.RpcError) as caught,
    ):
        channel.unary_unary(METHOD)(b"", timeout=10)
    assert caught.value.code() == grpc.StatusCode.UNAVAILABLE


@pytest.mark.parametrize("anchors", [[B.peer_id], [A.peer_id, B.peer_id]])
def test_the_wrong_server_is_refused_even_if_it_is_a_listed_peer(port_of_a: int, anchors: list[PeerId]) -> None:
    assert refused(port_of_a, mint_leaf(B, NOW), B.peer_id, anchors)


def test_a_listed_peer_can_not_serve_under_anothers_name() -> None:
    b = certificate_of(B)
    for issuer in (certificate_of(A).issuer, b.issuer):
        with serving(forged_leaf(A, b.subject, issuer, server_name(B.peer_id)), [B.peer_id]) as port:
            assert refused(port, mint_leaf(B, NOW), B.peer_id, [A.peer_id, B.peer_id])


def test_a_stranger_who_forges_a_listed_peers_issuer_is_refused(port_of_a: int) -> None:
    b = certificate_of(B)
    assert refused(port_of_a, forged_leaf(STRANGER, b.subject, b.issuer, server_name(B.peer_id)), A.peer_id)


def test_a_listed_peer_that_names_another_or_nobody_is_refused(port_of_a: int) -> None:
    a, issuer = certificate_of(A), certificate_of(B).issuer
    for name in (server_name(A.peer_id), f"*.{server_name(A.peer_id)}", None):
        assert refused(port_of_a, forged_leaf(B, a.subject, issuer, name), A.peer_id)


def test_a_listed_peer_with_anothers_subject_passes_tls_and_is_known_by_its_own_key(port_of_a: int) -> None:
    issuer = certificate_of(B).issuer
    leaf = forged_leaf(B, certificate_of(A).subject, issuer, server_name(B.peer_id))
    assert call(port_of_a, leaf, A.peer_id) == B.peer_id
