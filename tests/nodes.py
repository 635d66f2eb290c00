"""One node in a process of its own, for tests: home, key and data are made, its daemon is started, steered, asked and ended.

Rule: the data of a node follow from its name and labels alone, so that two federations can have the same.
"""

import json
import os
import shlex
import signal
import socket
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fednode.config import Home
from fednode.control.client import ControlClient
from fednode.errors import NotRunningError
from fednode_crypto.identity import Identity, PeerId

ROOT = Path(__file__).resolve().parent.parent
SOURCES = os.pathsep.join(str(ROOT / name) for name in ("node", "crypto", "cli", "protos"))
STANDIN = shlex.join([sys.executable, "-S", "-E", str(ROOT / "tests" / "standin_worker.py")])
IMAGES = 40  # of which 5 are held out, the least that are scored
PATIENCE_SECONDS = 60.0
WINDOW = 64
WINDOWS = 60

Document = dict[str, Any]
_ports = iter(range(20_000 + os.getpid() % 800 * 12, 32_000))


def free_port() -> int:
    """A port that nobody listens on, below those that the system gives to outgoing connections."""
    for port in _ports:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) != 0:
                return port
    raise AssertionError("no port is free")


@dataclass
class Node:
    """One node: its home in `folder`, its own labels, and its daemon's process while there is one."""

    name: str
    folder: Path
    labels: tuple[str, ...]
    worker: str = STANDIN
    source: str = ""
    exchange: str = "generators"
    port: int = field(default_factory=free_port)
    identity: Identity = field(default_factory=Identity.generate)
    process: subprocess.Popen[bytes] | None = None
    _client: ControlClient | None = None

    @property
    def id(self) -> PeerId:
        """The peer id."""
        return self.identity.peer_id

    @property
    def home(self) -> Home:
        """Where the node keeps its things."""
        return Home(self.folder / "home", self.folder.parent / "run" / "fednode")

    @property
    def data(self) -> Path:
        """The folder of own images, a subfolder for each label."""
        return self.folder / "data"

    @property
    def strings(self) -> Path:
        """The folder by which the stand-in worker is steered."""
        return self.folder / "strings"

    @property
    def log(self) -> Path:
        """What the daemon wrote to stderr, of all its runs."""
        return self.home.logs / "daemon.log"

    def make(self) -> None:
        """Make the home with its key, and the data."""
        for folder in (self.home.root, self.home.logs, self.data, self.strings):
            folder.mkdir(mode=0o700, parents=True)
        self.identity.save(self.home.identity)
        listen = f"127.0.0.1:{self.port}"
        settings: Document = {"name": self.name, "device": "cpu", "threads": 1, "listen": listen, "peers": "peers.yaml"}
        settings["exchange"] = self.exchange
        if self.labels:
            settings["data"] = self.source or f"folder:{self.data}"
        if self.source:
            settings["labels"] = list(self.labels)
        self.home.config.write_text(json.dumps(settings))  # every JSON document is a YAML one
        for label in self.labels:
            (self.data / label).mkdir()
            for number in range(IMAGES):
                (self.data / label / f"{number}.png").write_text(f"{self.name} {label} {number}")

    def environment(self, failpoint: str = "", **variables: object) -> dict[str, str]:
        """The variables for the daemon and for the command line."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith("FEDNODE_")}
        own = {
            "PYTHONPATH": SOURCES,
            "FEDNODE_HOME": str(self.home.root),
            "XDG_RUNTIME_DIR": str(self.folder.parent / "run"),
            "STANDIN_DIR": str(self.strings),
        }
        if self.worker:
            own["FEDNODE_WORKER"] = self.worker
        if failpoint:
            own["FEDNODE_FAILPOINT"] = failpoint
        return kept | own | {name: str(value) for name, value in variables.items()}

    def start(self, *flags: str, failpoint: str = "", **variables: object) -> None:
        """Start the daemon; does not wait. `variables` are FEDNODE_* ones and others."""
        assert self.process is None or self.process.poll() is not None, f"{self.name} runs already"
        self._hang_up()
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "fednode_cli", "start", *flags],
                env=self.environment(failpoint, **variables),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def run(self, *arguments: str, timeout: float = PATIENCE_SECONDS) -> subprocess.CompletedProcess[str]:
        """Run a verb of the command line to its end."""
        command = [sys.executable, "-m", "fednode_cli", *arguments]
        return subprocess.run(
            command, env=self.environment(), capture_output=True, text=True, timeout=timeout, check=False
        )

    def wait(self) -> int:
        """Wait for the end of the daemon, which someone else has caused; its exit code."""
        assert self.process is not None
        try:
            return self.process.wait(PATIENCE_SECONDS)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"{self.name} does not end.\n{self.tail()}") from None

    def stop(self) -> int:
        """End the daemon with SIGTERM; its exit code."""
        return self.end(signal.SIGTERM)

    def kill(self) -> None:
        """End the daemon as a power cut would."""
        self.end(signal.SIGKILL)

    def end(self, number: signal.Signals) -> int:
        """Send a signal that ends the daemon, and wait; its exit code."""
        assert self.process is not None
        self.process.send_signal(number)
        code = self.wait()
        self._hang_up()
        return code

    @property
    def running(self) -> bool:
        """Whether there is a daemon."""
        return self.process is not None and self.process.poll() is None

    @property
    def client(self) -> ControlClient:
        """The control client of the running daemon. Raises NotRunningError while it does not answer."""
        if self._client is None:
            with socket.socket(socket.AF_UNIX) as probe:
                if probe.connect_ex(str(self.home.control_socket)) != 0:
                    raise NotRunningError(f"{self.name} does not answer yet.")
            self._client = ControlClient(self.home.control_socket)
        return self._client

    def status(self) -> Document:
        """What the daemon says of itself."""
        return self.client.status()

    def product(self) -> dict[str, str]:
        """Peer name -> weight digest of the experts that answer now."""
        return {expert["peer"]: expert["digest"] for expert in self.status()["product"]["experts"]}

    def stale(self) -> dict[str, str]:
        """Peer name -> why its expert does not answer."""
        return {expert["peer"]: expert["reason"] for expert in self.status()["product"]["stale"]}

    def gamma(self) -> dict[str, dict[str, str]]:
        """Peer name -> label -> weight digest of the live generator."""
        table: dict[str, dict[str, str]] = self.status()["gamma"]
        return table

    def peer(self, name: str) -> Document:
        """What the status says of a peer."""
        found: Document = next(peer for peer in self.status()["peers"] if peer["name"] == name)
        return found

    def predict(self, product: str = "auto", image: bytes = b"an image") -> Document:
        """The answer for one image."""
        return self.client.predict([("image.png", image)], product)

    def pull(self, string: str, text: str = "") -> None:
        """Steer the stand-in worker: see there."""
        (self.strings / string).write_text(text)

    def release(self, string: str) -> None:
        """Take a steering file away."""
        (self.strings / string).unlink()

    def requests(self, op: str = "") -> list[Document]:
        """What the stand-in workers were asked, oldest first; `start` for their starts."""
        path = self.strings / "requests.jsonl"
        lines = map(json.loads, path.read_text().splitlines() if path.exists() else [])
        return [line for line in lines if line["op"] == op or (not op and line["op"] != "start")]

    def weights(self, issuer: "Node", digest: str) -> Path:
        """The file of weights in the store."""
        return self.home.store / issuer.id / digest / "weights.safetensors"

    def files_with(self, data: bytes) -> list[Path]:
        """The files in the home that hold any of a row of 64-byte windows of the safetensors file `data`."""
        tensors = data[8 + int.from_bytes(data[:8], "little") :]
        windows = [tensors[at : at + WINDOW] for at in range(0, len(tensors), -(-len(tensors) // WINDOWS))]
        telling = [window for window in windows if len(set(window)) > WINDOW // 3]  # no row of zeros or ones
        assert len(telling) > WINDOWS // 3, "there is nothing to look for"
        files = [path for path in self.home.root.rglob("*") if path.is_file()]
        return [path for path in files if _holds_any(path.read_bytes(), telling)]

    def tail(self, lines: int = 25) -> str:
        """The last lines of the daemon's log."""
        text = self.log.read_text(errors="replace").splitlines()[-lines:] if self.log.exists() else []
        return f"--- log of {self.name} ---\n" + "\n".join(text)

    def _hang_up(self) -> None:
        if self._client is not None:
            self._client.__exit__(None, None, None)
            self._client = None


def is_alive(pid: int) -> bool:
    """Whether a process runs (a zombie does not)."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def processes_of(folder: Path) -> list[int]:
    """The processes whose environment names `folder`: daemons and workers of a federation."""
    found = []
    for path in Path("/proc").glob("[0-9]*/environ"):
        try:
            environment = path.read_bytes()
        except OSError:
            continue
        if os.fsencode(folder) + b"/" in environment and is_alive(int(path.parent.name)):
            found.append(int(path.parent.name))
    return found


def end_processes_of(folder: Path) -> None:
    """End what still runs."""
    for pid in processes_of(folder):
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue


def _holds_any(data: bytes, windows: list[bytes]) -> bool:
    return any(window in data for window in windows)
