"""gRPC's options; each is here because its default was found to do harm."""

from collections.abc import Callable
from typing import Any

import grpc

from fednode.exchange.limits import ExchangeLimits
from fednode.exchange.stream import Stream
from fednode.exchange.trust import Trust
from fednode.exchange.wire import lenient
from fednode_crypto.certificate import server_name
from fednode_crypto.identity import PeerId
from fednode_protos import exchange_pb2 as pb

SERVICE = "/fednode.exchange.v1.Exchange/"
METADATA = 8 * 1024

Options = list[tuple[str, Any]]


def common_options(limits: ExchangeLimits) -> Options:
    """For both sides: sizes, and pings that notice a frozen peer without being taken for abuse."""
    return [
        ("grpc.max_receive_message_length", limits.message),
        ("grpc.max_send_message_length", limits.message),
        ("grpc.max_metadata_size", METADATA),
        ("grpc.absolute_max_metadata_size", METADATA),
        ("grpc.keepalive_time_ms", _ms(limits.keepalive)),
        ("grpc.keepalive_timeout_ms", _ms(limits.ping)),
        ("grpc.http2.ping_timeout_ms", _ms(limits.ping)),  # the keepalive timeout alone took 60 s to notice
        ("grpc.keepalive_permit_without_calls", 1),
        ("grpc.http2.max_pings_without_data", 0),
    ]


def server_options(limits: ExchangeLimits) -> Options:
    """For the side that listens."""
    return [
        *common_options(limits),
        ("grpc.so_reuseport", 0),  # else two nodes share one port, and each gets half of the calls
        ("grpc.server_handshake_timeout_ms", _ms(limits.handshake)),
        ("grpc.max_concurrent_streams", limits.streams),
        ("grpc.max_allowed_incoming_connections", limits.connections),
        ("grpc.max_connection_age_ms", _ms(limits.connection_age)),
        ("grpc.max_connection_age_grace_ms", _ms(limits.connection_age)),
        ("grpc.http2.min_ping_interval_without_data_ms", _ms(limits.keepalive / 2)),
    ]


def channel_options(limits: ExchangeLimits, peer: PeerId) -> Options:
    """For the side that dials `peer`."""
    return [
        *common_options(limits),
        ("grpc.ssl_target_name_override", server_name(peer)),
        ("grpc.default_authority", server_name(peer)),
        ("grpc.enable_http_proxy", 0),  # else http_proxy captures even 127.0.0.1
        ("grpc.use_local_subchannel_pool", 1),  # else a new channel waits for the back-off of an old one
        ("grpc.enable_retries", 0),
    ]


class Line:
    """Our connection to one peer, and the calls on it."""

    def __init__(
        self, peer: PeerId, address: str, trust: Trust, limits: ExchangeLimits, allowed: Callable[[PeerId], bool]
    ) -> None:
        self._peer = peer
        self._address = address
        self._allowed = allowed
        self._channel: Any = grpc.aio.secure_channel(
            f"dns:///{address}", trust.channel_credentials(peer), options=channel_options(limits, peer)
        )

    async def __aenter__(self) -> "Line":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._channel.close(None)

    async def hello(self, greeting: pb.Greeting, timeout: float) -> pb.Greeting | None:
        """The peer's greeting, None if it is no message. Raises AioRpcError."""
        call = self._channel.unary_unary(
            SERVICE + "Hello", pb.Greeting.SerializeToString, lenient(pb.Greeting.FromString)
        )
        reply: pb.Greeting | None = await call(greeting, timeout=timeout)
        return reply

    def watch(self) -> Stream:
        """Open the watch."""
        return self._duplex("Watch", pb.WatchMessage, pb.WatchMessage)

    def fetch(self) -> Stream:
        """Open a Fetch."""
        return self._duplex("Fetch", pb.Ask, pb.Part)

    def push(self) -> Stream:
        """Open a Push."""
        return self._duplex("Push", pb.Part, pb.Ask)

    def receipts(self) -> Stream:
        """Ask for revocations and receipts; nothing but those may be read, whoever the peer is."""
        call = self._channel.unary_stream(
            SERVICE + "GetReceipts", pb.ReceiptsRequest.SerializeToString, lenient(pb.News.FromString)
        )
        return Stream(call(pb.ReceiptsRequest()), self._peer, lambda _: True, self._address)

    def _duplex(self, method: str, ours: Any, theirs: Any) -> Stream:
        call = self._channel.stream_stream(SERVICE + method, ours.SerializeToString, lenient(theirs.FromString))
        return Stream(call(), self._peer, self._allowed, self._address)


def _ms(seconds: float) -> int:
    return round(seconds * 1000)
