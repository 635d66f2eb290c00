"""Envelopes: DSSE v1 (github.com/secure-systems-lab/dsse), Ed25519 signatures over typed bytes.

Rule 1: the signature covers the payload type, so a statement of one kind never passes for another.
Rule 2: what comes out is exactly the bytes that were verified; they are parsed afterwards, by the caller.
Rule 3: only valid signatures count, each signer once, and at least one is needed. A keyid is a peer id.
"""

import base64
from collections.abc import Sequence
from dataclasses import dataclass

from fednode_crypto import strict_json
from fednode_crypto.errors import EnvelopeError, PeerIdError, StrictJsonError
from fednode_crypto.identity import Identity, PeerId, parse_peer_id, verify
from fednode_crypto.strict_json import JSON

MAX_SIGNATURES = 8  # a rotation needs two; more only cost the reader time


@dataclass(frozen=True)
class Opened:
    """A verified payload and those who signed it, in the envelope's order."""

    payload: bytes
    signers: tuple[PeerId, ...]


@dataclass(frozen=True)
class _Unverified:
    payload_type: str
    payload: bytes
    signatures: tuple[tuple[str, bytes], ...]


def seal(payload_type: str, payload: bytes, signers: Sequence[Identity]) -> bytes:
    """The envelope around `payload`, signed by 1 to 8 `signers`. Raises EnvelopeError for another number."""
    if not 1 <= len(signers) <= MAX_SIGNATURES:
        raise EnvelopeError(f"An envelope has 1 to {MAX_SIGNATURES} signers, not {len(signers)}.")
    message = pre_authentication_encoding(payload_type, payload)
    return strict_json.dumps(
        {
            "payloadType": payload_type,
            "payload": _encode(payload),
            "signatures": [{"keyid": by.peer_id, "sig": _encode(by.sign(message))} for by in signers],
        }
    )


def open_envelope(envelope: bytes, payload_type: str, limit: int) -> Opened:
    """The verified payload of an envelope of at most `limit` bytes, and its signers.

    Raises EnvelopeError if it is too big, malformed, not of type `payload_type`, or validly signed by nobody.
    """
    unverified = _parse(envelope, limit)
    if unverified.payload_type != payload_type:
        raise EnvelopeError(f"The envelope holds {unverified.payload_type[:80]!r}, not {payload_type!r}.")
    message = pre_authentication_encoding(payload_type, unverified.payload)
    found = (_signer(keyid, signature, message) for keyid, signature in unverified.signatures)
    signers = tuple(dict.fromkeys(signer for signer in found if signer is not None))
    if not signers:
        raise EnvelopeError("The envelope has no valid signature.")
    return Opened(unverified.payload, signers)


def peek_type(envelope: bytes, limit: int) -> str:
    """The payload type that an envelope claims, still unverified. Raises EnvelopeError if it is malformed."""
    return _parse(envelope, limit).payload_type


def pre_authentication_encoding(payload_type: str, payload: bytes) -> bytes:
    """PAE of the DSSE protocol, the bytes that are signed: "DSSEv1" and both parts, each after its length."""
    kind = payload_type.encode()
    return b"DSSEv1 %d %b %d %b" % (len(kind), kind, len(payload), payload)


def _signer(keyid: str, signature: bytes, message: bytes) -> PeerId | None:
    try:
        peer_id = parse_peer_id(keyid)
    except PeerIdError:
        return None
    return peer_id if peer_id == keyid and verify(peer_id, signature, message) else None


def _parse(envelope: bytes, limit: int) -> _Unverified:
    try:
        value = strict_json.loads(envelope, limit)
    except StrictJsonError as error:
        raise EnvelopeError(f"The envelope can't be read: {error}") from None
    payload_type, payload, signatures = _fields(value, "payloadType", "payload", "signatures")
    if not isinstance(signatures, list) or len(signatures) > MAX_SIGNATURES:
        raise EnvelopeError(f"The envelope has no list of at most {MAX_SIGNATURES} signatures.")
    pairs = tuple(_fields(signature, "keyid", "sig") for signature in signatures)
    return _Unverified(
        payload_type=_text(payload_type),
        payload=_decode(payload),
        signatures=tuple((_text(keyid), _decode(signature)) for keyid, signature in pairs),
    )


def _fields(value: JSON, *names: str) -> list[JSON]:
    """The values of an object that has exactly these keys."""
    if not isinstance(value, dict) or set(value) != set(names):
        raise EnvelopeError(f"The envelope lacks or adds a field beside {', '.join(names)}.")
    return [value[name] for name in names]


def _text(value: JSON) -> str:
    if not isinstance(value, str):
        raise EnvelopeError("A field of the envelope is no text.")
    return value


def _encode(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _decode(value: JSON) -> bytes:
    text = _text(value)
    try:
        data = base64.b64decode(text, validate=True)
    except ValueError:
        raise EnvelopeError("A field of the envelope is not base64.") from None
    if _encode(data) != text:  # leftover bits would give one payload many spellings
        raise EnvelopeError("A field of the envelope is not canonical base64.")
    return data
