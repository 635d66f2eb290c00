"""A node's identity, one Ed25519 key, and the peer id: a peer's public key itself, as text.

Rule 1: a peer id is `fn1-` and 7 groups of 8 letters and digits: lower-case base32 of the 32-byte key and the
        first 3 bytes of its SHA-256. Readers take any case, and skip spaces, dashes and invisible characters.
Rule 2: a key is trusted only if its encoding is canonical and its order is not small.
Rule 3: the private key leaves this module only into its file. It signs DSSE messages ("DSSEv1 ...") and
        certificates (DER, first byte 0x30), so neither passes for the other.
"""

import base64
import hashlib
import unicodedata
from functools import lru_cache
from pathlib import Path
from typing import NewType

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from fednode_crypto import curve, keyfile
from fednode_crypto.errors import KeyFileError, PeerIdError

PeerId = NewType("PeerId", str)

_PREFIX = "fn1"
_ALPHABET = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ234567")
_LOOKALIKES = {"0": "o", "1": "l", "8": "b"}
_LENGTH = 56  # base32 digits of 32 key bytes and 3 check bytes
_MINUS = "\u2212"  # the one dash that Unicode files under mathematics
_SKIPPED_CATEGORIES = frozenset({"Cf", "Pd", "Zs"})  # invisible (BOM, zero width), dashes, spaces


def parse_peer_id(text: str) -> PeerId:
    """The peer id that a person wrote as `text`, in canonical form.

    Raises PeerIdError naming what is wrong: prefix, a character and its position, length, checksum or key.
    """
    return peer_id_of(_key_in(text))


def peer_id_of(public: bytes) -> PeerId:
    """The peer id of a 32-byte Ed25519 public key. Raises PeerIdError if it is not to be trusted (Rule 2)."""
    try:
        curve.check_public_key(public)
    except ValueError as error:
        raise PeerIdError(f"The key {error}, so it can't be a peer's.") from None
    digits = base64.b32encode(public + _checksum(public)).decode().lower()
    return PeerId("-".join([_PREFIX, *(digits[i : i + 8] for i in range(0, _LENGTH, 8))]))


@lru_cache(maxsize=1024)
def public_bytes(peer_id: PeerId) -> bytes:
    """The 32 key bytes of a peer id. Raises PeerIdError: the type alone does not prove that it was parsed."""
    public = _key_in(peer_id)
    if peer_id_of(public) != peer_id:
        raise PeerIdError("The peer id is not in canonical form.")
    return public


def verify(peer_id: PeerId, signature: bytes, data: bytes) -> bool:
    """Whether `signature` (64 bytes) is the peer's Ed25519 signature over `data`."""
    try:
        Ed25519PublicKey.from_public_bytes(public_bytes(peer_id)).verify(signature, data)
    except InvalidSignature:
        return False
    return True


class Identity:
    """Our own key pair."""

    def __init__(self, key: Ed25519PrivateKey) -> None:
        self._key = key
        self._peer_id = peer_id_of(key.public_key().public_bytes_raw())

    def __repr__(self) -> str:
        return f"Identity({self._peer_id})"

    @property
    def peer_id(self) -> PeerId:
        """Our public key as text."""
        return self._peer_id

    @classmethod
    def generate(cls) -> "Identity":
        """A new identity."""
        return cls(Ed25519PrivateKey.generate())

    @classmethod
    def load(cls, path: Path) -> "Identity":
        """The identity in the key file `path`. Raises KeyFileError if it is missing, unsafe or no key."""
        try:
            key = serialization.load_pem_private_key(keyfile.read(path), password=None)
        except (ValueError, TypeError, UnsupportedAlgorithm):  # TypeError: it is encrypted
            raise KeyFileError(f"The file {path} holds no readable PEM key.") from None
        if not isinstance(key, Ed25519PrivateKey):
            raise KeyFileError(f"The key in {path} is not an Ed25519 key.")
        return cls(key)

    def save(self, path: Path) -> None:
        """Write the key file (PEM, PKCS8, mode 0600). Raises KeyFileError if there is one or it fails."""
        pem = self._key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        keyfile.write_new(path, pem)

    def sign(self, data: bytes) -> bytes:
        """The Ed25519 signature (64 bytes) over `data`."""
        return self._key.sign(data)

    def sign_certificate(self, builder: x509.CertificateBuilder) -> x509.Certificate:
        """The certificate that `builder` describes, issued by this identity."""
        return builder.sign(self._key, algorithm=None)


def _checksum(public: bytes) -> bytes:
    return hashlib.sha256(public).digest()[:3]


def _key_in(text: str) -> bytes:
    """The 32 bytes in a peer id's text, checked against their checksum."""
    characters = [(at, char) for at, char in enumerate(text, start=1) if not _is_skipped(char)]
    prefix, digits = characters[: len(_PREFIX)], characters[len(_PREFIX) :]
    if "".join(char for _, char in prefix).lower() != _PREFIX:
        raise PeerIdError("A peer id begins with fn1-, and this text does not.")
    for at, char in digits:
        if char not in _ALPHABET:
            raise _wrong_character(at, char)
    if len(digits) != _LENGTH:
        raise _wrong_length(len(digits))
    data = base64.b32decode("".join(char for _, char in digits), casefold=True)
    public, checksum = data[:32], data[32:]
    if checksum != _checksum(public):
        raise PeerIdError("The peer id's checksum does not match.", "A letter is mistyped, or two are swapped.")
    return public


def _is_skipped(char: str) -> bool:
    return char.isspace() or char == _MINUS or unicodedata.category(char) in _SKIPPED_CATEGORIES


def _wrong_character(at: int, char: str) -> PeerIdError:
    alike = _LOOKALIKES.get(char)
    hint = f"Is it {alike!r}?" if alike else "Only the letters a to z and the digits 2 to 7 can."
    return PeerIdError(f"Character {char!r} at position {at} can't be in a peer id.", hint)


def _wrong_length(length: int) -> PeerIdError:
    difference = f"{_LENGTH - length} are missing" if length < _LENGTH else f"{length - _LENGTH} are too many"
    return PeerIdError(
        f"A peer id has {_LENGTH} letters and digits after fn1-, and this one has {length}: {difference}."
    )
