import os
import stat
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from fednode_crypto import keyfile
from fednode_crypto.errors import KeyFileError
from fednode_crypto.identity import Identity


def test_a_saved_identity_is_loaded_again(tmp_path: Path) -> None:
    identity, path = Identity.generate(), tmp_path / "identity.pem"
    identity.save(path)
    assert Identity.load(path).peer_id == identity.peer_id
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert path.read_bytes().startswith(b"-----BEGIN PRIVATE KEY-----\n")
    assert list(tmp_path.iterdir()) == [path]


def test_the_mode_is_0600_under_any_umask(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        Identity.generate().save(tmp_path / "identity.pem")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "identity.pem").stat().st_mode) == 0o600


def test_saving_never_replaces_what_is_there(tmp_path: Path) -> None:
    path = tmp_path / "identity.pem"
    first = Identity.generate()
    first.save(path)
    with pytest.raises(KeyFileError, match="already a key"):
        Identity.generate().save(path)
    assert Identity.load(path).peer_id == first.peer_id
    assert list(tmp_path.iterdir()) == [path]


def test_saving_does_not_follow_a_symbolic_link(tmp_path: Path) -> None:
    path = tmp_path / "identity.pem"
    path.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(KeyFileError, match="already a key"):
        Identity.generate().save(path)
    assert not (tmp_path / "elsewhere").exists()


@pytest.mark.parametrize("folder", ["missing", "file"])
def test_saving_where_nothing_can_be_written_says_so(tmp_path: Path, folder: str) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(KeyFileError, match="can't be written"):
        Identity.generate().save(tmp_path / folder / "identity.pem")


def test_a_write_that_fails_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(KeyFileError, match="No space left"):
        Identity.generate().save(tmp_path / "identity.pem")
    assert not list(tmp_path.iterdir())


def test_file_and_folder_are_both_flushed_to_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    flushed = []
    monkeypatch.setattr("os.fsync", lambda descriptor: flushed.append(os.fstat(descriptor).st_mode))
    Identity.generate().save(tmp_path / "identity.pem")
    assert [stat.S_ISREG(flushed[0]), stat.S_ISDIR(flushed[1])] == [True, True]


@pytest.fixture
def key_path(tmp_path: Path) -> Path:
    path = tmp_path / "identity.pem"
    Identity.generate().save(path)
    return path


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o604, 0o620, 0o610, 0o601])
def test_a_key_that_others_may_use_is_refused_and_the_remedy_named(key_path: Path, mode: int) -> None:
    key_path.chmod(mode)
    with pytest.raises(KeyFileError, match=f"mode {mode:04o}") as caught:
        Identity.load(key_path)
    assert caught.value.hint == f"Run `chmod 600 {key_path}`."


def test_a_key_that_its_owner_can_only_read_is_fine(key_path: Path) -> None:
    key_path.chmod(0o400)
    Identity.load(key_path)


def test_a_key_of_another_user_is_refused(key_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    somebody = os.geteuid() + 1
    monkeypatch.setattr("os.geteuid", lambda: somebody)
    with pytest.raises(KeyFileError, match=f"runs as user {somebody}"):
        Identity.load(key_path)


def test_a_symbolic_link_is_refused(key_path: Path) -> None:
    link = key_path.with_name("link.pem")
    link.symlink_to(key_path)
    with pytest.raises(KeyFileError, match="symbolic link"):
        Identity.load(link)


def test_a_folder_and_a_pipe_are_refused_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe", 0o600)
    for path in (tmp_path, tmp_path / "pipe"):
        with pytest.raises(KeyFileError, match="not a regular file"):
            Identity.load(path)


def test_a_missing_key_is_named(tmp_path: Path) -> None:
    with pytest.raises(KeyFileError, match="There is no key at"):
        Identity.load(tmp_path / "identity.pem")


def pem(key: Ed25519PrivateKey | X25519PrivateKey, encryption: serialization.KeySerializationEncryption) -> bytes:
    return key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, encryption)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "no readable PEM key"),
        (b"\xff\x00 rubbish" * 1000, "no readable PEM key"),
        (pem(Ed25519PrivateKey.generate(), serialization.NoEncryption())[:80], "no readable PEM key"),
        (
            pem(Ed25519PrivateKey.generate(), serialization.BestAvailableEncryption(b"secret")),
            "no readable PEM key",
        ),
        (pem(X25519PrivateKey.generate(), serialization.NoEncryption()), "not an Ed25519 key"),
    ],
)
def test_a_file_without_our_kind_of_key_is_refused(tmp_path: Path, content: bytes, reason: str) -> None:
    path = tmp_path / "identity.pem"
    keyfile.write_new(path, content)
    with pytest.raises(KeyFileError, match=reason):
        Identity.load(path)
