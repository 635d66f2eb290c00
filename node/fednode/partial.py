"""A download that is not complete: only pieces that match their hashes get into it."""

from collections.abc import Callable
from pathlib import Path

from fednode import disk, failpoints
from fednode.errors import PeerError, StorageError
from fednode_crypto.digest import PieceList, piece_hash


class Partial:
    """A download under way; what is in it was verified."""

    def __init__(self, path: Path, pieces: PieceList, place: Callable[[], None]) -> None:
        self._path = path
        self._pieces = pieces
        self._place = place
        self._missing = {
            index for index, digest in enumerate(pieces.pieces) if piece_hash(read_piece(path, pieces, index)) != digest
        }

    def missing(self) -> list[int]:
        """The pieces that are not here, in order."""
        return sorted(self._missing)

    def write(self, index: int, data: bytes) -> None:
        """Keep piece `index`. Raises PeerError `bad-piece` if it is not that piece, and StorageError if the disk is full."""
        if not 0 <= index < len(self._pieces.pieces) or piece_hash(data) != self._pieces.pieces[index]:
            raise PeerError("bad-piece", f"Piece {index} of {self._pieces.digest[:12]} does not match its hash.")
        with disk.storage_errors():
            failpoints.hit("store.piece")
            disk.write_at(self._path, index * self._pieces.piece_size, data)
        self._missing.discard(index)

    def finish(self) -> None:
        """Make the weights complete. Raises StorageError if a piece is missing, or if they were erased meanwhile."""
        if self._missing:
            raise StorageError(f"The download of {self._pieces.digest[:12]} is not complete.")
        with disk.storage_errors():
            self._place()


def read_piece(path: Path, pieces: PieceList, index: int) -> bytes:
    """The bytes at piece `index`, fewer or none where the file is short or missing."""
    return disk.read_at(path, index * pieces.piece_size, pieces.length(index))
