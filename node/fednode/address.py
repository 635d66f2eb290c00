"""Addresses as people write them: HOST:PORT, or [IPV6]:PORT."""

import ipaddress
import re

from fednode.errors import AddressError

HIGHEST_PORT = 65535

_NAME = re.compile(
    r"(?!.{254})([A-Za-z0-9_]([A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?\.)*[A-Za-z0-9_]([A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?"
)


def parse_address(text: str, lowest_port: int = 1) -> tuple[str, int]:
    """The host (an IPv6 one without its brackets) and the port (`lowest_port`..65535) that `text` names.

    `lowest_port` 0 admits the listening address that leaves the choice of a port to the system. Raises AddressError.
    """
    host, colon, port = text.rpartition(":")
    if not colon or not host:
        raise AddressError(f"{text!r} is no HOST:PORT.", "Write it like 192.0.2.7:7777.")
    return _host(host), _port(port, lowest_port)


def _host(text: str) -> str:
    if text.startswith("[") and text.endswith("]"):
        return _ipv6(text[1:-1])
    if ":" in text:
        raise AddressError(f"{text!r} is no host.", "An IPv6 address stands in brackets, like [2001:db8::7]:7777.")
    if not _NAME.fullmatch(text):
        raise AddressError(f"{text!r} is no host name or IP address.")
    if text.rpartition(".")[2].isdigit() and not _is_ipv4(text):
        raise AddressError(f"{text!r} is no IPv4 address.", "It has four numbers from 0 to 255.")
    return text


def _ipv6(text: str) -> str:
    try:
        return str(ipaddress.IPv6Address(text))
    except ValueError:
        raise AddressError(f"{text!r} is no IPv6 address.") from None


def _is_ipv4(text: str) -> bool:
    try:
        ipaddress.IPv4Address(text)
    except ValueError:
        return False
    return True


def _port(text: str, lowest: int) -> int:
    if not re.fullmatch(r"[0-9]+", text):
        raise AddressError(f"{text!r} is no port.", f"A port is a number from {lowest} to {HIGHEST_PORT}.")
    port = int(text[:10])  # more digits are too many in any case, and Python refuses to convert thousands of them
    if not lowest <= port <= HIGHEST_PORT:
        raise AddressError(f"The port {text[:10]} is not from {lowest} to {HIGHEST_PORT}.")
    return port
