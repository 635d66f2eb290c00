"""Free ports of this machine, held so that nobody else gets them before their node is started."""

import socket
from collections.abc import Iterable
from types import TracebackType
from typing import Self

HOST = "127.0.0.1"


class HeldPorts:
    """While entered, a free port for each name; `release` gives one up to the node that shall listen on it."""

    def __init__(self, names: Iterable[str]) -> None:
        self._sockets = {name: _bound() for name in names}
        self.addresses = {name: f"{HOST}:{held.getsockname()[1]}" for name, held in self._sockets.items()}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for held in self._sockets.values():
            held.close()

    def release(self, name: str) -> None:
        """Let the port of `name` be bound by another process."""
        self._sockets[name].close()


def _bound() -> socket.socket:
    held = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    held.bind((HOST, 0))
    return held
