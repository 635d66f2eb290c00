"""The home's folders and lock, and where settings come from."""

import os
import signal
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from fednode.config import KEYS, Home, Lock, Settings, ensure_home, load_settings
from fednode.errors import AddressError, ConfigError, ExitCode, HomeInUseError, StorageError


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


def test_the_defaults_are_the_documented_ones(home: Home) -> None:
    settings = load_settings(home, {}, {})
    assert settings == Settings(
        name="node",
        peers=home.root / "peers.yaml",
        data=None,
        labels=None,
        listen="0.0.0.0:7777",
        device="auto",
        threads=settings.threads,
        gather_deadline=3600,
        skip_bad=False,
        preset=None,
        idle_timeout=600,
    )
    assert 1 <= settings.threads <= 4


EXAMPLES = {
    "name": ("clinic-b", "clinic-b"),
    "peers": ("/p/peers.yaml", Path("/p/peers.yaml")),
    "data": ("digits:3", "digits:3"),
    "labels": ("0,1", ("0", "1")),
    "listen": ("[::1]:0", "[::1]:0"),
    "device": ("cuda:1", "cuda:1"),
    "threads": ("3", 3),
    "gather_deadline": ("0.5", 0.5),
    "skip_bad": ("true", True),
    "preset": ("xs", "xs"),
    "idle_timeout": ("7", 7),
}


@pytest.mark.parametrize("key", KEYS)
def test_every_setting_is_honoured_from_file_variable_and_flag(home: Home, key: str) -> None:
    text, value = EXAMPLES[key]
    assert getattr(load_settings(home, {}, {f"FEDNODE_{key.upper()}": text}), key) == value
    assert getattr(load_settings(home, {key: value}, {}), key) == value
    home.config.write_text(f"{key}: '{text}'\n")
    assert getattr(load_settings(home, {}, {}), key) == value


def test_a_flag_goes_before_a_variable_before_the_file_before_the_default(home: Home) -> None:
    home.config.write_text("threads: 2\nname: filed\nskip_bad: yes\n")
    settings = load_settings(home, {"threads": 8, "name": None}, {"FEDNODE_THREADS": "4", "FEDNODE_NAME": "set"})
    assert (settings.threads, settings.name, settings.skip_bad) == (8, "set", True)
    settings = load_settings(home, {"skip_bad": False}, {"FEDNODE_NAME": ""})
    assert (settings.threads, settings.name, settings.skip_bad) == (2, "filed", False)


@pytest.mark.parametrize("text", ["", "# nothing set\n", "data:\nlabels: null\n"])
def test_a_file_that_sets_nothing_changes_nothing(home: Home, text: str) -> None:
    home.config.write_text(text)
    assert load_settings(home, {}, {}) == load_settings(Home(home.root / "other", home.runtime), {}, {}).model_copy(
        update={"peers": home.peers}
    )


def test_labels_in_the_file_are_a_list_or_a_line_and_stay_text(home: Home) -> None:
    for text in ("labels: [0, no, 007]\n", "labels: 0, no, 007\n", "labels:\n- 0\n- no\n- 007\n"):
        home.config.write_text(text)
        assert load_settings(home, {}, {}).labels == ("0", "no", "007")


def test_paths_are_relative_to_the_home_in_the_file_and_to_the_current_folder_elsewhere(
    home: Home, tmp_path: Path, monkeypatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", "/people/me")
    home.config.write_text("peers: p.yaml\ndata: folder:images\n")
    settings = load_settings(home, {}, {})
    assert (settings.peers, settings.data) == (home.root / "p.yaml", f"folder:{home.root}/images")
    settings = load_settings(home, {"peers": Path("p.yaml")}, {"FEDNODE_DATA": "npz:a:b.npz"})
    assert (settings.peers, settings.data) == (tmp_path / "p.yaml", f"npz:{tmp_path}/a:b.npz")
    settings = load_settings(home, {"peers": "~/p.yaml", "data": "folder:/abs"}, {})
    assert (settings.peers, settings.data) == (Path("/people/me/p.yaml"), "folder:/abs")


@pytest.mark.parametrize(
    ("key", "text", "why"),
    [
        ("name", "Clinic B", "may only have lower-case letters"),
        ("labels", "a,B", "may only have lower-case letters"),
        ("device", "gpu", "'gpu' is no device; there are auto, cpu, cuda and cuda:0"),
        ("threads", "0", "must be at least 1, and this is '0'."),
        ("threads", "many", "must be a whole number, and this is 'many'."),
        ("gather_deadline", "-1", "must be at least 0, and this is '-1'."),
        ("gather_deadline", "nan", "must be a finite number"),
        ("gather_deadline", "1h", "must be a number, and this is '1h'."),
        ("idle_timeout", "0", "must be more than 0, and this is '0'."),
        ("idle_timeout", "1e99", "must be at most 31536000, and this is '1e99'."),
        ("skip_bad", "perhaps", "must be true or false, and this is 'perhaps'."),
        ("preset", "huge", "must be 'nano', 'xs', 's', 'm' or 'paper', and this is 'huge'."),
    ],
)
def test_a_wrong_value_is_named_with_where_it_came_from(home: Home, key: str, text: str, why: str) -> None:
    origins = {f"flag --{key.replace('_', '-')}: ": ({key: text}, {})}
    origins[f"FEDNODE_{key.upper()}: "] = ({}, {f"FEDNODE_{key.upper()}": text})
    for origin, (flags, environ) in origins.items():
        with pytest.raises(ConfigError) as caught:
            load_settings(home, flags, environ)
        assert str(caught.value).startswith(origin + why)
    home.config.write_text(f"# ours\n\n{key}: '{text}'\n")
    with pytest.raises(ConfigError) as caught:
        load_settings(home, {}, {})
    assert str(caught.value).startswith(f"{home.config} line 3, {key}: {why}")


@pytest.mark.parametrize("text", ["0.0.0.0:80000", "7777", "a host:1", "[::1:7"])
def test_a_wrong_listening_address_has_an_exit_code_of_its_own(home: Home, text: str) -> None:
    with pytest.raises(AddressError, match=r"^flag --listen: ") as caught:
        load_settings(home, {"listen": text}, {})
    assert caught.value.exit_code == ExitCode.ADDRESS


def test_what_a_flag_overrides_is_not_read(home: Home) -> None:
    assert load_settings(home, {"threads": 2}, {"FEDNODE_THREADS": "many"}).threads == 2


def test_an_unknown_key_is_named_with_the_nearest_known_one(home: Home) -> None:
    home.config.write_text("name: a\nthreds: 2\n")
    with pytest.raises(ConfigError, match=r"config\.yaml line 2, threds: unknown key; did you mean 'threads'\?$"):
        load_settings(home, {"threads": 2}, {})


def test_an_unknown_variable_is_named_with_the_nearest_known_one(home: Home) -> None:
    with pytest.raises(ConfigError, match=r"^FEDNODE_THREDS: unknown variable; did you mean 'FEDNODE_THREADS'\?$"):
        load_settings(home, {}, {"FEDNODE_THREDS": "2"})


def test_variables_that_are_not_settings_pass(home: Home) -> None:
    environ = dict.fromkeys(("FEDNODE_HOME", "FEDNODE_FAILPOINT", "FEDNODE_WORKER", "FEDNODE_DEBUG", "PATH"), "x")
    assert load_settings(home, {}, environ) == load_settings(home, {}, {})


@pytest.mark.parametrize("text", ["- a\n", "words\n", "a: [\n", "name: a\nname: b\n"])
def test_a_file_that_is_no_mapping_is_refused_by_name(home: Home, text: str) -> None:
    home.config.write_text(text)
    with pytest.raises(ConfigError, match=r"config\.yaml line \d"):
        load_settings(home, {}, {})


def test_settings_are_frozen_and_closed(home: Home) -> None:
    settings = load_settings(home, {}, {})
    with pytest.raises(ValueError, match="frozen"):
        settings.threads = 2  # type: ignore[misc]
    with pytest.raises(ConfigError, match="flag --color"):
        load_settings(home, {"color": True}, {})
