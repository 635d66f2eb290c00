"""The home's folders and its lock."""

import os
import signal
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from fednode.config import Home, Lock, ensure_home
from fednode.errors import ConfigError, ExitCode, HomeInUseError, StorageError


@pytest.fixture
def home(tmp_path: Path) -> Home:
    made = Home(tmp_path / "home", tmp_path / "run")
    ensure_home(made)
    return made


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_the_home_is_where_fednode_home_says(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert Home.find({"FEDNODE_HOME": "a/../b"}).root == tmp_path / "b"
    monkeypatch.setenv("HOME", str(tmp_path))
    assert Home.find({"FEDNODE_HOME": "~/c"}).root == tmp_path / "c"


@pytest.mark.parametrize("environ", [{}, {"FEDNODE_HOME": ""}])
def test_without_fednode_home_it_is_the_users_data_folder(tmp_path: Path, monkeypatch, environ) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    assert Home.find(environ).root == tmp_path / "fednode"


def test_everything_but_sockets_and_slots_is_in_the_home(home: Home) -> None:
    inside = (home.identity, home.config, home.peers, home.ledger, home.store, home.work, home.logs, home.lock)
    assert len(set(inside)) == 8
    assert {path.parent for path in inside} == {home.root}
    assert home.control_socket.parent == home.slots.parent == home.runtime


def test_each_home_has_its_own_socket_and_all_share_the_slots(tmp_path: Path) -> None:
    first, second = (Home(tmp_path / name, tmp_path / "run") for name in "ab")
    assert first.control_socket != second.control_socket
    assert first.control_socket == Home(tmp_path / "a", tmp_path / "run").control_socket
    assert first.slots == second.slots


def test_links_to_one_home_lead_to_one_socket(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    sockets = {Home.find({"FEDNODE_HOME": str(tmp_path / name)}).control_socket for name in ("real", "link")}
    assert len(sockets) == 1


FALLBACK = Path(f"/tmp/fednode-{os.geteuid()}")  # noqa: S108


def test_a_socket_path_fits_however_long_the_runtime_folder_is(tmp_path: Path) -> None:
    for length in (1, 20, 40, 60, 80, 100, 200):
        base = tmp_path / ("x" * length)
        base.mkdir()
        socket = Home.find({"XDG_RUNTIME_DIR": str(base), "FEDNODE_HOME": str(base)}).control_socket
        assert len(os.fsencode(socket)) <= 103
        assert socket.parent in (base / "fednode", FALLBACK)


def test_the_runtime_folder_is_the_sessions_own_if_there_is_one() -> None:
    with tempfile.TemporaryDirectory(dir="/tmp") as short:
        assert Home.find({"XDG_RUNTIME_DIR": short}).runtime == Path(short) / "fednode"
        for wrong in ("relative", f"{short}/missing", f"{short}/{'x' * 100}"):
            assert Home.find({"XDG_RUNTIME_DIR": wrong}).runtime == FALLBACK


def test_a_runtime_folder_of_another_user_is_not_taken(monkeypatch) -> None:
    with tempfile.TemporaryDirectory(dir="/tmp") as short:
        other = os.geteuid() + 1
        monkeypatch.setattr(os, "geteuid", lambda: other)
        assert Home.find({"XDG_RUNTIME_DIR": short}).runtime == Path(f"/tmp/fednode-{other}")  # noqa: S108


def test_folders_are_made_for_the_owner_alone_and_twice_does_no_harm(tmp_path: Path) -> None:
    made = Home(tmp_path / "deep" / "er" / "home", tmp_path / "run")
    ensure_home(made)
    ensure_home(made)
    for folder in (made.root, made.store, made.work, made.logs, made.runtime, made.slots):
        assert mode(folder) == 0o700


def test_a_folder_that_others_may_write_to_is_refused(home: Home) -> None:
    home.store.chmod(0o720)
    with pytest.raises(ConfigError, match=r"Others may write to the folder .*store\. Run `chmod 700 "):
        ensure_home(home)


def test_a_folder_of_another_user_is_refused(home: Home, monkeypatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: home.root.stat().st_uid + 1)
    with pytest.raises(ConfigError, match=r"belongs to user"):
        ensure_home(home)


def test_a_runtime_folder_that_is_a_link_is_refused(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "run").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ConfigError, match="is a link"):
        ensure_home(Home(tmp_path / "home", tmp_path / "run"))


def test_a_file_in_the_place_of_the_home_is_refused(tmp_path: Path) -> None:
    (tmp_path / "home").write_text("")
    for root in (tmp_path / "home", tmp_path / "home" / "inner"):
        with pytest.raises(ConfigError, match=r"can't be made: .*Set FEDNODE_HOME"):
            ensure_home(Home(root, tmp_path / "run"))


def test_a_second_daemon_in_one_home_is_refused_and_told_who_holds_it(home: Home) -> None:
    with Lock(home), pytest.raises(HomeInUseError) as caught, Lock(home):
        pass
    message = f"Another daemon (process {os.getpid()}) uses the home {home.root}. Run `fednode stop` to end it"
    assert str(caught.value).startswith(message)
    assert caught.value.exit_code == ExitCode.HOME_IN_USE


def test_a_lock_that_is_left_can_be_taken_again_and_names_nobody(home: Home) -> None:
    with Lock(home):
        pass
    assert home.lock.read_text() == ""
    with Lock(home):
        assert home.lock.read_text() == str(os.getpid())
        assert mode(home.lock) == 0o600


def test_a_lock_text_that_is_no_process_is_not_repeated(home: Home) -> None:
    with Lock(home):
        home.lock.write_text("\x1b[2J nonsense")
        with pytest.raises(HomeInUseError, match=r"^Another daemon uses the home"), Lock(home):
            pass


def test_a_lock_of_a_killed_process_is_free(home: Home) -> None:
    script = (
        "import sys, time; from pathlib import Path; from fednode.config import Home, Lock\n"
        "with Lock(Home(Path(sys.argv[1]), Path(sys.argv[2]))): print('held', flush=True); time.sleep(60)"
    )
    environ = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", script, str(home.root), str(home.runtime)]
    with subprocess.Popen(command, env=environ, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        with pytest.raises(HomeInUseError, match=f"process {holder.pid}"), Lock(home):
            pass
        holder.send_signal(signal.SIGKILL)
    with Lock(home):
        pass


def test_a_lock_file_that_can_not_be_written_is_a_storage_error(home: Home) -> None:
    home.lock.symlink_to(home.root / "elsewhere")
    with pytest.raises(StorageError, match="can't be written"), Lock(home):
        pass
