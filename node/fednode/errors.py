"""Errors that carry one sentence for a person, the next step, and a documented exit code.

Rule 1: a message is one sentence on what is wrong; `hint` says what to do next.
Rule 2: a peer's fault is a `PeerError` and never stops the node; every other error here is ours or the operator's.
Rule 3: exit codes are documented in `docs/exit-codes.md`, stay at or below 125 and never change meaning.
"""

from enum import IntEnum


class ExitCode(IntEnum):
    """What the process says when it ends; see `docs/exit-codes.md`."""

    OK = 0
    INTERNAL = 1
    USAGE = 2
    CONFIG = 3
    IDENTITY = 4
    DATA = 5
    ADDRESS = 6
    HOME_IN_USE = 7
    NOT_RUNNING = 8
    CONTRACT_MISMATCH = 9
    NO_ANSWER = 10
    STORAGE = 11
    WORKER = 12
    REFUSED = 13
    INTERRUPTED = 14


class FednodeError(Exception):
    """Something a person must know; `exit_code` is what a verb ends with when it meets this error."""

    exit_code = ExitCode.INTERNAL

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message} {self.hint}".strip()


class ConfigError(FednodeError):
    """peers.yaml, config.yaml, an environment variable or a flag is wrong."""

    exit_code = ExitCode.CONFIG


class IdentityError(FednodeError):
    """The identity is missing, already there, unreadable or not private."""

    exit_code = ExitCode.IDENTITY


class DataError(FednodeError):
    """The node's own images are missing, unreadable or do not fit the contract."""

    exit_code = ExitCode.DATA


class AddressError(FednodeError):
    """The listening address can't be used."""

    exit_code = ExitCode.ADDRESS


class HomeInUseError(FednodeError):
    """Another daemon holds the home's lock."""

    exit_code = ExitCode.HOME_IN_USE


class NotRunningError(FednodeError):
    """No daemon answers on this home's control socket."""

    exit_code = ExitCode.NOT_RUNNING


class NoAnswerError(FednodeError):
    """The product that was asked for can't answer."""

    exit_code = ExitCode.NO_ANSWER


class StorageError(FednodeError):
    """The disk is full, or a stored file is damaged."""

    exit_code = ExitCode.STORAGE


class WorkerError(FednodeError):
    """A worker crashed, ran out of memory or was cancelled; `code` names which."""

    exit_code = ExitCode.WORKER

    def __init__(self, code: str, message: str, hint: str = "") -> None:
        super().__init__(message, hint)
        self.code = code


class RefusedError(FednodeError):
    """The node declines to do what was asked, and nothing has changed."""

    exit_code = ExitCode.REFUSED


class PeerError(FednodeError):
    """A peer's fault: what it sent is not used, and the node goes on. `code` is one of a fixed list."""

    exit_code = ExitCode.CONTRACT_MISMATCH

    def __init__(self, code: str, message: str, hint: str = "") -> None:
        super().__init__(message, hint)
        self.code = code
