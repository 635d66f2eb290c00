"""The home's secret: made once, private, and telling nothing of itself in what is derived from it."""

import hashlib
import hmac
from pathlib import Path

import pytest

from fednode_crypto.errors import KeyFileError
from fednode_crypto.secret import derive, load_or_make


def test_a_secret_is_made_once_and_is_private(tmp_path: Path) -> None:
    path = tmp_path / "secret.key"
    first = load_or_make(path)
    assert len(first) == 32
    assert path.stat().st_mode & 0o777 == 0o600
    assert load_or_make(path) == first
    assert load_or_make(tmp_path / "other.key") != first


def test_a_secret_that_others_can_read_or_that_is_cut_off_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "secret.key"
    load_or_make(path)
    path.chmod(0o644)
    with pytest.raises(KeyFileError, match="0644"):
        load_or_make(path)
    path.chmod(0o600)
    path.write_bytes(b"short")
    with pytest.raises(KeyFileError, match="32 bytes"):
        load_or_make(path)


def test_what_is_derived_is_that_of_rfc_5869_and_differs_by_purpose_and_spec() -> None:
    secret, digest = b"s" * 32, "d" * 64
    inner = hmac.new(b"\0" * 32, secret, hashlib.sha256).digest()
    expected = hmac.new(inner, b"purpose\0" + digest.encode() + b"\x01", hashlib.sha256).digest()
    assert derive(secret, b"purpose", digest) == expected
    assert (
        len(
            {derive(secret, b"purpose", digest), derive(secret, b"other", digest), derive(secret, b"purpose", "e" * 64)}
        )
        == 3
    )
