"""The store: weight files by (issuer, weight digest), and all that descends from one of them alone.

    ROOT/ISSUER/DIGEST/weights.safetensors   complete, read-only, never changed in place
                       pieces.json           the piece list, whose digest is DIGEST
                       partial               a download that is not complete
                       derived/              what was computed from these weights alone
    ROOT/scratch/                            on its way in or out; emptied whenever the store is opened

Rule 1: a folder is named by a parsed peer id and a digest; no text that a peer chose is ever a path.
Rule 2: weights appear whole, by rename, after everything under them is on the disk.
Rule 3: bytes are hashed again on each read; a damaged file counts as a partial download from then on.
Rule 4: one rename takes an artifact and all that descends from it out of reach; then the bytes are removed.
"""

import contextlib
import re
import secrets
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from fednode import disk, failpoints
from fednode.errors import PeerError, StorageError
from fednode.lineage import Pair
from fednode.partial import Partial, read_piece
from fednode_crypto.digest import PieceList, piece_hash, piece_list
from fednode_crypto.errors import DigestError, PeerIdError
from fednode_crypto.identity import PeerId, public_bytes

__all__ = ["Partial", "Store", "StoreLimits"]

WEIGHTS, PIECES, PARTIAL, DERIVED, SCRATCH = "weights.safetensors", "pieces.json", "partial", "derived", "scratch"

_DIGEST = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True)
class StoreLimits:
    """Bytes of weights that one peer and all together may take here, and free bytes to leave on the disk."""

    issuer: int = 64 * 2**30
    total: int = 512 * 2**30
    spare: int = 256 * 2**20


def free_bytes(folder: Path) -> int:
    """Free bytes on the disk of `folder`."""
    return shutil.disk_usage(folder).free


class Store:
    """One folder of weight files; one process at a time may open it, `ingest` and `verify` may run in a thread beside it.

    `free` tells the free bytes of a disk.
    """

    def __init__(self, root: Path, limits: StoreLimits | None = None, free: Callable[[Path], int] = free_bytes) -> None:
        self._root = root
        self._limits = limits or StoreLimits()
        self._free = free
        self._held: dict[Pair, PieceList] = {}
        self._partial: dict[Pair, PieceList] = {}
        with disk.storage_errors():
            disk.make_folder(root)
            shutil.rmtree(root / SCRATCH, ignore_errors=True)
            disk.make_folder(root / SCRATCH)
            for pair in list(self._folders()):
                self._settle(pair)

    def files(self) -> frozenset[Pair]:
        """The artifacts whose weights are here and complete."""
        return frozenset(self._held)

    def partials(self) -> frozenset[Pair]:
        """The artifacts of which only a part is here; `erase` removes it."""
        return frozenset(self._partial)

    def pieces(self, pair: Pair) -> PieceList:
        """The piece list of complete weights. Raises StorageError if they are not here."""
        if pair not in self._held:
            raise StorageError(f"The weights {pair.digest[:12]} of {pair.issuer} are not here.")
        return self._held[pair]

    def path(self, pair: Pair) -> Path:
        """The file of complete weights. Raises StorageError if they are not here."""
        self.pieces(pair)
        return self._folder(pair) / WEIGHTS

    def derived(self, pair: Pair) -> Path:
        """The folder for what descends from these weights alone. Raises StorageError if they are not here."""
        self.pieces(pair)
        folder = self._folder(pair) / DERIVED
        with disk.storage_errors():
            disk.make_folder(folder)
        return folder

    def ingest(self, source: Path, issuer: PeerId) -> PieceList:
        """Copy the weights in the file `source` into the store; nothing new happens if they are here already.

        Raises StorageError if there is no room, or if `source` can't be read.
        """
        copy = self._scratch()
        with disk.storage_errors():
            self._make_room(source.stat().st_size)
            try:
                pieces = _copied(source, copy)
                failpoints.hit("store.copied")
                self._place(Pair(issuer, pieces.digest), pieces, copy)
            finally:
                copy.unlink(missing_ok=True)
        return pieces

    def read_piece(self, pair: Pair, index: int) -> bytes:
        """Piece `index` of complete weights, hashed again.

        Raises PeerError `bad-piece` if there is no such piece, and StorageError if the file is missing or damaged; it is
        then set aside, so that it is fetched or fitted again.
        """
        pieces = self.pieces(pair)
        if not 0 <= index < len(pieces.pieces):
            raise PeerError("bad-piece", f"There is no piece {index} of {pair.digest[:12]}.")
        data = read_piece(self._folder(pair) / WEIGHTS, pieces, index)
        if piece_hash(data) != pieces.pieces[index]:
            self._set_aside(pair)
            raise StorageError(
                f"The weights {pair.digest[:12]} of {pair.issuer} are damaged on the disk.", "They are made again."
            )
        return data

    def verify(self, pair: Pair) -> bool:
        """Whether complete weights are here and undamaged; damaged ones are set aside."""
        try:
            for index in range(len(self.pieces(pair).pieces)):
                self.read_piece(pair, index)
        except StorageError:
            return False
        return True

    def partial(self, pair: Pair, pieces: PieceList) -> Partial:
        """A download of `pair`, resumed where one was left; its verified pieces are found again by their hashes.

        Raises PeerError `bad-pieces` if the list is not that of `pair`, PeerError `quota` if its issuer would take too much
        room, and StorageError if the disk has no room, or if the weights are here already.
        """
        if pieces.digest != pair.digest:
            raise PeerError("bad-pieces", f"The piece list of {pair.digest[:12]} does not match its digest.")
        if pair in self._held:
            raise StorageError(f"The weights {pair.digest[:12]} of {pair.issuer} are here already.")
        folder = self._folder(pair)
        with disk.storage_errors():
            self._check_quota(pair, pieces.size)
            self._make_room(pieces.size - disk.size(folder / PARTIAL), besides=pair)
            self._make_folder(folder)
            self._write_pieces(folder, pieces)
            disk.write_at(folder / PARTIAL, 0, b"")
        self._partial[pair] = pieces
        return Partial(folder / PARTIAL, pieces, lambda: self._place(pair, pieces, folder / PARTIAL))

    def erase(self, pair: Pair) -> None:
        """Remove all there is of an artifact: weights, partial download, and what descends from it alone."""
        with disk.storage_errors():
            self._discard(pair)

    def _folders(self) -> Iterator[Pair]:
        for issuer in disk.subfolders(self._root):
            for digest in disk.subfolders(issuer):
                with contextlib.suppress(PeerError):
                    pair = Pair(PeerId(issuer.name), digest.name)
                    self._folder(pair)
                    yield pair

    def _folder(self, pair: Pair) -> Path:
        """Rule 1."""
        try:
            public_bytes(pair.issuer)
        except PeerIdError as error:
            raise PeerError("bad-name", f"The issuer of an artifact is no peer id: {error}") from None
        if not _DIGEST.fullmatch(pair.digest):
            raise PeerError("bad-name", "The digest of an artifact is not 64 hex digits.")
        return self._root / pair.issuer / pair.digest

    def _settle(self, pair: Pair) -> None:
        """Find out what a folder holds after a start, and remove what is no use to anybody."""
        folder = self._folder(pair)
        pieces = _load_pieces(folder / PIECES, pair.digest)
        if pieces is None:
            self._discard(pair)
        elif disk.size(folder / WEIGHTS) == pieces.size:
            (folder / PARTIAL).unlink(missing_ok=True)
            self._held[pair] = pieces
        elif (folder / WEIGHTS).exists():
            self._held[pair] = pieces
            self._set_aside(pair)
        elif (folder / PARTIAL).exists():
            self._partial[pair] = pieces
        else:
            self._discard(pair)

    def _check_quota(self, pair: Pair, size: int) -> None:
        held = {**self._partial, **self._held}
        used = sum(pieces.size for other, pieces in held.items() if other.issuer == pair.issuer and other != pair)
        if used + size > self._limits.issuer:
            raise PeerError("quota", f"The weights of {pair.issuer} would take over {self._limits.issuer} bytes here.")

    def _make_room(self, size: int, besides: Pair | None = None) -> None:
        """Raise StorageError unless `size` more bytes fit beside all that is here or was begun."""
        begun = {pair: pieces.size for pair, pieces in dict(self._partial).items() if pair != besides}
        reserved = sum(whole - disk.size(self._folder(pair) / PARTIAL) for pair, whole in begun.items())
        if size + reserved + self._limits.spare > self._free(self._root):
            raise StorageError(
                f"The disk has no room for {size} more bytes.", "Free some space; the node goes on by itself."
            )
        held = sum(pieces.size for pieces in list(self._held.values()))
        if size + held + sum(begun.values()) > self._limits.total:
            raise StorageError(f"The store would grow over its limit of {self._limits.total} bytes.")

    def _place(self, pair: Pair, pieces: PieceList, file: Path) -> None:
        """Rule 2."""
        folder = self._folder(pair)
        disk.sync(file)
        failpoints.hit("store.synced")
        self._make_folder(folder)
        self._write_pieces(folder, pieces)
        file.chmod(0o400)
        file.rename(folder / WEIGHTS)
        disk.sync(folder)
        failpoints.hit("store.placed")
        (folder / PARTIAL).unlink(missing_ok=True)
        self._partial.pop(pair, None)
        self._held[pair] = pieces

    def _set_aside(self, pair: Pair) -> None:
        """Rule 3: the pieces that are still good need not be fetched again."""
        folder = self._folder(pair)
        pieces = self._held.pop(pair)
        with disk.storage_errors(), contextlib.suppress(FileNotFoundError):
            (folder / WEIGHTS).rename(folder / PARTIAL)
            (folder / PARTIAL).chmod(0o600)
            self._partial[pair] = pieces

    def _discard(self, pair: Pair) -> None:
        """Rule 4."""
        folder, grave = self._folder(pair), self._scratch()
        failpoints.hit("store.erase")
        if folder.exists():
            folder.rename(grave)
            disk.sync(folder.parent)
        self._held.pop(pair, None)
        self._partial.pop(pair, None)
        failpoints.hit("store.unlinked")
        if grave.exists():
            shutil.rmtree(grave)
            disk.sync(grave.parent)
        with contextlib.suppress(OSError):  # another artifact of this issuer is still there
            folder.parent.rmdir()
        failpoints.hit("store.erased")

    def _scratch(self) -> Path:
        return self._root / SCRATCH / secrets.token_hex(16)

    def _make_folder(self, folder: Path) -> None:
        disk.make_folder(folder.parent)
        disk.make_folder(folder)

    def _write_pieces(self, folder: Path, pieces: PieceList) -> None:
        temporary = self._scratch()
        disk.write_new(temporary, pieces.to_bytes())
        failpoints.hit("store.described")
        temporary.rename(folder / PIECES)
        disk.sync(folder)


def _load_pieces(path: Path, digest: str) -> PieceList | None:
    """The piece list in a file, None if there is none whose digest is `digest`."""
    try:
        pieces = PieceList.from_bytes(disk.read_at(path, 0, disk.size(path)))
    except DigestError:
        return None
    return pieces if pieces.digest == digest else None


def _copied(source: Path, copy: Path) -> PieceList:
    """Copy a file; the piece list is that of the copy."""
    disk.copy(source, copy)
    with copy.open("rb") as stream:
        try:
            return piece_list(stream)
        except DigestError as error:
            raise StorageError(f"The weight file can't be stored: {error}") from error
