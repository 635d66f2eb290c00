"""Addresses as people write them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fednode.address import parse_address
from fednode.errors import AddressError


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [
        ("192.0.2.7:7777", "192.0.2.7", 7777),
        ("node-b.clinic.example:1", "node-b.clinic.example", 1),
        ("localhost:65535", "localhost", 65535),
        ("fed_node:80", "fed_node", 80),
        ("[2001:db8::7]:7777", "2001:db8::7", 7777),
        ("[2001:DB8:0::7]:7777", "2001:db8::7", 7777),
        ("[fe80::1%eth0]:7777", "fe80::1%eth0", 7777),
    ],
)
def test_host_and_port_are_told_apart(text: str, host: str, port: int) -> None:
    assert parse_address(text) == (host, port)


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("192.0.2.7", "HOST:PORT"),
        (":7777", "HOST:PORT"),
        ("", "HOST:PORT"),
        ("host:", "port"),
        ("host:http", "port"),
        ("host:-1", "port"),
        ("host:٧", "port"),
        ("host:80000", "80000"),
        ("host:0", "from 1"),
        ("host:" + "9" * 5000, "9999999999 "),
        ("2001:db8::7:7777", "brackets"),
        ("[2001:db8::g]:7777", "IPv6"),
        ("256.0.0.1:7777", "IPv4"),
        ("10.1:7777", "IPv4"),
        ("a host:7777", "host name"),
        ("-host:7777", "host name"),
        ("host-:7777", "host name"),
        ("https://host:7777", "host"),
        ("host/path:7777", "host name"),
        ("a" * 64 + ":7777", "host name"),
        ("a." * 127 + "a:7777", "host name"),
    ],
)
def test_a_wrong_address_is_refused_with_the_wrong_part_named(text: str, wrong: str) -> None:
    with pytest.raises(AddressError, match=wrong.replace("[", r"\[")):
        parse_address(text)


def test_a_listening_address_may_leave_the_port_to_the_system() -> None:
    assert parse_address("127.0.0.1:0", lowest_port=0) == ("127.0.0.1", 0)


@given(st.text(max_size=40))
def test_any_text_is_an_address_or_an_address_error(text: str) -> None:
    try:
        host, port = parse_address(text)
    except AddressError:
        return
    assert host
    assert 1 <= port <= 65535
