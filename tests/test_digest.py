import hashlib
import io
import json

import pytest

from fednode_crypto.digest import PIECE_SIZE, PieceList, digest_json, piece_hash, piece_list, sha256_hex
from fednode_crypto.errors import DigestError, StrictJsonError

HASH = "ab" * 32


def test_sha256_hex_gives_the_published_value_for_abc() -> None:
    expected = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"  # FIPS 180-2, appendix B.1
    assert sha256_hex(b"abc") == expected
    assert piece_hash(b"abc") == expected


def test_digest_json_hashes_label_zero_byte_and_canonical_json() -> None:
    expected = hashlib.sha256(b'fednode/x/v1\0{"a":[1,2],"b":null}').hexdigest()
    assert digest_json("fednode/x/v1", {"b": None, "a": (1, 2)}) == expected


def test_digest_json_differs_between_labels_and_between_types() -> None:
    digests = {digest_json(label, value) for label in ("a", "b") for value in (1, "1", True, [1], None)}
    assert len(digests) == 10


def test_digest_json_refuses_floats() -> None:
    with pytest.raises(StrictJsonError):
        digest_json("a", [0.5])  # type: ignore[list-item]


@pytest.mark.parametrize("size", [1, PIECE_SIZE - 1, PIECE_SIZE, PIECE_SIZE + 1, 2 * PIECE_SIZE])
def test_piece_list_cuts_the_bytes_every_mebibyte(size: int) -> None:
    data = bytes(index % 251 for index in range(1000)) * (size // 1000 + 1)
    data = data[:size]
    pieces = [data[start : start + 2**20] for start in range(0, size, 2**20)]

    result = piece_list(io.BytesIO(data))

    assert (result.size, result.piece_size) == (size, 2**20)
    assert result.pieces == tuple(hashlib.sha256(piece).hexdigest() for piece in pieces)
    assert [result.length(index) for index in range(len(pieces))] == [len(piece) for piece in pieces]


class Trickle(io.BytesIO):
    """A stream that gives at most 300,000 bytes at once, as pipes and sockets do."""

    def read(self, size: int | None = -1, /) -> bytes:
        return super().read(min(size or 0, 300_000))


def test_piece_list_does_not_depend_on_how_much_a_read_returns() -> None:
    data = b"x" * (PIECE_SIZE + 1000)
    assert piece_list(Trickle(data)) == piece_list(io.BytesIO(data))


def test_piece_list_refuses_weights_without_bytes() -> None:
    with pytest.raises(DigestError, match="size is 0"):
        piece_list(io.BytesIO())


def test_the_weight_digest_covers_size_piece_size_and_every_hash_in_order() -> None:
    text = f'{{"piece_size":10,"pieces":["{HASH}","{"cd" * 32}"],"size":15}}'
    base = PieceList(15, 10, (HASH, "cd" * 32))
    assert base.digest == hashlib.sha256(b"fednode/weights/v1\0" + text.encode()).hexdigest()

    others = [
        PieceList(16, 10, base.pieces),
        PieceList(15, 11, base.pieces),
        PieceList(15, 10, base.pieces[::-1]),
    ]
    assert len({base.digest, *(other.digest for other in others)}) == 4


def test_a_piece_list_comes_back_from_its_bytes() -> None:
    pieces = piece_list(io.BytesIO(b"y" * 3_000_000))
    assert PieceList.from_bytes(pieces.to_bytes()) == pieces


def test_the_longest_piece_list_comes_back_from_its_bytes() -> None:
    longest = PieceList(2**35, PIECE_SIZE, (HASH,) * 2**15)
    assert PieceList.from_bytes(longest.to_bytes()) == longest


@pytest.mark.parametrize(
    ("size", "piece_size", "pieces"),
    [
        (0, 10, ()),
        (-5, 10, ()),
        (20, 0, (HASH, HASH)),
        (20, PIECE_SIZE + 1, (HASH,)),
        (20, 10, (HASH,)),
        (20, 10, (HASH, HASH, HASH)),
        (2**15 * 10 + 1, 10, (HASH,) * (2**15 + 1)),
        (10, 10, (HASH.upper(),)),
        (10, 10, (HASH + "\n",)),
        (10, 10, (HASH[:-1],)),
    ],
)
def test_a_piece_list_that_does_not_hold_together_is_refused(
    size: int, piece_size: int, pieces: tuple[str, ...]
) -> None:
    with pytest.raises(DigestError):
        PieceList(size, piece_size, pieces)
    with pytest.raises(DigestError):
        PieceList.from_bytes(json.dumps({"size": size, "piece_size": piece_size, "pieces": pieces}).encode())


GOOD = {"size": 1, "piece_size": 1, "pieces": [HASH]}


@pytest.mark.parametrize(
    "value",
    [
        [],
        {"size": 1, "piece_size": 1},
        GOOD | {"extra": 1},
        GOOD | {"size": True},
        GOOD | {"size": "1"},
        GOOD | {"piece_size": None},
        GOOD | {"pieces": HASH},
        GOOD | {"pieces": {HASH: 1}},
        GOOD | {"pieces": [1]},
    ],
)
def test_bytes_of_another_shape_are_no_piece_list(value: object) -> None:
    with pytest.raises(DigestError):
        PieceList.from_bytes(json.dumps(value).encode())


def test_bytes_beyond_the_longest_possible_list_are_not_even_parsed() -> None:
    with pytest.raises(DigestError, match="at most"):
        PieceList.from_bytes(b"[" * 2**22)


@pytest.mark.parametrize("index", [-1, 2])
def test_a_piece_that_is_not_there_has_no_length(index: int) -> None:
    with pytest.raises(DigestError, match="no piece"):
        PieceList(15, 10, (HASH, HASH)).length(index)
