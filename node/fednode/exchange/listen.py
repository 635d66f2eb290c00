"""The listening address, checked before gRPC sees it: gRPC takes port 80000 for 14464 and never says why it can't bind."""

import asyncio
import errno
import socket
from typing import Any

from fednode.address import parse_address
from fednode.errors import AddressError

_REASONS = {
    errno.EADDRINUSE: ("is in use by another program", "Stop that program, or choose another port with --listen."),
    errno.EACCES: ("needs privileges", "Choose a port above 1023 with --listen."),
    errno.EADDRNOTAVAIL: ("is no address of this machine", "Use 0.0.0.0 to listen on all of its addresses."),
}


async def check_listen(listen: str) -> str:
    """The address `listen` (HOST:PORT, port 0 to let the system choose) as gRPC takes it. Raises AddressError."""
    host, port = parse_address(listen, lowest_port=0)
    for family, place in await _resolve(host, port):
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(place)
            except OSError as error:
                raise _address_error(listen, error) from error
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


async def _resolve(host: str, port: int) -> set[tuple[socket.AddressFamily, tuple[Any, ...]]]:
    loop = asyncio.get_running_loop()
    try:
        found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except OSError as error:
        raise AddressError(f"The host name {host!r} of the listening address can't be resolved.") from error
    return {(family, place) for family, _, _, _, place in found}


def _address_error(listen: str, error: OSError) -> AddressError:
    reason, hint = _REASONS.get(
        error.errno or 0, (f"can't be used ({error.strerror})", "Choose another with --listen.")
    )
    return AddressError(f"The listening address {listen} {reason}.", hint)
