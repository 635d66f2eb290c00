import base64
import hashlib

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import given, settings
from hypothesis import strategies as st

from fednode_crypto import curve
from fednode_crypto.errors import PeerIdError
from fednode_crypto.identity import Identity, PeerId, parse_peer_id, peer_id_of, public_bytes, verify

# RFC 8032, section 7.1, tests 1 and 2; the text was made with sha256sum and base32 of GNU coreutils.
PUBLIC = bytes.fromhex("d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a")
TEXT = "fn1-25njqamc-weflpvkl-73j4szah-hihoc4xt-3ktcgjnp-aingr5yh-kencd7rr"
PUBLIC_2 = bytes.fromhex("3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c")
SIGNATURE_2 = bytes.fromhex(
    "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da"
    "085ac1e43e15996e458f3613d0f11d8c387b2eaeb4302aeeb00d291612bb0c00"
)

# Every 32-byte string that a lenient decoder takes for a point of order 1, 2, 4 or 8: the seven y of libsodium's
# list, two of them not reduced, each with both signs.
SMALL_Y = [
    "0000000000000000000000000000000000000000000000000000000000000000",
    "0100000000000000000000000000000000000000000000000000000000000000",
    "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05",
    "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a",
    "ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
    "edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
    "eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
]
SMALL_ORDER = [text for y in SMALL_Y for text in (y, y[:62] + f"{int(y[62:], 16) | 0x80:02x}")]


def text_of(public: bytes) -> str:
    return "fn1-" + base64.b32encode(public + hashlib.sha256(public).digest()[:3]).decode()


def test_a_peer_id_is_the_key_itself_as_text() -> None:
    assert peer_id_of(PUBLIC) == TEXT
    assert public_bytes(PeerId(TEXT)) == PUBLIC
    assert parse_peer_id(TEXT) == TEXT


@pytest.mark.parametrize(
    "text",
    [
        TEXT.upper(),
        TEXT.replace("-", ""),
        TEXT.replace("-", " "),
        TEXT.replace("-", "\n  "),
        TEXT.replace("-", "\u2011"),  # non-breaking hyphen
        TEXT.replace("-", "\u2014"),  # em dash of a word processor
        TEXT.replace("-", "\u2212"),  # minus sign
        "\ufeff" + TEXT + "\r\n",
        "\u200b\u200e".join(TEXT),
        "\u00a0" + TEXT + "\u2009",
    ],
)
def test_case_spaces_dashes_and_invisible_characters_do_not_matter(text: str) -> None:
    assert parse_peer_id(text) == TEXT


@pytest.mark.parametrize("text", ["", "fn", "fn2" + TEXT[3:], TEXT[4:], "x" + TEXT, "\u212a" + TEXT[1:]])
def test_another_prefix_is_named(text: str) -> None:
    with pytest.raises(PeerIdError, match="begins with fn1-"):
        parse_peer_id(text)


@pytest.mark.parametrize(
    ("bad", "hint"),
    [("0", "Is it 'o'"), ("1", "Is it 'l'"), ("8", "Is it 'b'"), ("9", "2 to 7"), ("é", "2 to 7"), ("ſ", "2 to 7")],
)
def test_a_wrong_character_is_named_with_its_position_in_the_text_as_given(bad: str, hint: str) -> None:
    with pytest.raises(PeerIdError, match=f"Character '{bad}' at position 20 ") as caught:
        parse_peer_id(TEXT[:19] + bad + TEXT[20:])
    assert hint in caught.value.hint


@pytest.mark.parametrize(("text", "difference"), [(TEXT[:-3], "3 are missing"), (TEXT + "aa", "2 are too many")])
def test_a_wrong_length_is_named(text: str, difference: str) -> None:
    with pytest.raises(PeerIdError, match=difference):
        parse_peer_id(text)


@given(st.integers(0, 55), st.sampled_from("abcdefghijklmnopqrstuvwxyz234567"))
@settings(max_examples=100, deadline=None)
def test_a_mistyped_character_never_gives_another_peer(at: int, char: str) -> None:
    digits = TEXT[4:].replace("-", "")
    typed = digits[:at] + char + digits[at + 1 :]
    if typed == digits:
        assert parse_peer_id("fn1" + typed) == TEXT
    else:
        with pytest.raises(PeerIdError, match="checksum"):
            parse_peer_id("fn1" + typed)


@given(st.text(max_size=80) | st.text(alphabet="fn1-abcdefghij234567 ", max_size=80).map("fn1".__add__))
@settings(max_examples=200, deadline=None)
def test_arbitrary_text_is_no_peer_id(text: str) -> None:
    with pytest.raises(PeerIdError):
        parse_peer_id(text)


@pytest.mark.parametrize("encoding", SMALL_ORDER)
def test_every_encoding_of_a_small_order_point_is_refused(encoding: str) -> None:
    assert len(set(SMALL_ORDER)) == 14
    with pytest.raises(PeerIdError, match=r"small order|not canonical"):
        parse_peer_id(text_of(bytes.fromhex(encoding)))


@pytest.mark.parametrize("index", [0, 1, 4, 5, 6, 7, 8])
def test_a_small_order_point_in_canonical_encoding_is_refused_for_its_order(index: int) -> None:
    with pytest.raises(PeerIdError, match="small order"):
        peer_id_of(bytes.fromhex(SMALL_ORDER[index]))


@pytest.mark.parametrize("index", [3, 9])
def test_a_sign_where_x_is_zero_is_refused(index: int) -> None:
    with pytest.raises(PeerIdError, match="sign that is not canonical"):
        peer_id_of(bytes.fromhex(SMALL_ORDER[index]))


def test_a_y_beyond_the_prime_is_refused_although_it_is_a_point() -> None:
    not_reduced = (2**255 - 19 + 3).to_bytes(32, "little")  # y = 3 is a point of large order
    peer_id_of((3).to_bytes(32, "little"))
    with pytest.raises(PeerIdError, match="y that is not canonical"):
        peer_id_of(not_reduced)


def test_half_of_all_y_are_no_point_and_are_refused() -> None:
    with pytest.raises(PeerIdError, match="no point of the curve"):
        peer_id_of((2).to_bytes(32, "little"))


@pytest.mark.parametrize("length", [0, 31, 33])
def test_a_key_of_another_length_is_refused(length: int) -> None:
    with pytest.raises(PeerIdError, match="32 bytes"):
        peer_id_of(bytes(length))


def test_the_base_point_has_the_group_order_of_rfc_8032() -> None:
    base = curve.decompress(bytes.fromhex("58" + "66" * 31))
    order = 2**252 + 27742317777372353535851937790883648493
    total, power = curve.IDENTITY, base
    for bit in reversed(f"{order:b}"):
        total = curve.add(total, power) if bit == "1" else total
        power = curve.add(power, power)
    assert base[0] == 15112221349535400772501151409588531511454012693041857206046113283949847762202
    assert total == curve.IDENTITY


def test_keys_that_are_generated_are_all_accepted() -> None:
    for _ in range(20):
        public = Ed25519PrivateKey.generate().public_key().public_bytes_raw()
        assert public_bytes(parse_peer_id(text_of(public))) == public


@pytest.mark.parametrize("text", [TEXT.upper(), TEXT.replace("-", ""), "fn1-x"])
def test_a_peer_id_that_was_never_parsed_gives_no_key(text: str) -> None:
    with pytest.raises(PeerIdError):
        public_bytes(PeerId(text))


def test_signatures_are_those_of_rfc_8032() -> None:
    assert verify(peer_id_of(PUBLIC_2), SIGNATURE_2, b"\x72")
    assert not verify(peer_id_of(PUBLIC_2), SIGNATURE_2, b"\x73")
    assert not verify(peer_id_of(PUBLIC), SIGNATURE_2, b"\x72")
    assert not verify(peer_id_of(PUBLIC_2), SIGNATURE_2[:-1], b"\x72")


def test_a_signature_with_the_group_order_added_is_refused() -> None:
    scalar = int.from_bytes(SIGNATURE_2[32:], "little") + 2**252 + 27742317777372353535851937790883648493
    assert not verify(peer_id_of(PUBLIC_2), SIGNATURE_2[:32] + scalar.to_bytes(32, "little"), b"\x72")


def test_an_identity_signs_what_its_peer_id_verifies() -> None:
    one, other = Identity.generate(), Identity.generate()
    signature = one.sign(b"data")
    assert verify(one.peer_id, signature, b"data")
    assert not verify(other.peer_id, signature, b"data")


def test_the_private_key_shows_in_no_representation() -> None:
    identity = Identity.generate()
    assert repr(identity) == str(identity) == f"Identity({identity.peer_id})"
