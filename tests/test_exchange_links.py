"""Connections: addresses, who dials, what is known of a peer, and how they end and come back; over real sockets."""

import asyncio
import os
import socket
import subprocess
import sys
from dataclasses import replace

import pytest
from exchanging import CONTRACT, LIMITS, LOCAL, Node, asynchronous, nodes, until

from fednode.book import News
from fednode.errors import AddressError, ExitCode
from fednode.exchange import hello
from fednode.exchange.exchange import Exchange
from fednode_crypto.identity import Identity


@asynchronous
async def test_a_port_in_use_is_named_and_the_first_node_is_unaffected():
    async with nodes(2) as (first, other):
        second = Node()
        with pytest.raises(AddressError) as refused:
            await second.exchange.start(first.address)
        assert f"{first.address} is in use" in str(refused.value)
        assert refused.value.exit_code is ExitCode.ADDRESS
        await second.exchange.stop(0)
        await first.knows(lists=[other])
        await other.knows(first)
        await until(lambda: first.linked(other))


@asynchronous
@pytest.mark.parametrize(
    ("listen", "said"),
    [
        ("127.0.0.1:80000", "80000"),
        ("127.0.0.1:-1", "-1"),
        ("127.0.0.1:http", "http"),
        ("127.0.0.1", "127.0.0.1"),
        (":7777", ":7777"),
        ("::1:7777", "::1"),
        ("no-such-host.invalid:7777", "no-such-host.invalid"),
        ("192.0.2.1:0", "no address of this machine"),
    ],
)
async def test_an_address_that_cannot_be_listened_on_is_refused_by_name(listen, said):
    node = Node()
    with pytest.raises(AddressError, match=said):
        await node.exchange.start(listen)
    await node.exchange.stop(0)


@asynchronous
async def test_port_zero_gives_a_port_that_others_can_dial():
    node = Node()
    port = await node.exchange.start(LOCAL)
    assert 1024 <= port <= 65535
    _, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.close()
    await node.exchange.stop(0)


@asynchronous
async def test_a_node_that_does_not_listen_dials_and_hears():
    async with nodes(1) as (one,):
        two = Node()
        assert await two.exchange.start(None) == 0
        await one.knows(lists=[two])
        await two.knows(one)
        await until(lambda: one.linked(two) and two.linked(one))
        one.exchange.broadcast(News("catalogue", b"x"))
        await until(lambda: two.desk.heard)
        await two.exchange.stop(1)


@asynchronous
async def test_peers_that_are_listed_before_the_start_get_in():
    async with nodes(1) as (one,):
        two = Node()
        await two.knows(lists=[one])
        await two.listen()
        await one.knows(two)
        await until(lambda: one.linked(two) and two.linked(one))
        await two.exchange.stop(1)


@asynchronous
async def test_if_both_dial_one_watch_remains():
    async with nodes(2) as (lower, higher):
        await asyncio.gather(lower.knows(higher), higher.knows(lower))

        def directions() -> tuple[list[str | None], int]:
            links = [lower.exchange.links()[higher.id], higher.exchange.links()[lower.id]]
            return [link.direction for link in links], sum(len(node.exchange._hub._all()) for node in (lower, higher))

        await until(lambda: directions() in ((["out", "in"], 2), (["in", "out"], 2)))
        await asyncio.sleep(0.2)
        assert directions() in ((["out", "in"], 2), (["in", "out"], 2))


@asynchronous
async def test_when_the_watch_dies_the_other_side_dials():
    async with nodes(2) as (one, two):
        await one.knows(two)
        await two.knows(lists=[one])
        await until(lambda: two.linked(one))
        await two.knows(one)
        await one.knows(lists=[two])
        await until(lambda: two.exchange.links()[one.id].direction == "out" and one.linked(two))


@asynchronous
async def test_a_peer_that_returns_is_linked_again_and_hears_what_it_missed():
    async with nodes(1) as (one,):
        two = Node()
        await two.exchange.start(None)
        await one.knows(lists=[two])
        await two.knows(one)
        await until(lambda: one.linked(two) and two.linked(one))
        await two.exchange.stop(1)
        await until(lambda: not one.linked(two))
        one.desk.known = [News("revocation", b"missed")]
        again = Exchange(two.identity, CONTRACT, two.desk, LIMITS)
        await again.start(None)
        await again.set_peers({one.id: one.address})
        await until(lambda: two.desk.known == one.desk.known)
        await again.stop(1)


@asynchronous
async def test_who_dials_before_the_peer_listens_is_linked_later():
    async with nodes(1) as (one,):
        with socket.socket() as reserved:
            reserved.bind(("127.0.0.1", 0))
            address = f"127.0.0.1:{reserved.getsockname()[1]}"
        two = Node()
        two.address = address
        await one.knows(two)
        await until(lambda: one.exchange.links()[two.id].last_error)
        assert one.exchange.links()[two.id].last_error.endswith(f"nothing listens at {address}.")
        assert one.desk.faults == []
        await two.exchange.start(address)
        await two.knows(lists=[one])
        await until(lambda: one.linked(two) and two.linked(one))
        assert one.exchange.links()[two.id].last_error == ""
        await two.exchange.stop(1)


@asynchronous
async def test_why_a_peer_is_not_linked_is_one_sentence_for_each_cause():
    async def answer(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        writer.close()

    async with nodes(1) as (node,), await asyncio.start_server(answer, "127.0.0.1", 0) as plain:
        port = plain.sockets[0].getsockname()[1]
        expected = {
            "no-such-host.invalid:7777": "can't be resolved",
            f"127.0.0.1:{port}": "does not speak TLS",
        }
        for address, said in expected.items():
            peer = Node()
            peer.address = address
            await node.knows(peer)
            await until(lambda peer=peer: node.exchange.links()[peer.id].last_error)
            assert said in node.exchange.links()[peer.id].last_error


@asynchronous
async def test_another_contract_is_refused_with_the_field_and_both_values():
    async with nodes(1) as (one,):
        two = Node(contract="d" * 64)
        await two.exchange.start(None)
        await one.knows(lists=[two])
        await two.knows(one)
        await until(lambda: one.desk.faults and two.desk.faults)
        for node in (one, two):
            error = node.desk.faults[0][1]
            assert error.code == "other-contract"
            assert all(part in str(error) for part in ("contract", "c" * 64, "d" * 64))
        await asyncio.sleep(0.5)
        assert (len(one.desk.faults), one.linked(two)) == (1, False)
        await two.exchange.stop(1)


@asynchronous
async def test_nodes_without_a_protocol_version_in_common_name_both_sides_versions(monkeypatch):
    async with nodes(2) as (one, two):
        greeting = two.exchange._reception.greeting
        monkeypatch.setattr(two.exchange._reception, "greeting", lambda: replace(greeting(), protocols=(7, 8)))
        await one.knows(lists=[two])
        await two.knows(one)
        await until(lambda: one.desk.faults)
        assert one.desk.faults[0][1].code == "other-version"
        assert all(part in str(one.desk.faults[0][1]) for part in ("protocols", "[7, 8]", str(list(hello.PROTOCOLS))))


@asynchronous
async def test_a_newer_peer_that_still_speaks_our_version_is_linked(monkeypatch):
    async with nodes(2) as (one, two):
        greeting = two.exchange._reception.greeting
        monkeypatch.setattr(
            two.exchange._reception, "greeting", lambda: replace(greeting(), protocols=(1, 2), software="fednode 9")
        )
        await one.knows(lists=[two])
        await two.knows(one)
        await until(lambda: one.linked(two) and two.linked(one))
        link = one.exchange.links()[two.id]
        assert (link.software, link.protocol) == ("fednode 9", 1)


@asynchronous
async def test_a_clock_and_a_roster_that_differ_only_show(monkeypatch):
    async with nodes(2) as (one, two):
        greeting = two.exchange._reception.greeting
        monkeypatch.setattr(
            two.exchange._reception, "greeting", lambda: replace(greeting(), clock=greeting().clock + 3600)
        )
        one.desk.listed = {Identity.generate().peer_id}
        await one.knows(lists=[two])
        await two.knows(one)
        await until(lambda: one.linked(two) and two.linked(one))
        assert one.exchange.links()[two.id].skew == pytest.approx(3600, abs=30)
        assert two.exchange.links()[one.id].skew == pytest.approx(0, abs=30)
        assert one.exchange.links()[two.id].same_roster is False


@asynchronous
async def test_an_address_that_changes_is_dialled_anew():
    async with nodes(3) as (one, two, three):
        await two.knows(lists=[one])
        right, two.address = two.address, three.address
        await one.knows(two)
        await until(lambda: one.exchange.links()[two.id].last_error)
        two.address = right
        await one.knows(two)
        await until(lambda: one.linked(two) and two.linked(one))


@asynchronous
async def test_who_is_listed_no_more_is_cut_off_and_the_others_stay():
    async with nodes(3) as (one, two, three):
        await one.knows(lists=[two, three])
        await two.knows(one)
        await three.knows(one)
        await until(lambda: one.linked(two) and one.linked(three))
        since = one.exchange.links()[three.id].since
        one.desk.listed = {three.id}
        await one.exchange.set_peers({three.id: None})
        await until(lambda: not two.linked(one))
        assert one.exchange.links().keys() == {three.id}
        assert one.exchange.links()[three.id].since == since


@asynchronous
async def test_what_waits_to_be_said_is_said_before_the_end():
    async with nodes(2) as (one, two):
        await one.knows(lists=[two])
        await two.knows(one)
        await until(lambda: one.linked(two) and two.linked(one))
        last = [News("receipt", b"%d" % number) for number in range(50)]
        for news in last:
            two.exchange.broadcast(news)
        await two.exchange.stop(5)
        await until(lambda: not one.linked(two))
        assert [news for news, _ in one.desk.heard] == last


@asynchronous
async def test_tombstones_are_said_first():
    async with nodes(2) as (one, two):
        await one.knows(lists=[two])
        two.desk.known = [News("catalogue", b"%d" % number) for number in range(200)]
        two.desk.known.append(News("revocation", b"last"))
        await two.knows(one)
        await until(lambda: len(one.desk.heard) == 201)
        assert one.desk.heard[0][0] == News("revocation", b"last")


@asynchronous
async def test_a_statement_that_is_refused_is_noted_and_the_watch_goes_on():
    async with nodes(2) as (one, two):
        await one.knows(lists=[two])
        await two.knows(one)
        await until(lambda: one.linked(two) and two.linked(one))
        two.exchange.broadcast(News("catalogue", b"bad one"))
        two.exchange.broadcast(News("catalogue", b"good one"))
        await until(lambda: one.desk.known)
        assert [(peer, error.code) for peer, error in one.desk.faults] == [(two.id, "bad-statement")]
        assert one.linked(two)


@asynchronous
async def test_an_error_of_our_own_while_hearing_ends_the_watch_and_the_news_comes_again(caplog):
    async with nodes(2) as (one, two):
        accept, failures = one.desk.accept, ["once"]

        def failing(news, sender):
            if failures:
                failures.pop()
                raise OSError("the ledger is full")
            return accept(news, sender)

        one.desk.accept = failing
        two.desk.known = [News("catalogue", b"x")]
        await one.knows(lists=[two])
        await two.knows(one)
        await until(lambda: one.desk.known == two.desk.known)
        assert "the ledger is full" in caplog.text


@asynchronous
async def test_a_peer_that_does_not_listen_to_what_is_said_loses_its_watch():
    async with nodes(2, replace(LIMITS, outbox=100)) as (one, two):
        await one.knows(lists=[two])
        await two.knows(one)
        await until(lambda: one.linked(two) and two.linked(one))
        for number in range(200):
            one.exchange.broadcast(News("receipt", b"%d" % number))
        await until(lambda: one.desk.faults)
        assert one.desk.faults[0][1].code == "stalled"


@asynchronous
async def test_bytes_of_statements_are_counted_on_both_sides():
    async with nodes(2) as (one, two):
        one.desk.known = [News("catalogue", b"12345", (b"123", b"1"))]
        await one.knows(lists=[two])
        await two.knows(one)
        await until(lambda: two.desk.known)
        assert one.desk.counted == {("sent", "statement"): 9}
        assert two.desk.counted == {("received", "statement"): 9}


@asynchronous
async def test_a_catalogue_of_many_megabytes_passes():
    async with nodes(2) as (one, two):
        one.desk.known = [News("catalogue", b"c", tuple(bytes([number]) * 60_000 for number in range(150)))]
        await one.knows(lists=[two])
        await two.knows(one)
        await until(lambda: two.desk.known == one.desk.known)


def test_a_proxy_in_the_environment_is_not_used_and_a_run_leaves_nothing_on_stderr():
    script = """
from exchanging import asynchronous, nodes, until

@asynchronous
async def main():
    async with nodes(2) as (one, two):
        await one.knows(two)
        await two.knows(one)
        await until(lambda: one.linked(two) and two.linked(one))
        stranger = one.desk.listed
        one.desk.listed = set()
        one.exchange.kick(two.id)
        await until(lambda: not two.linked(one))
        one.desk.listed = stranger
        await one.exchange.set_peers({})
        await until(lambda: two.exchange.links()[one.id].last_error)

main()
"""
    proxy = dict.fromkeys(
        ("http_proxy", "https_proxy", "grpc_proxy", "HTTP_PROXY", "HTTPS_PROXY"), "http://127.0.0.1:9"
    )
    environment = {**os.environ, **proxy, "PYTHONPATH": os.pathsep.join(sys.path)}
    environment.pop("no_proxy", None)
    done = subprocess.run([sys.executable, "-c", script], check=False, env=environment, capture_output=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


@asynchronous
async def test_stopping_in_the_middle_of_everything_leaves_no_task_behind():
    async with nodes(3) as made:
        for node in made:
            await node.knows(*(other for other in made if other is not node))
    await asyncio.sleep(0.1)
    ours = [task for task in asyncio.all_tasks() if "fednode" in repr(task)]
    assert ours == []
