"""The command as a process: exit codes, streams, signals, and a daemon in the background, over a real control socket."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from fednode.config import Home, Lock, ensure_home
from fednode_crypto.identity import Identity

ROOT = Path(__file__).parent.parent
FEDNODE = [sys.executable, "-m", "fednode_cli"]

pytestmark = pytest.mark.process


def new_home(folder: Path) -> dict[str, str]:
    """A home with an identity under `folder`, and an environment with the stand-in in the place of the daemon."""
    (folder / "sitecustomize.py").write_text("import sys, cli_standin\nsys.modules['fednode.daemon'] = cli_standin\n")
    sources = [folder, *(ROOT / name for name in ("node", "crypto", "cli", "protos", "tests"))]
    kept = {name: value for name, value in os.environ.items() if not name.startswith("FEDNODE_")}
    environ = {
        **kept,
        "PYTHONPATH": os.pathsep.join(map(str, sources)),
        "FEDNODE_HOME": str(folder / "home"),
        "XDG_RUNTIME_DIR": str(folder),
    }
    home = Home.find(environ)
    ensure_home(home)
    Identity.generate().save(home.identity)
    home.config.write_text("name: clinic-a\n")
    return environ


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    return new_home(tmp_path)


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """The environment of a home whose daemon runs in the background."""
    environ = new_home(tmp_path_factory.mktemp("running"))
    begun = fednode(environ, "start", "--detach")
    assert begun.returncode == 0, begun.stderr
    yield environ
    fednode(environ, "stop")


def fednode(environ: dict[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*FEDNODE, *arguments],
        env=environ,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        stdin=subprocess.DEVNULL,
    )


def test_help_and_version_know_no_heavy_module(environ: dict[str, str]) -> None:
    script = (
        "import sys\n"
        "from fednode_cli.main import run\n"
        "codes = [run(line) for line in (['--help'], ['start', '--help'], ['--version'], ['version'], ['paths'])]\n"
        "heavy = {'torch', 'grpc', 'diffusers', 'timm', 'matplotlib', 'sklearn', 'torchvision'} & sys.modules.keys()\n"
        "sys.exit(f'{codes} {heavy}' if any(codes) or heavy else 0)\n"
    )
    ended = subprocess.run(
        [sys.executable, "-c", script], env=environ, capture_output=True, text=True, timeout=60, check=False
    )
    assert (ended.returncode, ended.stderr) == (0, "")


def test_without_a_daemon_the_verbs_end_with_8_and_two_lines(environ: dict[str, str]) -> None:
    for line in (["status", "--json"], ["stop"]):
        ended = fednode(environ, *line)
        assert (ended.returncode, ended.stdout) == (8, "")
        assert len(ended.stderr.splitlines()) == 2


def test_a_daemon_in_the_background_answers_over_its_socket(running: dict[str, str], tmp_path: Path) -> None:
    status = json.loads(fednode(running, "status", "--json").stdout)
    assert (status["name"], status["phase"]) == ("clinic-a", "ready")
    image = tmp_path / "a.png"
    image.write_bytes(b"x" * 5_000_000)
    assert fednode(running, "predict", str(image)).stdout.split() == [str(image), "nevus", "1.0000", "experts"]


def test_a_second_daemon_in_one_home_is_refused(running: dict[str, str]) -> None:
    again = fednode(running, "start", "--detach")
    assert (again.returncode, again.stdout) == (7, "")
    assert "fednode stop" in again.stderr
    assert fednode(running, "status").returncode == 0


def test_detach_waits_until_the_daemon_is_past_its_start_and_stop_until_it_is_gone(environ: dict[str, str]) -> None:
    begun = fednode({**environ, "STANDIN_SLOW_STATUS": "3"}, "start", "--detach", "--json")
    assert begun.returncode == 0, begun.stderr
    assert json.loads(begun.stdout)["pid"] > 0
    stopped = fednode(environ, "stop", "--json")
    assert (stopped.returncode, json.loads(stopped.stdout)["stopped"]) == (0, True)
    with Lock(Home.find(environ)):
        assert not Home.find(environ).control_socket.exists()
    assert fednode(environ, "stop").returncode == 8


def test_a_daemon_that_cannot_start_in_the_background_tells_why_with_its_own_code(environ: dict[str, str]) -> None:
    ended = fednode({**environ, "STANDIN_FAIL": "1"}, "start", "--detach", "--json")
    assert (ended.returncode, ended.stdout) == (6, "")
    assert ended.stderr == "fednode: Port 7777 is in use.\n  Choose another with --listen.\n"
    log = Path(environ["FEDNODE_HOME"]) / "logs" / "fednode.log"
    assert log.stat().st_mode & 0o077 == 0
    assert "about to listen" in log.read_text()


def test_ctrl_c_during_a_request_ends_with_14_and_no_word(running: dict[str, str]) -> None:
    asked = Home.find(running).work / "rescanning"
    # A suite in a shell's background ignores the signal, and would pass that on.
    heard = signal.signal(signal.SIGINT, signal.default_int_handler)
    with subprocess.Popen([*FEDNODE, "rescan"], env=running, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        signal.signal(signal.SIGINT, heard)
        while process.poll() is None and not asked.exists():
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    assert (process.returncode, out, err) == (14, b"", b"")


def test_a_reader_that_goes_away_is_no_error(environ: dict[str, str]) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    ended = subprocess.run(
        [*FEDNODE, "paths"], env=environ, stdout=writer, stderr=subprocess.PIPE, timeout=60, check=False
    )
    os.close(writer)
    assert (ended.returncode, ended.stderr) == (0, b"")


def test_a_full_disk_behind_stdout_is_one_sentence(environ: dict[str, str]) -> None:
    with Path("/dev/full").open("wb") as full:
        ended = subprocess.run(
            [*FEDNODE, "paths"], env=environ, stdout=full, stderr=subprocess.PIPE, timeout=60, check=False
        )
    assert ended.returncode == 11
    assert ended.stderr == b"fednode: The output can't be written: No space left on device.\n"


def test_closed_streams_do_no_harm(environ: dict[str, str]) -> None:
    line = f"exec {sys.executable} -m fednode_cli paths >&- 2>&-"
    assert subprocess.run(["sh", "-c", line], env=environ, timeout=60, check=False).returncode == 0


def test_text_that_the_locale_lacks_is_no_error(running: dict[str, str]) -> None:
    ended = fednode({**running, "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"}, "status")
    assert (ended.returncode, ended.stderr) == (0, "")
