"""The store: whole files or none, verified on each read, and nothing left after an erasure."""

import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest
from crashing import dies_at
from making import digest, identity

from fednode import failpoints
from fednode.errors import PeerError, StorageError
from fednode.lineage import Pair
from fednode.store import Store, StoreLimits
from fednode_crypto.digest import PIECE_SIZE, PieceList, piece_list
from fednode_crypto.identity import PeerId

A, B = identity(1).peer_id, identity(2).peer_id
STORE_FAILPOINTS = sorted(name for name in failpoints.NAMES if name.startswith("store."))
MARK = b"these bytes are easy to find"
BYTES = MARK + bytes(range(256)) * 6000 + b"the last piece is short"


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "source"
    path.write_bytes(BYTES)
    return path


def store_at(tmp_path: Path, limits: StoreLimits | None = None, free: int = 10**12) -> Store:
    return Store(tmp_path / "store", limits, lambda _: free)


def pieces_of(data: bytes) -> list[bytes]:
    return [data[at : at + PIECE_SIZE] for at in range(0, len(data), PIECE_SIZE)]


def list_of(path: Path) -> PieceList:
    with path.open("rb") as stream:
        return piece_list(stream)


def fetch(store: Store, pair: Pair, pieces: PieceList, data: bytes = BYTES) -> None:
    partial = store.partial(pair, pieces)
    for index in partial.missing():
        partial.write(index, pieces_of(data)[index])
    partial.finish()


def all_bytes(folder: Path) -> bytes:
    return b"".join(path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file())


def test_ingested_weights_are_there_after_reopening(tmp_path: Path, source: Path) -> None:
    pieces = store_at(tmp_path).ingest(source, A)
    pair = Pair(A, pieces.digest)
    store = store_at(tmp_path)
    assert store.files() == {pair}
    assert store.pieces(pair) == pieces == list_of(source)
    assert store.path(pair).read_bytes() == BYTES
    assert [store.read_piece(pair, index) for index in range(2)] == pieces_of(BYTES)
    assert store.verify(pair)


def test_ingesting_again_changes_nothing_and_leaves_the_source(tmp_path: Path, source: Path) -> None:
    store = store_at(tmp_path)
    first = store.ingest(source, A)
    before = all_bytes(tmp_path / "store")
    assert store.ingest(source, A) == first
    assert all_bytes(tmp_path / "store") == before
    assert source.read_bytes() == BYTES


def test_an_empty_file_is_no_weights(tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.touch()
    store = store_at(tmp_path)
    with pytest.raises(StorageError):
        store.ingest(empty, A)
    assert store.files() == frozenset()


def test_only_the_owner_can_read_and_nobody_writes_weights(tmp_path: Path, source: Path) -> None:
    store = store_at(tmp_path)
    pair = Pair(A, store.ingest(source, A).digest)
    store.derived(pair)
    modes = {path: stat.S_IMODE(path.lstat().st_mode) for path in (tmp_path / "store").rglob("*")}
    assert modes[store.path(pair)] == 0o400
    assert all(mode & 0o077 == 0 for mode in modes.values())


def test_a_damaged_piece_is_never_handed_out_and_only_that_piece_is_fetched_again(tmp_path: Path, source: Path) -> None:
    store = store_at(tmp_path)
    pieces = store.ingest(source, A)
    pair = Pair(A, pieces.digest)
    path = store.path(pair)
    path.chmod(0o600)
    path.write_bytes(BYTES[:-1] + b"!")
    assert store.read_piece(pair, 0) == pieces_of(BYTES)[0]
    with pytest.raises(StorageError, match="damaged"):
        store.read_piece(pair, 1)
    assert store.files() == frozenset()
    assert store.partials() == {pair}
    assert store.partial(pair, pieces).missing() == [1]
    fetch(store, pair, pieces)
    assert store.verify(pair)


@pytest.mark.parametrize("harm", [lambda path: path.unlink(), lambda path: (path.chmod(0o600), path.write_bytes(b"x"))])
def test_missing_or_cut_weights_do_not_verify(tmp_path: Path, source: Path, harm: Callable[[Path], object]) -> None:
    store = store_at(tmp_path)
    pair = Pair(A, store.ingest(source, A).digest)
    harm(store.path(pair))
    assert not store.verify(pair)
    assert store.files() == frozenset()
    assert store_at(tmp_path).files() == frozenset()


def test_a_download_resumes_at_the_first_missing_piece_after_a_restart(tmp_path: Path, source: Path) -> None:
    pieces = list_of(source)
    pair = Pair(B, pieces.digest)
    partial = store_at(tmp_path).partial(pair, pieces)
    assert partial.missing() == [0, 1]
    partial.write(0, pieces_of(BYTES)[0])
    store = store_at(tmp_path)
    assert store.partials() == {pair}
    assert store.partial(pair, pieces).missing() == [1]
    fetch(store, pair, pieces)
    assert store.files() == {pair}
    assert store.partials() == frozenset()
    assert store.path(pair).read_bytes() == BYTES


def test_pieces_may_come_in_any_order(tmp_path: Path, source: Path) -> None:
    pieces = list_of(source)
    partial = store_at(tmp_path).partial(Pair(B, pieces.digest), pieces)
    partial.write(1, pieces_of(BYTES)[1])
    assert partial.missing() == [0]


@pytest.mark.parametrize(("index", "data"), [(0, b"other bytes"), (1, BYTES[:PIECE_SIZE]), (2, b""), (-1, b"")])
def test_a_piece_that_does_not_match_its_hash_is_not_written(
    tmp_path: Path, source: Path, index: int, data: bytes
) -> None:
    pieces = list_of(source)
    pair = Pair(B, pieces.digest)
    partial = store_at(tmp_path).partial(pair, pieces)
    with pytest.raises(PeerError) as caught:
        partial.write(index, data)
    assert caught.value.code == "bad-piece"
    assert partial.missing() == [0, 1]
    assert store_at(tmp_path).partial(pair, pieces).missing() == [0, 1]


def test_a_piece_list_of_another_artifact_is_refused(tmp_path: Path, source: Path) -> None:
    with pytest.raises(PeerError) as caught:
        store_at(tmp_path).partial(Pair(B, digest("another")), list_of(source))
    assert caught.value.code == "bad-pieces"


def test_an_incomplete_download_does_not_become_weights(tmp_path: Path, source: Path) -> None:
    pieces = list_of(source)
    store = store_at(tmp_path)
    partial = store.partial(Pair(B, pieces.digest), pieces)
    partial.write(0, pieces_of(BYTES)[0])
    with pytest.raises(StorageError, match="not complete"):
        partial.finish()
    assert store.files() == frozenset()


def test_there_is_no_piece_beyond_the_last(tmp_path: Path, source: Path) -> None:
    store = store_at(tmp_path)
    pair = Pair(A, store.ingest(source, A).digest)
    for index in (-1, 2):
        with pytest.raises(PeerError):
            store.read_piece(pair, index)


def test_complete_weights_are_not_downloaded_again(tmp_path: Path, source: Path) -> None:
    store = store_at(tmp_path)
    pieces = store.ingest(source, A)
    with pytest.raises(StorageError, match="already"):
        store.partial(Pair(A, pieces.digest), pieces)


def test_erasing_leaves_nothing_of_weights_samples_and_downloads(tmp_path: Path, source: Path) -> None:
    store = store_at(tmp_path)
    pieces = store.ingest(source, A)
    complete, begun = Pair(A, pieces.digest), Pair(B, pieces.digest)
    (store.derived(complete) / "samples").write_bytes(MARK)
    store.partial(begun, pieces).write(0, pieces_of(BYTES)[0])
    store.erase(complete)
    store.erase(begun)
    assert MARK not in all_bytes(tmp_path / "store")
    assert store.files() == store.partials() == frozenset()
    assert [path.name for path in (tmp_path / "store").iterdir()] == ["scratch"]
    with pytest.raises(StorageError, match="not here"):
        store.path(complete)


def test_erasing_one_issuer_leaves_the_equal_bytes_of_another(tmp_path: Path, source: Path) -> None:
    store = store_at(tmp_path)
    pieces = store.ingest(source, A)
    store.ingest(source, B)
    store.erase(Pair(A, pieces.digest))
    assert store.files() == {Pair(B, pieces.digest)}
    assert store.verify(Pair(B, pieces.digest))


def test_erasing_what_is_not_there_is_no_error(tmp_path: Path) -> None:
    store_at(tmp_path).erase(Pair(A, digest("nothing")))


def test_a_download_that_was_erased_meanwhile_can_not_finish(tmp_path: Path, source: Path) -> None:
    pieces = list_of(source)
    pair = Pair(B, pieces.digest)
    store = store_at(tmp_path)
    partial = store.partial(pair, pieces)
    partial.write(0, pieces_of(BYTES)[0])
    store.erase(pair)
    with pytest.raises(StorageError):
        partial.write(1, pieces_of(BYTES)[1])
    with pytest.raises(StorageError):
        partial.finish()
    assert store.files() == frozenset()
    assert MARK not in all_bytes(tmp_path / "store")


@pytest.mark.parametrize(
    "pair",
    [
        Pair(PeerId("../../outside"), digest("x")),
        Pair(PeerId(A.upper()), digest("x")),
        Pair(A, ".."),
        Pair(A, digest("x").upper()),
        Pair(A, f"{digest('x')}/../../../outside"),
    ],
)
def test_a_name_that_is_no_peer_id_and_digest_never_becomes_a_path(tmp_path: Path, pair: Pair) -> None:
    store = store_at(tmp_path)
    with pytest.raises(PeerError):
        store.erase(pair)
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["scratch", "store"]


def test_links_are_not_followed(tmp_path: Path, source: Path) -> None:
    store = store_at(tmp_path)
    link = tmp_path / "link"
    link.symlink_to(source)
    with pytest.raises(StorageError):
        store.ingest(link, A)
    pieces = list_of(source)
    pair = Pair(B, pieces.digest)
    partial = store.partial(pair, pieces)
    file = next((tmp_path / "store").rglob("partial"))
    target = tmp_path / "target"
    target.write_bytes(b"")
    file.unlink()
    file.symlink_to(target)
    with pytest.raises(StorageError):
        partial.write(0, pieces_of(BYTES)[0])
    assert target.read_bytes() == b""


def test_a_peer_can_not_take_more_room_than_its_quota(tmp_path: Path, source: Path) -> None:
    pieces = list_of(source)
    store = store_at(tmp_path, StoreLimits(issuer=2 * len(BYTES)))
    store.ingest(source, B)
    other = tmp_path / "other"
    other.write_bytes(BYTES + b"x")
    with pytest.raises(PeerError) as caught:
        store.partial(Pair(B, list_of(other).digest), list_of(other))
    assert caught.value.code == "quota"
    store.partial(Pair(A, pieces.digest), pieces)


def test_the_store_stays_within_its_limit_for_all_together(tmp_path: Path, source: Path) -> None:
    store = store_at(tmp_path, StoreLimits(total=2 * len(BYTES) - 1))
    pieces = store.ingest(source, A)
    with pytest.raises(StorageError, match="limit"):
        store.partial(Pair(B, pieces.digest), pieces)


def test_space_that_another_download_will_need_is_not_given_away(tmp_path: Path, source: Path) -> None:
    pieces = list_of(source)
    size = len(BYTES)
    store = store_at(tmp_path, StoreLimits(spare=0), free=2 * size - 1)
    store.partial(Pair(A, pieces.digest), pieces)
    with pytest.raises(StorageError, match="no room"):
        store.partial(Pair(B, pieces.digest), pieces)
    with pytest.raises(StorageError, match="no room"):
        store.ingest(source, B)
    fetch(store, Pair(A, pieces.digest), pieces)
    store.partial(Pair(B, pieces.digest), pieces)


def test_a_nearly_full_disk_is_left_some_bytes(tmp_path: Path, source: Path) -> None:
    with pytest.raises(StorageError, match="no room"):
        store_at(tmp_path, StoreLimits(spare=1), free=len(BYTES)).ingest(source, A)


def whole_life(tmp_path: Path, source: Path) -> None:
    """Everything that the store does to the disk: A's weights are made and erased, B's are fetched."""
    store = store_at(tmp_path)
    pieces = store.ingest(source, A)
    (store.derived(Pair(A, pieces.digest)) / "samples").write_bytes(MARK)
    if Pair(B, pieces.digest) not in store.files():
        fetch(store, Pair(B, pieces.digest), pieces)
    store.erase(Pair(A, pieces.digest))


def check_end(tmp_path: Path, source: Path) -> None:
    store = store_at(tmp_path)
    assert store.files() == {Pair(B, list_of(source).digest)}
    assert store.verify(Pair(B, list_of(source).digest))
    assert all_bytes(tmp_path / "store").count(MARK) == 1
    assert list((tmp_path / "store" / "scratch").iterdir()) == []


@pytest.mark.parametrize("failpoint", STORE_FAILPOINTS)
def test_a_kill_anywhere_leaves_whole_files_and_the_rest_can_be_done_again(
    tmp_path: Path, source: Path, failpoint: str
) -> None:
    assert dies_at(failpoint, lambda: whole_life(tmp_path, source))
    store = store_at(tmp_path)
    assert all(store.verify(pair) for pair in store.files())
    assert list((tmp_path / "store" / "scratch").iterdir()) == []
    whole_life(tmp_path, source)
    check_end(tmp_path, source)


@pytest.mark.parametrize("failpoint", STORE_FAILPOINTS)
def test_a_full_disk_anywhere_is_one_sentence_and_the_rest_can_be_done_later(
    tmp_path: Path, source: Path, monkeypatch: pytest.MonkeyPatch, failpoint: str
) -> None:
    monkeypatch.setenv("FEDNODE_FAILPOINT", f"{failpoint}:enospc")
    with pytest.raises(StorageError, match="The disk is full"):
        whole_life(tmp_path, source)
    monkeypatch.delenv("FEDNODE_FAILPOINT")
    whole_life(tmp_path, source)
    check_end(tmp_path, source)


def test_what_an_interrupted_erasure_left_is_gone_after_the_next_start(tmp_path: Path, source: Path) -> None:
    assert dies_at("store.unlinked", lambda: whole_life(tmp_path, source))
    store = store_at(tmp_path)
    assert Pair(A, list_of(source).digest) not in store.files() | store.partials()
    assert all_bytes(tmp_path / "store").count(MARK) == 1


def test_a_failpoint_that_does_not_exist_is_an_error() -> None:
    with pytest.raises(RuntimeError):
        failpoints.hit("store.nowhere")


def test_files_that_nobody_asked_for_do_not_confuse_the_store(tmp_path: Path) -> None:
    (tmp_path / "store" / "lost+found").mkdir(parents=True)
    (tmp_path / "store" / A / "not a digest").mkdir(parents=True)
    os.mkfifo(tmp_path / "store" / "pipe")
    assert store_at(tmp_path).files() == frozenset()
