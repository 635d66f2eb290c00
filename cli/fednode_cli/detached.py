"""A daemon that outlives the command that starts it: its own session, its output in the home's log."""

import os
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import IO

import typer

from fednode.config import Home, Lock
from fednode.errors import ExitCode, FednodeError
from fednode_cli.output import ERROR_PREFIX, complain, verbosity_flags
from fednode_cli.paths import log_file

PATIENCE = 60.0  # seconds until the daemon must answer
PAUSE = 0.1


def launch(home: Home, flags: Mapping[str, object]) -> int:
    """Run `fednode start` with these flags in the background, wait until it answers, and give its process id.

    Raises HomeInUseError if a daemon runs already, and typer.Exit with the daemon's own exit code if it ends early.
    """
    with Lock(home):
        pass  # free: whoever answers below is the new daemon
    log = log_file(home)
    with _opened(log) as stream:
        begin = stream.tell()
        process = subprocess.Popen(  # noqa: S603 - our own program with our own flags
            [sys.executable, "-m", "fednode_cli", *verbosity_flags(), "start", *_arguments(flags)],
            stdin=subprocess.DEVNULL,
            stdout=stream,
            stderr=stream,
            start_new_session=True,
        )
    try:
        _wait(home, process, log, begin)
    except KeyboardInterrupt:
        process.terminate()
        raise
    return process.pid


def _arguments(flags: Mapping[str, object]) -> list[str]:
    options = [(f"--{name.replace('_', '-')}", value) for name, value in flags.items() if value is not None]
    return [option if value is True else f"{option}={value}" for option, value in options]


def _opened(log: Path) -> IO[bytes]:
    """The log, to append to; only its owner can read it."""
    descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    stream = os.fdopen(descriptor, "ab")
    stream.seek(0, os.SEEK_END)
    return stream


def _wait(home: Home, process: subprocess.Popen[bytes], log: Path, begin: int) -> None:
    deadline = time.monotonic() + PATIENCE
    while process.poll() is None:
        if _answers(home, process.pid):
            return
        if time.monotonic() > deadline:
            raise FednodeError(
                f"The daemon (process {process.pid}) is not up after {PATIENCE:.0f} seconds.", f"Its log is {log}."
            )
        time.sleep(PAUSE)
    complain(*_last_error(log, begin))
    raise typer.Exit(process.returncode if process.returncode > 0 else ExitCode.INTERNAL)


def _answers(home: Home, pid: int) -> bool:
    """Whether the daemon with this process id holds the home and is past its start."""
    from fednode.control.client import ControlClient  # noqa: PLC0415 - it brings grpc, which --help does without

    if not home.control_socket.exists() or home.lock.read_text() != str(pid):
        return False
    try:
        with ControlClient(home.control_socket) as client:
            return bool(client.status()["phase"] != "starting")
    except FednodeError:
        return False


def _last_error(log: Path, begin: int) -> tuple[str, str]:
    """The last error, with its hint, that the daemon wrote into its log after `begin`."""
    with log.open("rb") as stream:
        stream.seek(begin)
        lines = stream.read().decode(errors="replace").splitlines()
    for at in reversed(range(len(lines))):
        if lines[at].startswith(ERROR_PREFIX):
            hint = lines[at + 1] if at + 1 < len(lines) and lines[at + 1].startswith("  ") else ""
            return lines[at].removeprefix(ERROR_PREFIX), hint.strip()
    return "The daemon ended while it started.", f"Its log is {log}."
