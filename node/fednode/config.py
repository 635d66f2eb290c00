"""Where a node keeps its things (`Home`) and how it is set up (`Settings`).

Rule 1: a flag goes before FEDNODE_*, that before config.yaml in the home, that before the default.
Rule 2: an unknown key or FEDNODE_* variable is an error, and every error names where the wrong value came from.
Rule 3: a relative path is relative to the home if config.yaml has it, else to the current folder.
Rule 4: what fednode makes is for its owner alone: folders have mode 0700.
"""

import fcntl
import os
import re
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Annotated, Literal, Self

from platformdirs import user_data_path
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from fednode import source
from fednode.address import parse_address
from fednode.contract import Label
from fednode.errors import AddressError, ConfigError, HomeInUseError, StorageError
from fednode.peersfile import PeerName
from fednode.recipe import Augment, Dtype, Preset
from fednode.yamlfile import Document, nearest, read_text, sentence
from fednode_crypto.digest import sha256_hex

ENVIRONMENT_PREFIX = "FEDNODE_"
OTHER_VARIABLES = ("FEDNODE_HOME", "FEDNODE_DEBUG", "FEDNODE_FAILPOINT", "FEDNODE_WORKER")
DEFAULT_LISTEN = "0.0.0.0:7777"
YEAR_SECONDS = 365 * 24 * 3600

Exchange = Literal["generators", "classifiers", "both", "auto"]

_SOCKET_PATH_BYTES = 103  # the strictest system's limit (macOS); Linux allows 107
_SOCKET_NAME_BYTES = len("/0123456789abcdef.sock")


@dataclass(frozen=True)
class Home:
    """The folder of one node, and the user's folder for what lives only as long as processes do."""

    root: Path
    runtime: Path

    @classmethod
    def find(cls, environ: Mapping[str, str]) -> Self:
        """The home that FEDNODE_HOME names, else the user's data folder."""
        named = environ.get("FEDNODE_HOME")
        root = Path(named).expanduser() if named else user_data_path("fednode")
        return cls(root.resolve(), _runtime(environ))

    @property
    def identity(self) -> Path:
        """The key file."""
        return self.root / "identity.key"

    @property
    def secret(self) -> Path:
        """What the noise of private fits follows from."""
        return self.root / "secret.key"

    @property
    def config(self) -> Path:
        """The settings that hold without flags."""
        return self.root / "config.yaml"

    @property
    def peers(self) -> Path:
        """Contract and peers, unless the settings name another file."""
        return self.root / "peers.yaml"

    @property
    def ledger(self) -> Path:
        """The database of statements, jobs and events."""
        return self.root / "ledger.sqlite"

    @property
    def store(self) -> Path:
        """The folder of weights."""
        return self.root / "store"

    @property
    def work(self) -> Path:
        """The scratch folder of jobs."""
        return self.root / "work"

    @property
    def logs(self) -> Path:
        """The folder of logs."""
        return self.root / "logs"

    @property
    def lock(self) -> Path:
        """The file that the one daemon of this home holds locked."""
        return self.root / "lock"

    @property
    def control_socket(self) -> Path:
        """The Unix socket of this home's daemon; its name is short, since the paths of sockets are bounded."""
        return self.runtime / f"{sha256_hex(os.fsencode(self.root))[:16]}.sock"

    @property
    def slots(self) -> Path:
        """The folder of the build locks that all nodes of this user on this machine share."""
        return self.runtime / "slots"


def _runtime(environ: Mapping[str, str]) -> Path:
    """The same folder for daemon and command, in a login session and outside one."""
    uid = os.geteuid()
    base = Path(environ.get("XDG_RUNTIME_DIR") or f"/run/user/{uid}")
    length = len(os.fsencode(base / "fednode")) + _SOCKET_NAME_BYTES
    if length <= _SOCKET_PATH_BYTES and base.is_absolute() and base.is_dir() and base.stat().st_uid == uid:
        return base / "fednode"
    return Path(f"/tmp/fednode-{uid}")  # noqa: S108 - ensure_home refuses one that another user made


def ensure_home(home: Home) -> None:
    """Make the folders of a home that are missing. Raises ConfigError if one is not ours alone, or can't be made."""
    for folder in (home.root, home.store, home.work, home.logs, home.runtime, home.slots):
        try:
            folder.parent.mkdir(parents=True, exist_ok=True)
            folder.mkdir(mode=0o700, exist_ok=True)
            _check_folder(folder)
        except OSError as error:
            raise ConfigError(
                f"The folder {folder} can't be made: {error.strerror}.", "Set FEDNODE_HOME to another one."
            ) from None


def _check_folder(folder: Path) -> None:
    status = folder.lstat()
    if not stat.S_ISDIR(status.st_mode):
        raise ConfigError(f"{folder} is a link, where fednode needs a folder.")
    if status.st_uid != os.geteuid():
        raise ConfigError(f"The folder {folder} belongs to user {status.st_uid}, not to this one.")
    if status.st_mode & 0o022:
        raise ConfigError(f"Others may write to the folder {folder}.", f"Run `chmod 700 {folder}`.")


class Lock:
    """A context in which this process alone holds a home; the system lifts the lock when the process dies."""

    def __init__(self, home: Home) -> None:
        self._path = home.lock
        self._descriptor = -1

    def __enter__(self) -> Self:
        """Raises HomeInUseError, and StorageError if the lock file can't be written."""
        try:
            self._descriptor = _locked(self._path)
        except OSError as error:
            raise StorageError(f"{self._path} can't be written: {error.strerror}.") from error
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.ftruncate(self._descriptor, 0)
        os.close(self._descriptor)


def _locked(path: Path) -> int:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.ftruncate(descriptor, 0)
        os.write(descriptor, str(os.getpid()).encode())
    except BlockingIOError:
        holder = os.read(descriptor, 32).decode(errors="replace")
        os.close(descriptor)
        raise _in_use(path.parent, holder) from None
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def _in_use(root: Path, holder: str) -> HomeInUseError:
    process = f" (process {holder})" if holder.isdecimal() else ""
    return HomeInUseError(
        f"Another daemon{process} uses the home {root}.",
        "Run `fednode stop` to end it, or set FEDNODE_HOME to another folder.",
    )


def _listening(text: str) -> str:
    try:
        parse_address(text, lowest_port=0)
    except AddressError as error:
        raise ValueError(str(error)) from None
    return text


def _device(text: str) -> str:
    if not re.fullmatch(r"auto|cpu|cuda(:[0-9]{1,2})?", text):
        raise ValueError(f"{text!r} is no device; there are auto, cpu, cuda and cuda:0, cuda:1 and so on.")
    return text


def _listed(value: object) -> object:
    return tuple(part.strip() for part in value.split(",")) if isinstance(value, str) else value


def _default_threads() -> int:
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return min(4, usable or 1)


Epsilon = Annotated[float, Field(ge=0.01, le=50, allow_inf_nan=False)]


class Settings(BaseModel):
    """How one node is set up. Times are in seconds.

    `data`: where the own images are (None: this node has none), and `labels` which of them to keep (None: all).
    `preset`: the size of the generators (None: by the size of images); `fit_images`: how many images a fit sees (None: as the
    preset says); `dp`: the epsilon of their differential privacy (None: not private); `dtype`: what networks compute in (None: as
    the preset says).
    `exchange`: which kinds of artifacts this node offers and uses, generators, classifiers or both; `auto`: see modes.py.
    `augment`: how experts see images changed (None: by size and colour); `experts_see`: what the own expert is trained on.
    `max_latency`: what the node may choose to answer with, at most, in milliseconds an image (None: whatever is best).
    `processes`: how many fit a generator together, each on an accelerator of its own. Workers that idle for `idle_timeout` end.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    name: PeerName = "node"
    peers: Path
    data: str | None = None
    labels: Annotated[tuple[Label, ...], BeforeValidator(_listed), Field(min_length=1)] | None = None
    listen: Annotated[str, AfterValidator(_listening)] = DEFAULT_LISTEN
    device: Annotated[str, AfterValidator(_device)] = "auto"
    threads: Annotated[int, Field(ge=1, le=1024, default_factory=_default_threads)]
    processes: Annotated[int, Field(ge=1, le=64)] = 1
    gather_deadline: Annotated[float, Field(ge=0, le=YEAR_SECONDS)] = 3600
    skip_bad: bool = False
    preset: Preset | None = None
    fit_images: Annotated[int, Field(ge=1, le=10**9)] | None = None
    dtype: Dtype | None = None
    exchange: Exchange = "generators"
    augment: Augment | None = None
    experts_see: Literal["all", "synthetic"] = "all"
    dp: Epsilon | None = None
    idle_timeout: Annotated[float, Field(gt=0, le=YEAR_SECONDS)] = 600
    max_latency: Annotated[float, Field(gt=0, le=YEAR_SECONDS)] | None = None


KEYS = tuple(Settings.model_fields)


@dataclass(frozen=True)
class _Given:
    """A value of a setting, where it came from, and what paths in it are relative to."""

    value: object
    origin: str
    base: Path


def load_settings(home: Home, flags: Mapping[str, object], environ: Mapping[str, str]) -> Settings:
    """The settings by Rule 1; a flag that is None was not given.

    Raises ConfigError, and AddressError if the listening address is wrong, naming where the value came from (Rule 2).
    """
    given = {**_in_file(home), **_in_environment(environ), **_in_flags(flags)}
    values = {key: _rebased(key, item) for key, item in given.items()}
    try:
        return Settings.model_validate({"peers": home.peers, **values})
    except ValidationError as error:
        first = error.errors()[0]
        key = str(first["loc"][0])
        kind = AddressError if key == "listen" else ConfigError
        raise kind(f"{given[key].origin}: {sentence(first)}") from None


def _in_file(home: Home) -> dict[str, _Given]:
    try:
        document = Document(str(home.config), read_text(home.config))
    except FileNotFoundError:
        return {}
    tree = document.tree()
    if tree is None:
        return {}
    if not isinstance(tree, dict):
        raise document.fault((), "must be a mapping of keys to values.")
    for key in tree:
        if key not in KEYS:
            raise document.fault((key,), nearest(key, KEYS))
    return {
        key: _Given(value, f"{document.name} line {document.line((key,))}, {key}", home.root)
        for key, value in tree.items()
        if value is not None
    }


def _in_environment(environ: Mapping[str, str]) -> dict[str, _Given]:
    known = {f"{ENVIRONMENT_PREFIX}{key.upper()}": key for key in KEYS}
    names = [name for name in environ if name.startswith(ENVIRONMENT_PREFIX) and name not in OTHER_VARIABLES]
    for name in names:
        if name not in known:
            raise ConfigError(f"{name}: {nearest(name, (*known, *OTHER_VARIABLES), 'variable')}")
    return {known[name]: _Given(environ[name], name, Path.cwd()) for name in names if environ[name]}


def _in_flags(flags: Mapping[str, object]) -> dict[str, _Given]:
    given = {key: value for key, value in flags.items() if value is not None}
    return {key: _Given(value, f"flag --{key.replace('_', '-')}", Path.cwd()) for key, value in given.items()}


def _rebased(key: str, given: _Given) -> object:
    """The value, with the path in it made absolute (Rule 3)."""
    value = given.value
    if key == "peers" and isinstance(value, str | Path):
        return given.base / Path(value).expanduser()
    return source.rebased(value, given.base) if key == "data" and isinstance(value, str) else value
