"""What peers can call here. Each handler gets a `Stream` with its caller from the gate, in place of gRPC's context."""

import time
from typing import Any

from fednode.errors import PeerError
from fednode.exchange.desk import Desk
from fednode.exchange.hello import Reception
from fednode.exchange.hub import Hub
from fednode.exchange.limits import ExchangeLimits
from fednode.exchange.stream import Stream
from fednode.exchange.watch import Session
from fednode.exchange.wire import asked_artifact, greeting_message, greeting_of, news_message, news_size
from fednode_protos import exchange_pb2 as pb
from fednode_protos import exchange_pb2_grpc as rpc


class Service(rpc.ExchangeServicer):  # type: ignore[misc]
    """The five calls of `exchange.proto`."""

    def __init__(self, reception: Reception, hub: Hub, desk: Desk, limits: ExchangeLimits) -> None:
        self._reception = reception
        self._hub = hub
        self._desk = desk
        self._limits = limits

    async def Hello(self, request: pb.Greeting, stream: Stream) -> pb.Greeting:  # noqa: N802
        """Say who we are to a caller that fits."""
        try:
            self._reception.greeted(stream.peer, greeting_of(request), time.time())
        except PeerError as error:
            self._hub.refused(stream.peer, error)
            raise
        return greeting_message(self._reception.greeting())

    async def Watch(self, _requests: Any, stream: Stream) -> None:  # noqa: N802
        """Talk with the caller until one of us ends it."""
        self._reception.check(stream.peer)
        try:
            await self._hub.watch(Session(stream.peer, self._limits), stream)
        except PeerError as error:
            self._hub.refused(stream.peer, error)
            raise

    async def Fetch(self, _requests: Any, stream: Stream) -> None:  # noqa: N802
        """Give the caller an artifact."""
        pair = asked_artifact(await stream.read(self._limits.idle))
        await self._hub.giver.give(stream, pair)

    async def Push(self, _requests: Any, stream: Stream) -> None:  # noqa: N802
        """Take an artifact that we asked the caller for."""
        await self._hub.fetcher.pushed(stream)

    async def GetReceipts(self, _request: pb.ReceiptsRequest, stream: Stream) -> None:  # noqa: N802
        """Tell the caller of revocations and receipts; the desk gives a revoked peer those about itself."""
        for news in self._desk.news(stream.peer):
            if news.kind in ("revocation", "receipt"):
                await stream.write(news_message(news), self._limits.idle)
                self._desk.count("sent", "statement", news_size(news))
