"""The verbs that need no daemon: the home, the identity, the peers file, and how `start` reads its settings."""

import json
import stat
import sys
from pathlib import Path
from types import ModuleType

import pytest
from nodes import STANDIN

from fednode.config import Home, Settings
from fednode.errors import AddressError
from fednode.exchange import hello
from fednode.statement import Statement
from fednode_cli import version
from fednode_cli.main import run
from fednode_crypto.identity import Identity, parse_peer_id

PEERS = """\
# ours
contract:
  federation: skin
  labels: [melanoma, nevus]
  image: {size: 28, channels: 3}
peers: []
"""


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("FEDNODE_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    return tmp_path / "home"


@pytest.fixture
def made(home: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    """A home after `init`, with a peers file."""
    assert run(["init", "--name", "clinic-a"]) == 0
    (home / "peers.yaml").write_text(PEERS)
    capsys.readouterr()
    return home


def files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def new_id() -> str:
    return Identity.generate().peer_id


def test_init_prints_the_peer_id_alone_and_says_the_next_step_beside(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["init"]) == 0
    out, err = capsys.readouterr()
    assert out == f"{Identity.load(home / 'identity.key').peer_id}\n"
    assert "fednode start" in err


def test_init_makes_a_private_home(home: Path) -> None:
    assert run(["init"]) == 0
    assert stat.S_IMODE((home / "identity.key").stat().st_mode) == 0o600
    assert stat.S_IMODE(home.stat().st_mode) == 0o700


def test_init_writes_the_name(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["init", "--name", "clinic-a", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document == {"peer_id": parse_peer_id(document["peer_id"]), "name": "clinic-a", "home": str(home)}
    assert (home / "config.yaml").read_text() == "name: clinic-a\n"


@pytest.mark.parametrize(
    ("host", "name"),
    [("Radiology_7.example.org", "radiology-7"), ("Ü" * 3, "node"), ("a" * 31 + "-b", "a" * 31), ("", "node")],
)
def test_the_default_name_comes_from_the_host(
    host: str, name: str, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("socket.gethostname", lambda: host)
    assert run(["init"]) == 0
    assert (home / "config.yaml").read_text() == f"name: {name}\n"


def test_a_second_init_refuses_and_touches_nothing(made: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = files(made)
    for line in (["init"], ["init", "--name", "other"], ["init", "--json"]):
        assert run(line) == 4
        out, err = capsys.readouterr()
        assert not out
        assert "fednode id" in err
    assert files(made) == before


def test_an_identity_that_is_a_dangling_link_is_not_replaced(home: Path) -> None:
    home.mkdir()
    (home / "identity.key").symlink_to(home / "elsewhere")
    assert run(["init"]) == 4
    assert not (home / "elsewhere").exists()


def test_a_lost_identity_is_never_silently_made_anew(made: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (made / "identity.key").unlink()
    (made / "ledger.sqlite").write_bytes(b"state")
    assert run(["init"]) == 4
    assert "backup" in capsys.readouterr().err
    assert not (made / "identity.key").exists()


@pytest.mark.parametrize("name", ["", "Clinic", "a b", "a" * 33, "../x", "ä"])
def test_init_refuses_a_bad_name_and_makes_nothing(name: str, home: Path) -> None:
    assert run(["init", "--name", name]) == 2
    assert not home.exists()


def test_init_keeps_settings_that_are_there(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    home.mkdir(mode=0o700)
    (home / "config.yaml").write_text("listen: 127.0.0.1:1\n")
    assert run(["init", "--name", "clinic-a"]) == 3
    assert not (home / "identity.key").exists()
    assert run(["init"]) == 0
    assert (home / "config.yaml").read_text() == "listen: 127.0.0.1:1\n"


def test_init_says_when_the_home_cannot_be_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("FEDNODE_HOME", str(tmp_path / "file" / "home"))
    assert run(["init"]) in (3, 11)
    assert capsys.readouterr().err.startswith("fednode: ")


def test_id_prints_the_same_id_again(made: Path, capsys: pytest.CaptureFixture[str]) -> None:
    own = Identity.load(made / "identity.key").peer_id
    assert run(["id"]) == 0
    assert run(["id", "--json"]) == 0
    text, _, document = capsys.readouterr().out.partition("\n")
    assert text == own
    assert json.loads(document) == {"peer_id": own}


def test_a_home_without_identity_points_to_init(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for line in (["id"], ["start"]):
        assert run(line) == 4
        assert "fednode init" in capsys.readouterr().err


@pytest.mark.parametrize("line", [["id"], ["start"], ["peer", "list"]], ids=" ".join)
def test_a_key_that_others_can_read_is_refused(line: list[str], made: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (made / "identity.key").chmod(0o644)
    assert run(line) == 4
    assert "0644" in capsys.readouterr().err


def test_peers_are_added_listed_and_removed_and_the_file_is_as_before(
    made: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = new_id()
    assert run(["peer", "add", "clinic-b", other.upper(), "192.0.2.7:7777"]) == 0
    assert run(["peer", "add", "clinic-c", new_id()]) == 0
    capsys.readouterr()
    assert run(["peer", "list", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["file"] == str(made / "peers.yaml")
    assert document["contract"]["federation"] == "skin"
    assert document["peers"][0] == {"name": "clinic-b", "id": other, "address": "192.0.2.7:7777"}
    assert run(["peer", "list"]) == 0
    rows = [line.split("  ") for line in capsys.readouterr().out.splitlines()]
    assert [row[0] for row in rows[1:]] == ["clinic-b", "clinic-c"]
    assert rows[2][-1] == "dials us"
    assert run(["peer", "remove", other]) == 0
    assert run(["peer", "remove", "clinic-c"]) == 0
    assert "# ours" in (made / "peers.yaml").read_text()
    assert json.loads(json.dumps(document["contract"]))["labels"] == ["melanoma", "nevus"]


def test_a_peers_file_of_another_place_can_be_edited(made: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere.yaml"
    elsewhere.write_text(PEERS)
    assert run(["peer", "add", "clinic-b", new_id(), "--peers", str(elsewhere)]) == 0
    assert "clinic-b" in elsewhere.read_text()
    assert (made / "peers.yaml").read_text() == PEERS


def test_the_own_id_is_no_peer(made: Path, capsys: pytest.CaptureFixture[str]) -> None:
    own = Identity.load(made / "identity.key").peer_id
    assert run(["peer", "add", "me", own]) == 3
    assert "own id" in capsys.readouterr().err
    assert (made / "peers.yaml").read_text() == PEERS


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["clinic-b", "xn1-abc"], "fn1-"),
        (["clinic-b", "fn1-abc"], "53 are missing"),
        (["clinic-b", "fn1-" + "0" * 56], "'0' at position 5"),
        (["Clinic B", "ID"], "name"),
        (["clinic-b", "ID", "nowhere"], "address"),
        (["clinic-b", "ID", "192.0.2.7:80000"], "80000"),
    ],
)
def test_a_bad_peer_is_refused_with_the_wrong_part_named(
    arguments: list[str], named: str, made: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    line = [new_id() if argument == "ID" else argument for argument in arguments]
    assert run(["peer", "add", *line, "--json"]) == 3
    out, err = capsys.readouterr()
    assert not out
    assert named in err
    assert len(err.splitlines()) <= 2
    assert (made / "peers.yaml").read_text() == PEERS


@pytest.mark.parametrize("line", [["list"], ["remove", "clinic-b"]], ids=" ".join)
def test_a_missing_peers_file_is_a_sentence(line: list[str], home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["peer", *line]) == 3
    assert str(home / "peers.yaml") in capsys.readouterr().err


def test_paths_name_the_home_and_what_is_in_it(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["paths", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["home"] == str(home)
    assert {"identity", "config", "peers", "ledger", "store", "log", "control_socket"} <= document.keys()
    assert not home.exists()


def test_version_says_what_runs_here(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["version", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["fednode"] == version.program_version()
    assert document["python"] == sys.version.split()[0]
    assert run(["--version"]) == 0
    assert capsys.readouterr().out == f"fednode {version.program_version()}\n"


def test_the_statements_version_is_the_one_that_is_signed() -> None:
    class Sample(Statement):
        KIND = "sample"

    assert Sample.payload_type().endswith(f".v{version.STATEMENTS}+json")


def test_the_protocol_version_is_the_highest_that_is_spoken() -> None:
    assert max(hello.PROTOCOLS) == version.PROTOCOL


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Home, Settings]]:
    """What `start` hands to the daemon, in place of one; the daemon ends with exit code 12."""
    runs: list[tuple[Home, Settings]] = []
    module = ModuleType("fednode.daemon")
    module.run = lambda home, settings: runs.append((home, settings)) or 12  # type: ignore[attr-defined, func-returns-value]
    monkeypatch.setitem(sys.modules, "fednode.daemon", module)
    return runs


def test_start_hands_its_flags_to_the_daemon_and_ends_with_its_code(
    made: Path, tmp_path: Path, started: list[tuple[Home, Settings]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FEDNODE_DEVICE", "cpu")
    monkeypatch.setenv("FEDNODE_THREADS", "9")
    line = "start --peers p.yaml --data folder:d --labels melanoma,nevus --listen 127.0.0.1:0 --threads 2 --processes 2"
    wishes = "--gather-deadline 1.5 --skip-bad --preset nano --fit-images 640 --augment flip --max-latency 20 --dp 8"
    assert run([*line.split(), *wishes.split()]) == 12
    [(home, settings)] = started
    assert home.root == made
    assert settings == Settings(
        name="clinic-a",
        peers=tmp_path / "p.yaml",
        data=f"folder:{tmp_path}/d",
        labels=("melanoma", "nevus"),
        listen="127.0.0.1:0",
        device="cpu",
        threads=2,
        gather_deadline=1.5,
        skip_bad=True,
        preset="nano",
        fit_images=640,
        augment="flip",
        max_latency=20,
        dp=8,
        processes=2,
    )


@pytest.mark.parametrize(
    ("wish", "preset", "numbers", "images"),
    [("budget 10", "xs", "", 10 * 60 * 32), ("budget 0.5 --preset nano", "nano", " --dtype bfloat16", 30 * 640)],
)
def test_a_wish_in_minutes_becomes_a_count_of_images(
    made: Path,
    wish: str,
    preset: str,
    numbers: str,
    images: int,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("FEDNODE_WORKER", STANDIN)
    monkeypatch.setenv("STANDIN_DIR", str(made))
    assert run(f"{wish}{numbers} --json".split()) == 0
    said = json.loads(capsys.readouterr().out)
    assert (said["preset"], said["dtype"], said["fit_images"]) == (preset, numbers[9:] or "float32", images)
    assert run(f"{wish}{numbers}".split()) == 0
    assert f"fednode start --preset {preset}{numbers} --fit-images {images}" in capsys.readouterr().out


def test_a_flag_that_is_not_given_leaves_the_settings_file_in_force(
    made: Path, started: list[tuple[Home, Settings]]
) -> None:
    (made / "config.yaml").write_text("name: clinic-a\nskip_bad: true\nlisten: 127.0.0.1:7\n")
    assert run(["start"]) == 12
    [(_, settings)] = started
    assert (settings.skip_bad, settings.listen, settings.peers) == (True, "127.0.0.1:7", made / "peers.yaml")


def test_the_debug_switch_is_no_setting(
    made: Path, started: list[tuple[Home, Settings]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FEDNODE_DEBUG", "1")
    assert run(["start"]) == 12


@pytest.mark.parametrize(
    ("flags", "code", "named"),
    [
        (["--listen", "127.0.0.1:80000"], 6, "--listen"),
        (["--listen", "nowhere"], 6, "--listen"),
        (["--device", "gpu"], 3, "--device"),
        (["--preset", "huge"], 3, "--preset"),
        (["--threads", "0"], 3, "--threads"),
        (["--gather-deadline", "-1"], 3, "--gather-deadline"),
        (["--labels", "A B"], 3, "--labels"),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else "",
)
def test_a_wrong_flag_is_named_and_no_daemon_starts(
    flags: list[str],
    code: int,
    named: str,
    made: Path,
    started: list[tuple[Home, Settings]],
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run(["start", *flags]) == code
    assert named in capsys.readouterr().err
    assert started == []


def test_an_error_of_the_daemon_has_its_own_exit_code(
    made: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(_home: Home, _settings: Settings) -> int:
        raise AddressError("Port 7777 is in use.", "Choose another with --listen.")

    module = ModuleType("fednode.daemon")
    module.run = refuse  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "fednode.daemon", module)
    assert run(["start", "--json"]) == 6
    assert capsys.readouterr() == ("", "fednode: Port 7777 is in use.\n  Choose another with --listen.\n")
