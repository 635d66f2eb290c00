"""The home that a verb works on, its settings, and its daemon."""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from fednode.config import Home, Settings, load_settings
from fednode.errors import IdentityError
from fednode_crypto.identity import Identity

if TYPE_CHECKING:
    from fednode.control.client import ControlClient


def home() -> Home:
    """The home that the environment names."""
    return Home.find(os.environ)


def identity() -> Identity:
    """The home's identity. Raises IdentityError if there is none, and KeyFileError if it is not safe."""
    path = home().identity
    if not os.path.lexists(path):
        raise IdentityError(f"There is no identity at {path}.", "Make one with `fednode init`.")
    return Identity.load(path)


def settings(flags: Mapping[str, object]) -> Settings:
    """The home's settings, with the flags that were given. Raises ConfigError and AddressError."""
    return load_settings(home(), flags, os.environ)


@contextmanager
def daemon() -> Iterator["ControlClient"]:
    """A client of the home's running daemon; its methods raise NotRunningError if there is none."""
    from fednode.control.client import ControlClient  # noqa: PLC0415 - it brings grpc, which --help does without

    with ControlClient(home().control_socket) as client:
        yield client
