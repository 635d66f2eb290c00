import base64
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from securesystemslib.dsse import Envelope

from fednode_crypto.envelope import Opened, open_envelope, peek_type, pre_authentication_encoding, seal
from fednode_crypto.errors import EnvelopeError
from fednode_crypto.identity import Identity

TYPE = "application/vnd.fednode.manifest.v1+json"
OTHER_TYPE = "application/vnd.fednode.catalogue.v1+json"
LIMIT = 64 * 1024
A, B, STRANGER = Identity.generate(), Identity.generate(), Identity.generate()
PAYLOAD = b'{"labels":["seven"]}'
SEALED = seal(TYPE, PAYLOAD, [A, B])


def changed(**fields: Any) -> bytes:
    return json.dumps(json.loads(SEALED) | fields).encode()


def signature(index: int, **fields: Any) -> dict[str, Any]:
    return dict(json.loads(SEALED)["signatures"][index]) | fields


def test_the_encoding_that_is_signed_is_the_example_of_the_dsse_protocol() -> None:
    encoded = pre_authentication_encoding("http://example.com/HelloWorld", b"hello world")
    assert encoded == b"DSSEv1 29 http://example.com/HelloWorld 11 hello world"


@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=30), st.binary(max_size=60))
@settings(max_examples=50, deadline=None)
def test_the_encoding_that_is_signed_is_that_of_securesystemslib(payload_type: str, payload: bytes) -> None:
    expected = Envelope(payload, payload_type, {}).pae()
    assert pre_authentication_encoding(payload_type, payload) == expected


def test_securesystemslib_reads_our_envelopes() -> None:
    theirs = Envelope.from_dict(json.loads(SEALED))
    assert (theirs.payload, theirs.payload_type) == (PAYLOAD, TYPE)
    assert set(theirs.signatures) == {A.peer_id, B.peer_id}
    assert bytes.fromhex(theirs.signatures[A.peer_id].signature) == A.sign(theirs.pae())


@pytest.mark.parametrize("signers", [[A], [A, B], [B, A]])
def test_an_opened_envelope_names_its_signers_in_order(signers: list[Identity]) -> None:
    opened = open_envelope(seal(TYPE, PAYLOAD, signers), TYPE, LIMIT)
    assert opened == Opened(PAYLOAD, tuple(signer.peer_id for signer in signers))


@given(st.binary(max_size=200))
@settings(max_examples=30, deadline=None)
def test_any_bytes_come_out_as_they_went_in(payload: bytes) -> None:
    assert open_envelope(seal(TYPE, payload, [A]), TYPE, LIMIT).payload == payload


def test_equal_statements_have_equal_envelopes() -> None:
    assert seal(TYPE, PAYLOAD, [A, B]) == SEALED


def test_an_envelope_of_another_type_is_refused() -> None:
    with pytest.raises(EnvelopeError, match=r"holds .application/vnd\.fednode\.manifest"):
        open_envelope(SEALED, OTHER_TYPE, LIMIT)


def test_renaming_the_type_voids_the_signatures() -> None:
    renamed = changed(payloadType=OTHER_TYPE)
    assert peek_type(renamed, LIMIT) == OTHER_TYPE
    with pytest.raises(EnvelopeError, match="no valid signature"):
        open_envelope(renamed, OTHER_TYPE, LIMIT)


def test_another_payload_voids_the_signatures() -> None:
    with pytest.raises(EnvelopeError, match="no valid signature"):
        open_envelope(changed(payload=base64.b64encode(b"{}").decode()), TYPE, LIMIT)


@pytest.mark.parametrize(
    "extra",
    [
        signature(0, keyid=STRANGER.peer_id),  # A's signature under another name
        signature(0, sig=base64.b64encode(bytes(64)).decode()),
        signature(0, sig=""),
        signature(0, keyid="not a peer id"),
        signature(0, keyid=A.peer_id.upper()),  # right but not spelled canonically
    ],
)
def test_an_invalid_signature_counts_for_nothing_and_hurts_nobody(extra: dict[str, Any]) -> None:
    opened = open_envelope(changed(signatures=[extra, signature(1)]), TYPE, LIMIT)
    assert opened.signers == (B.peer_id,)
    with pytest.raises(EnvelopeError, match="no valid signature"):
        open_envelope(changed(signatures=[extra]), TYPE, LIMIT)


def test_a_signer_counts_once_however_often_it_signs() -> None:
    opened = open_envelope(changed(signatures=[signature(0), signature(1), signature(0)]), TYPE, LIMIT)
    assert opened.signers == (A.peer_id, B.peer_id)


def test_an_envelope_without_signatures_is_refused() -> None:
    with pytest.raises(EnvelopeError, match="no valid signature"):
        open_envelope(changed(signatures=[]), TYPE, LIMIT)


@pytest.mark.parametrize("count", [0, 9])
def test_nothing_is_sealed_by_nobody_or_by_too_many(count: int) -> None:
    with pytest.raises(EnvelopeError, match="1 to 8 signers"):
        seal(TYPE, PAYLOAD, [A] * count)


@pytest.mark.parametrize(
    "fields",
    [
        {"extra": 1},
        {"payloadType": 7},
        {"payload": None},
        {"payload": "e30"},  # no padding
        {"payload": "e31="},  # bits left over
        {"payload": " e30="},
        {"payload": "\u00e930="},
        {"payload": "_-A="},  # the URL-safe alphabet
        {"signatures": {}},
        {"signatures": [7]},
        {"signatures": [{"keyid": A.peer_id}]},
        {"signatures": [signature(0, extra=1)]},
        {"signatures": [signature(0, keyid=None)]},
        {"signatures": [signature(0, sig="*")]},
        {"signatures": [signature(0)] * 9},
    ],
)
def test_a_malformed_envelope_is_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(EnvelopeError):
        open_envelope(changed(**fields), TYPE, LIMIT)
    with pytest.raises(EnvelopeError):
        peek_type(changed(**fields), LIMIT)


@pytest.mark.parametrize("data", [b"", b"[]", b"null", b"\xff", SEALED[:-1], SEALED + b"x", b"[" * 10_000])
def test_other_bytes_are_no_envelope(data: bytes) -> None:
    with pytest.raises(EnvelopeError):
        open_envelope(data, TYPE, LIMIT)


def test_a_second_payload_in_one_envelope_is_refused() -> None:
    twice = SEALED[:-1] + b',"payload":"e30="}'
    assert json.loads(twice)["payload"] == "e30="
    with pytest.raises(EnvelopeError, match="twice"):
        open_envelope(twice, TYPE, LIMIT)


def test_the_limit_is_on_the_whole_envelope() -> None:
    assert open_envelope(SEALED, TYPE, len(SEALED)).payload == PAYLOAD
    with pytest.raises(EnvelopeError, match="at most"):
        open_envelope(SEALED, TYPE, len(SEALED) - 1)
    with pytest.raises(EnvelopeError, match="at most"):
        peek_type(SEALED, len(SEALED) - 1)


@given(st.integers(0, len(SEALED) - 1), st.integers(1, 255))
@settings(max_examples=400, deadline=None)
def test_no_changed_byte_gives_another_payload_or_another_signer(at: int, flip: int) -> None:
    mutated = SEALED[:at] + bytes([SEALED[at] ^ flip]) + SEALED[at + 1 :]
    try:
        opened = open_envelope(mutated, TYPE, LIMIT)
    except EnvelopeError:
        return
    assert opened.payload == PAYLOAD
    assert opened.signers in {(A.peer_id,), (B.peer_id,)}, "the signature that was touched does not count"


@given(st.data())
@settings(max_examples=100, deadline=None)
def test_no_cut_or_doubled_stretch_gives_another_payload(data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(SEALED)))
    end = data.draw(st.integers(start, len(SEALED)))
    for mutated in (SEALED[:start] + SEALED[end:], SEALED[:end] + SEALED[start:]):
        try:
            assert open_envelope(mutated, TYPE, LIMIT).payload == PAYLOAD
        except EnvelopeError:
            continue
