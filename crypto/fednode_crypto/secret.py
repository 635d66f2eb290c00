"""The home's secret: what random numbers follow from that nobody else may be able to repeat.

Rule: what is derived for one purpose tells nothing of the secret, or of what is derived for another.
"""

import os
import secrets
from pathlib import Path

from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from fednode_crypto import keyfile
from fednode_crypto.errors import KeyFileError

SIZE = 32
FIT_NOISE = b"fednode/fit-noise/v1"  # the noise of a private fit; whoever knew it could take it away again


def load_or_make(path: Path) -> bytes:
    """The secret in the file at `path`, which is made if it is missing. Raises KeyFileError if it is not private or not whole."""
    if not os.path.lexists(path):
        keyfile.write_new(path, secrets.token_bytes(SIZE))
    found = keyfile.read(path)
    if len(found) != SIZE:
        raise KeyFileError(f"The secret {path} has not {SIZE} bytes.", "Put it back from your backup.")
    return found


def derive(secret: bytes, purpose: bytes, digest: str) -> bytes:
    """32 bytes for a purpose and a spec, by HKDF-SHA256 (RFC 5869)."""
    return HKDF(algorithm=SHA256(), length=SIZE, salt=None, info=purpose + b"\0" + digest.encode()).derive(secret)
