"""Digests: SHA-256 in lower-case hex, with one label constant for each use.

Rule 1: a digest of JSON begins with a label, so a digest of one kind never equals a digest of another.
Rule 2: the weight digest is the digest of the piece list, so whoever holds the list can check each piece by
        itself, and one pass over the bytes verifies all.
"""

import hashlib
import re
from dataclasses import dataclass
from typing import BinaryIO, TypeVar

from fednode_crypto import strict_json
from fednode_crypto.errors import DigestError, StrictJsonError
from fednode_crypto.strict_json import JSON

T = TypeVar("T")

PIECE_SIZE = 2**20
MAX_PIECES = 2**15  # 32 GiB of weights, and a list that stays under 2.2 MiB

_LIST_LIMIT = MAX_PIECES * len('"",' + 64 * "f") + 256
_HEX = re.compile(r"[0-9a-f]{64}")


def sha256_hex(data: bytes) -> str:
    """SHA-256 of `data`, 64 hex digits."""
    return hashlib.sha256(data).hexdigest()


def digest_json(domain: str, value: JSON) -> str:
    """SHA-256 (hex) of the label `domain`, a zero byte and the canonical JSON of `value`.

    Raises StrictJsonError where `value` has no canonical form.
    """
    return sha256_hex(domain.encode() + b"\0" + strict_json.dumps(value))


def piece_hash(data: bytes) -> str:
    """SHA-256 (hex) of one piece."""
    return sha256_hex(data)


@dataclass(frozen=True)
class PieceList:
    """The pieces of one weight file: `size` bytes, cut every `piece_size` bytes; the last may be shorter.

    Raises DigestError if size, piece size and number of pieces do not fit each other or are out of bounds.
    """

    size: int
    piece_size: int
    pieces: tuple[str, ...]

    def __post_init__(self) -> None:
        if not 1 <= self.piece_size <= PIECE_SIZE:
            raise DigestError(f"The piece size is {self.piece_size}, not 1 to {PIECE_SIZE} bytes.")
        if not 1 <= self.size <= MAX_PIECES * self.piece_size:
            raise DigestError(f"The size is {self.size}, not 1 to {MAX_PIECES * self.piece_size} bytes.")
        expected = -(-self.size // self.piece_size)
        if len(self.pieces) != expected:
            raise DigestError(f"There are {len(self.pieces)} piece hashes where {self.size} bytes need {expected}.")
        if not all(_HEX.fullmatch(piece) for piece in self.pieces):
            raise DigestError("A piece hash is not 64 lower-case hex digits.")

    @property
    def digest(self) -> str:
        """The weight digest: SHA-256 (hex) of this list."""
        return digest_json("fednode/weights/v1", self._value())

    def length(self, index: int) -> int:
        """Bytes of piece `index`, counted from 0. Raises DigestError if there is no such piece."""
        if not 0 <= index < len(self.pieces):
            raise DigestError(f"There is no piece {index} among {len(self.pieces)}.")
        return min(self.piece_size, self.size - index * self.piece_size)

    def to_bytes(self) -> bytes:
        """Canonical JSON, what `from_bytes` reads."""
        return strict_json.dumps(self._value())

    @classmethod
    def from_bytes(cls, data: bytes) -> "PieceList":
        """The list that `data` spells; it is a peer's word until its digest is compared with a signed one.

        Raises DigestError if `data` is too big, is no strict JSON, or does not hold together.
        """
        try:
            value = strict_json.loads(data, _LIST_LIMIT)
        except StrictJsonError as error:
            raise DigestError(f"The piece list can't be read: {error}") from None
        if not isinstance(value, dict) or set(value) != {"size", "piece_size", "pieces"}:
            raise DigestError("The piece list is no object of size, piece_size and pieces.")
        pieces = _typed(value["pieces"], list)
        return cls(
            size=_typed(value["size"], int),
            piece_size=_typed(value["piece_size"], int),
            pieces=tuple(_typed(piece, str) for piece in pieces),
        )

    def _value(self) -> JSON:
        return {"size": self.size, "piece_size": self.piece_size, "pieces": list(self.pieces)}


def piece_list(stream: BinaryIO) -> PieceList:
    """The piece list of the weights in `stream`, read to its end. Raises DigestError if empty or too long."""
    size, pieces = 0, []
    while piece := _read(stream, PIECE_SIZE):
        size += len(piece)
        pieces.append(piece_hash(piece))
    return PieceList(size, PIECE_SIZE, tuple(pieces))


def _read(stream: BinaryIO, count: int) -> bytes:
    """`count` bytes, fewer only at the end: an unbuffered stream may give less than was asked at any time."""
    data = stream.read(count)
    while data and len(data) < count and (more := stream.read(count - len(data))):
        data += more
    return data


def _typed(value: object, kind: type[T]) -> T:
    if type(value) is not kind:  # isinstance would take true for an integer
        raise DigestError(f"The piece list has a {type(value).__name__} where it needs a {kind.__name__}.")
    return value
