"""Errors at the rim: each becomes at most two lines on stderr and a documented exit code.

Rule 1: a person never sees a traceback, unless FEDNODE_DEBUG=1 asks for it.
Rule 2: a reader of our output that goes away early (`| head`) is no error.
"""

import os
import traceback
from collections.abc import Callable

import typer

from fednode.errors import ConfigError, ExitCode, FednodeError, IdentityError, StorageError
from fednode_cli.output import abandon_stdout, complain
from fednode_crypto.errors import CryptoError, KeyFileError, PeerIdError


def exit_code_of(action: Callable[[], object]) -> int:
    """Run `action` and give the exit code it ends with, after saying what went wrong, if anything did.

    Raises only typer's errors on wrong usage, which need the context that typer adds to them.
    """
    try:
        action()
    except typer.Exit as end:
        return end.exit_code
    except typer.TyperException:
        raise
    except KeyboardInterrupt:
        return ExitCode.INTERRUPTED
    except BrokenPipeError as error:
        return unwritable_output(error)
    except Exception as error:  # the last line of defence
        return _say(error)
    return ExitCode.OK


def say_usage(error: typer.TyperException) -> int:
    """Say what is wrong with the command line in two lines; gives the exit code."""
    context = getattr(error, "ctx", None)
    command = context.command_path if context else "fednode"
    complain(error.format_message(), f"See `{command} --help`.")
    return error.exit_code


def unwritable_output(error: OSError) -> int:
    """Give up on stdout after `error`; gives the exit code."""
    abandon_stdout()
    if isinstance(error, BrokenPipeError):
        return ExitCode.OK
    complain(f"The output can't be written: {error.strerror}.")
    return ExitCode.STORAGE


def _say(error: Exception) -> int:
    if os.environ.get("FEDNODE_DEBUG") == "1":
        traceback.print_exception(error)
    known = _as_ours(error)
    if known is None:
        complain(
            f"internal error: {type(error).__name__}: {error}",
            "Set FEDNODE_DEBUG=1 to see where; the daemon's own log is in the folder that `fednode paths` names.",
        )
        return ExitCode.INTERNAL
    complain(known.message, known.hint)
    return known.exit_code


def _as_ours(error: Exception) -> FednodeError | None:
    """The error of fednode that stands for `error`, if it is one that people can act on."""
    match error:
        case FednodeError():
            return error
        case KeyFileError():
            return IdentityError(error.message, error.hint)
        case PeerIdError():
            return ConfigError(error.message, error.hint)
        case CryptoError():
            return FednodeError(error.message, error.hint)
        case OSError():
            return StorageError(f"{error.filename or 'The system'}: {error.strerror or error}.")
    return None
