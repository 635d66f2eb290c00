"""Who gets in: over real sockets, with TLS as it is and callers as they should not be."""

import asyncio
import os
import socket
import ssl
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

import grpc
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from exchanging import CONTRACT, LIMITS, Node, asynchronous, nodes, until, weights
from grpc_health.v1 import health_pb2

from fednode.book import News
from fednode.exchange.channels import SERVICE, channel_options
from fednode.exchange.trust import Trust
from fednode_crypto.certificate import Leaf, make_anchor, mint_leaf, server_name
from fednode_crypto.identity import Identity
from fednode_protos import exchange_pb2 as pb

GREETING = pb.Greeting(software="test 1", protocols=[1], contract=CONTRACT, clock_ms=0, roster="0" * 64)


def leaf(identity: Identity, now: datetime | None = None) -> Leaf:
    return mint_leaf(identity, now or datetime.now(UTC))


def forged_leaf(signer: Identity, named: Identity) -> Leaf:
    """A leaf that `signer` signed and that names another."""
    key, now, name = ec.generate_private_key(ec.SECP256R1()), datetime.now(UTC), named.peer_id.replace("-", "")
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    issuer = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, signer.peer_id.replace("-", ""))])
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(hours=1))
    )
    pem = signer.sign_certificate(builder).public_bytes(serialization.Encoding.PEM)
    secret = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return Leaf(pem, secret, now)


@asynccontextmanager
async def channel(node: Node, shown: Leaf | None) -> AsyncIterator[grpc.aio.Channel]:
    """A caller who shows `shown`, or nothing."""
    secret, chain = (shown.key_pem, shown.certificate_pem) if shown else (None, None)
    credentials = grpc.ssl_channel_credentials(make_anchor(node.id), secret, chain)
    target = f"dns:///{node.address}"
    async with grpc.aio.secure_channel(target, credentials, options=channel_options(LIMITS, node.id)) as line:
        yield line


async def hello(line: grpc.aio.Channel) -> grpc.StatusCode:
    """How Hello ends."""
    try:
        await line.unary_unary(SERVICE + "Hello")(GREETING.SerializeToString(), timeout=5)
    except grpc.aio.AioRpcError as error:
        return error.code()
    return grpc.StatusCode.OK


@asynchronous
async def test_a_listed_peer_gets_in_and_nobody_else_does():
    async with nodes(1) as (node,):
        listed, stranger = Identity.generate(), Identity.generate()
        node.desk.listed = {listed.peer_id}
        await node.exchange.set_peers({listed.peer_id: None})
        far_off = datetime.now(UTC) + timedelta(days=60)
        shown = {
            "listed": leaf(listed),
            "stranger": leaf(stranger),
            "no certificate": None,
            "expired": leaf(listed, datetime.now(UTC) - timedelta(days=31)),
            "not yet valid": leaf(listed, far_off),
            "a stranger that names a listed peer": forged_leaf(stranger, listed),
        }
        found = {}
        for name, certificate in shown.items():
            async with channel(node, certificate) as line:
                found[name] = await hello(line)
        assert found.pop("listed") is grpc.StatusCode.OK
        assert set(found.values()) == {grpc.StatusCode.UNAVAILABLE}


@asynchronous
async def test_plaintext_is_refused():
    async with nodes(1) as (node,), grpc.aio.insecure_channel(f"dns:///{node.address}") as line:
        assert await hello(line) is grpc.StatusCode.UNAVAILABLE


@asynchronous
async def test_a_listed_peer_that_names_another_is_itself_at_most():
    async with nodes(1) as (node,):
        real, named = Identity.generate(), Identity.generate()
        node.desk.listed = {real.peer_id, named.peer_id}
        await node.exchange.set_peers(dict.fromkeys(node.desk.listed))
        async with channel(node, forged_leaf(real, named)) as line:
            await hello(line)
        assert node.exchange.links()[named.peer_id].last_contact == 0


@asynchronous
async def test_a_peer_that_is_listed_later_gets_in_and_one_that_is_removed_does_not_any_more():
    async with nodes(1) as (node,):
        peer = Identity.generate()
        node.desk.listed = {peer.peer_id}
        async with channel(node, leaf(peer)) as line:
            assert await hello(line) is grpc.StatusCode.UNAVAILABLE
        await node.exchange.set_peers({peer.peer_id: None})
        async with channel(node, leaf(peer)) as line:
            assert await hello(line) is grpc.StatusCode.OK
            await node.exchange.set_peers({})
            assert await hello(line) is grpc.StatusCode.UNAUTHENTICATED


@asynchronous
async def test_whoever_answers_with_another_key_is_not_talked_to():
    async with nodes(3) as (node, expected, impostor):
        impostor.desk.listed = {node.id}
        await impostor.exchange.set_peers({node.id: None})
        expected.address = impostor.address
        await node.knows(expected)
        await until(lambda: node.exchange.links()[expected.id].last_error)
        assert "does not have its key" in node.exchange.links()[expected.id].last_error
        assert [error.code for _, error in node.desk.faults] == ["not-the-peer"]
        assert impostor.exchange.links()[node.id].last_contact == 0


@asynchronous
async def test_an_open_connection_of_a_suspended_peer_gets_no_further_call_and_no_further_message():
    async with nodes(2) as (node, other):
        await node.knows(lists=[other])
        await other.knows(node)
        await until(lambda: node.linked(other))
        node.desk.listed.clear()
        sent = News("catalogue", b"late")
        other.exchange.broadcast(sent)
        await until(lambda: not other.linked(node))
        assert sent not in [news for news, _ in node.desk.heard]
        await until(lambda: "does not let this node take part" in other.exchange.links()[node.id].last_error)


@asynchronous
async def test_a_peer_that_is_suspended_in_the_middle_of_a_fetch_gets_no_further_piece():
    async with nodes(2) as (node, other):
        data = weights(4 * 2**20)
        pair = node.desk.hold(node.id, data)
        other.desk.offer(node.id, data)
        node.desk.read = lambda _, index: node.desk.listed.clear() if index == 1 else None
        other.exchange.want([pair])
        await node.knows(lists=[other])
        await other.knows(node)
        await until(lambda: not node.desk.listed)
        await asyncio.sleep(0.3)
        assert other.desk.written in ([], [0])  # a piece on its way may be lost with the connection


@asynchronous
async def test_a_kicked_peer_is_gone_at_once_and_returns_once_it_may():
    async with nodes(2) as (node, other):
        await node.knows(lists=[other])
        await other.knows(node)
        await until(lambda: node.linked(other))
        node.desk.listed.clear()
        node.exchange.kick(other.id)
        await until(lambda: not node.linked(other) and not other.linked(node))
        node.desk.listed = {other.id}
        await until(lambda: node.linked(other) and other.linked(node))


@asynchronous
async def test_a_revoked_peer_still_hears_why_and_nothing_else():
    async with nodes(2) as (node, other):
        node.desk.known = [News("catalogue", b"c"), News("receipt", b"r"), News("revocation", b"v")]
        await node.knows(lists=[other])
        node.desk.listed.clear()
        node.desk.receipts_for = {other.id}
        await other.knows(node)
        await until(lambda: len(other.desk.heard) >= 2)
        assert {news.kind for news, _ in other.desk.heard} == {"receipt", "revocation"}
        assert not other.linked(node)


@asynchronous
async def test_bytes_that_are_no_message_end_the_call_and_leave_no_traceback(caplog):
    async with nodes(1) as (node,):
        peer = Identity.generate()
        node.desk.listed = {peer.peer_id}
        await node.exchange.set_peers({peer.peer_id: None})
        codes = []
        async with channel(node, leaf(peer)) as line:
            await hello(line)
            for method in ("Watch", "Fetch", "Push"):
                call = line.stream_stream(SERVICE + method)()
                with suppress(grpc.aio.AioRpcError, asyncio.InvalidStateError):
                    await call.write(b"\xff\xff")
                    while await call.read() is not grpc.aio.EOF:
                        pass
                codes.append(await call.code())
            with pytest.raises(grpc.aio.AioRpcError) as refused:
                await line.unary_unary(SERVICE + "Hello")(b"\xff\xff")
        assert {*codes, refused.value.code()} == {grpc.StatusCode.INVALID_ARGUMENT}
        assert caplog.records == []


@asynchronous
async def test_a_push_that_nobody_asked_for_is_refused():
    async with nodes(1) as (node,):
        peer = Identity.generate()
        node.desk.listed = {peer.peer_id}
        await node.exchange.set_peers({peer.peer_id: None})
        pair = node.desk.offer(peer.peer_id, weights(100))
        offer = pb.Offer(
            artifact=pb.Artifact(issuer=pair.issuer, digest=pair.digest), pieces=node.desk.lists[pair].to_bytes()
        )
        async with channel(node, leaf(peer)) as line:
            call = line.stream_stream(SERVICE + "Push")()
            await call.write(pb.Part(offer=offer).SerializeToString())
            assert await call.code() is grpc.StatusCode.FAILED_PRECONDITION
        assert node.desk.downloads == {}


@asynchronous
async def test_what_is_not_here_or_void_is_not_given():
    async with nodes(1) as (node,):
        peer = Identity.generate()
        node.desk.listed = {peer.peer_id}
        await node.exchange.set_peers({peer.peer_id: None})
        void, absent = node.desk.hold(node.id, weights(100)), node.desk.offer(node.id, weights(200))
        del node.desk.manifests[void]
        async with channel(node, leaf(peer)) as line:
            for pair in (void, absent):
                call = line.stream_stream(SERVICE + "Fetch")()
                asked = pb.Ask(artifact=pb.Artifact(issuer=pair.issuer, digest=pair.digest))
                await call.write(asked.SerializeToString())
                assert await call.code() is grpc.StatusCode.NOT_FOUND


@asynchronous
async def test_a_watch_without_hello_is_refused():
    async with nodes(1) as (node,):
        peer = Identity.generate()
        node.desk.listed = {peer.peer_id}
        await node.exchange.set_peers({peer.peer_id: None})
        async with channel(node, leaf(peer)) as line:
            assert await line.stream_stream(SERVICE + "Watch")().code() is grpc.StatusCode.FAILED_PRECONDITION


@asynchronous
async def test_one_peer_has_only_so_many_calls_open():
    async with nodes(1) as (node,):
        peer = Identity.generate()
        node.desk.listed = {peer.peer_id}
        await node.exchange.set_peers({peer.peer_id: None})
        async with channel(node, leaf(peer)) as line:
            calls = [line.stream_stream(SERVICE + "Fetch")() for _ in range(LIMITS.calls_per_peer + 1)]
            ended = [asyncio.create_task(call.code()) for call in calls]
            done, _ = await asyncio.wait(ended, return_when=asyncio.FIRST_COMPLETED)
            assert [task.result() for task in done] == [grpc.StatusCode.RESOURCE_EXHAUSTED]
            for call in calls:
                call.cancel()
            await asyncio.gather(*ended)


@asynchronous
async def test_health_is_told_to_peers():
    async with nodes(1) as (node,):
        peer = Identity.generate()
        node.desk.listed = {peer.peer_id}
        await node.exchange.set_peers({peer.peer_id: None})
        async with channel(node, leaf(peer)) as line:
            check = line.unary_unary("/grpc.health.v1.Health/Check")
            reply = health_pb2.HealthCheckResponse.FromString(await check(b""))
        assert reply.status == health_pb2.HealthCheckResponse.SERVING


def frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    """An HTTP/2 frame (RFC 9113, section 4.1)."""
    return len(payload).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big") + payload


def literal(name: str, value: str) -> bytes:
    """A header field as HPACK writes it without its tables (RFC 7541, section 6.2.2)."""
    return b"\0" + b"".join(bytes([len(text)]) + text.encode() for text in (name, value))


def hello_by_hand(address: str, folder: Path, shown: Leaf, version: ssl.TLSVersion) -> bytes:
    """The bytes that answer a Hello over a TLS version that gRPC's own client does not let one choose."""
    (folder / "leaf.pem").write_bytes(shown.certificate_pem + shown.key_pem)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.minimum_version = context.maximum_version = version
    context.set_alpn_protocols(["h2"])
    context.load_cert_chain(folder / "leaf.pem")
    host, port = address.split(":")
    fields = {
        ":method": "POST",
        ":scheme": "https",
        ":path": SERVICE + "Hello",
        ":authority": "node",
        "content-type": "application/grpc",
        "te": "trailers",
    }
    headers = b"".join(literal(name, value) for name, value in fields.items())
    body = GREETING.SerializeToString()
    message = b"\0" + len(body).to_bytes(4, "big") + body
    with socket.create_connection((host, int(port)), timeout=5) as plain, context.wrap_socket(plain) as line:
        line.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(4, 0, 0, b""))
        line.sendall(frame(1, 4, 1, headers) + frame(0, 1, 1, message))
        answer = b""
        while b"grpc-status" not in answer and (data := line.recv(65536)):
            answer += data
        return answer


@asynchronous
@pytest.mark.parametrize(("version", "status"), [(ssl.TLSVersion.TLSv1_2, b"16"), (ssl.TLSVersion.TLSv1_3, b"0")])
async def test_only_tls_1_3_gets_in(version, status, tmp_path):
    async with nodes(1) as (node,):
        peer = Identity.generate()
        node.desk.listed = {peer.peer_id}
        await node.exchange.set_peers({peer.peer_id: None})
        answer = await asyncio.to_thread(hello_by_hand, node.address, tmp_path, leaf(peer), version)
        assert b"grpc-status" + bytes([len(status)]) + status in answer


@asynchronous
async def test_fifty_bad_handshakes_leave_nothing_open():
    def descriptors() -> int:
        return len(list(Path("/proc/self/fd").iterdir()))

    async with nodes(1) as (node,):
        peer = Identity.generate()
        node.desk.listed = {peer.peer_id}
        await node.exchange.set_peers({peer.peer_id: None})
        host, port = node.address.split(":")
        async with channel(node, leaf(peer)) as line:
            assert await hello(line) is grpc.StatusCode.OK
            before = descriptors()
            for index in range(50):
                _, writer = await asyncio.open_connection(host, int(port))
                writer.write(b"\x16\x03\x01" + bytes([index]) * 60)
                await writer.drain()
                writer.close()
            await until(lambda: descriptors() <= before)
            assert await hello(line) is grpc.StatusCode.OK


def test_a_flood_of_handshakes_while_the_peers_change_does_not_crash_the_process(tmp_path):
    script = """
import asyncio, socket, threading
from exchanging import asynchronous, nodes
from fednode_crypto.identity import Identity

async def flood(address, stopped):
    def run():
        while not stopped.is_set():
            lines = [socket.create_connection(address) for _ in range(20)]
            for line in lines:
                line.sendall(b"\\x16\\x03\\x01" + bytes(60))
                line.close()
    await asyncio.to_thread(run)

@asynchronous
async def main():
    async with nodes(1) as (node,):
        host, port = node.address.split(":")
        stopped = threading.Event()
        floods = [asyncio.create_task(flood((host, int(port)), stopped)) for _ in range(4)]
        for _ in range(4):
            await node.exchange.set_peers({Identity.generate().peer_id: None})
            await asyncio.sleep(0.5)
        stopped.set()
        await asyncio.gather(*floods)

main()
"""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "GRPC_VERBOSITY": "NONE"}
    done = subprocess.run([sys.executable, "-c", script], check=False, env=environment, capture_output=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, b"")


@asynchronous
async def test_silent_connections_do_not_keep_peers_out():
    async with nodes(1) as (node,):
        peer = Identity.generate()
        node.desk.listed = {peer.peer_id}
        await node.exchange.set_peers({peer.peer_id: None})
        host, port = node.address.split(":")
        silent = [await asyncio.open_connection(host, int(port)) for _ in range(100)]
        async with channel(node, leaf(peer)) as line:
            assert await hello(line) is grpc.StatusCode.OK
        closed = await asyncio.gather(*(reader.read() for reader, _ in silent), return_exceptions=True)
        assert len(closed) == len(silent)
        for _, writer in silent:
            writer.close()


def test_a_caller_is_the_key_that_signed_its_leaf_whatever_the_leaf_says():
    node, real, named = Identity.generate(), Identity.generate(), Identity.generate()
    trust = Trust(node)
    trust.set_peers([real.peer_id, named.peer_id])
    assert trust.caller(forged_leaf(real, named).certificate_pem) == real.peer_id
    assert trust.caller(leaf(named).certificate_pem) == named.peer_id
    assert trust.caller(leaf(Identity.generate()).certificate_pem) is None
    assert trust.caller(b"no certificate") is None


def test_a_caller_that_is_listed_no_more_is_nobody():
    node, peer = Identity.generate(), Identity.generate()
    trust, shown = Trust(node), leaf(peer).certificate_pem
    trust.set_peers([peer.peer_id])
    assert trust.caller(shown) == peer.peer_id
    trust.set_peers([])
    assert trust.caller(shown) is None


@asynchronous
async def test_a_new_leaf_is_used_by_the_next_connection():
    async with nodes(1) as (node,):
        peer = Identity.generate()
        node.desk.listed = {peer.peer_id}
        await node.exchange.set_peers({peer.peer_id: None})

        def shown() -> bytes:
            host, port = node.address.split(":")
            with (
                socket.create_connection((host, int(port)), timeout=5) as plain,
                context.wrap_socket(plain, server_hostname=server_name(node.id)) as line,
            ):
                return line.getpeercert(binary_form=True) or b""

        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        first, again = [await asyncio.to_thread(shown) for _ in range(2)]
        node.exchange._trust.renew()
        renewed = await asyncio.to_thread(shown)
        assert first == again
        assert renewed != first
