"""The exchange: this node's connections to its peers, as the rest of the node sees them.

Rule 1: it knows no plan and no ledger; what it needs of the node it asks the desk.
Rule 2: a peer's fault never reaches the node as an exception.
Rule 3: everything works over one connection, whoever of the two can dial.
"""

import asyncio
from collections.abc import Collection, Mapping
from importlib.metadata import PackageNotFoundError, version

import grpc
from grpc_health.v1.health import aio as health  # type: ignore[attr-defined]
from grpc_health.v1.health_pb2_grpc import add_HealthServicer_to_server

from fednode.book import News
from fednode.errors import AddressError
from fednode.exchange.channels import server_options
from fednode.exchange.client import Dialler
from fednode.exchange.desk import Desk
from fednode.exchange.gate import Gate
from fednode.exchange.hello import Reception
from fednode.exchange.hub import Hub
from fednode.exchange.limits import ExchangeLimits
from fednode.exchange.links import Link
from fednode.exchange.listen import check_listen
from fednode.exchange.server import Service
from fednode.exchange.trust import Trust
from fednode.lineage import Pair
from fednode_crypto.identity import Identity, PeerId
from fednode_protos.exchange_pb2_grpc import add_ExchangeServicer_to_server

__all__ = ["Exchange", "ExchangeLimits", "Link"]


class Exchange:
    """Call everything on one event loop; `start` first, `stop` last."""

    def __init__(self, identity: Identity, contract_id: str, desk: Desk, limits: ExchangeLimits) -> None:
        self._desk = desk
        self._limits = limits
        self._trust = Trust(identity)
        self._hub = Hub(identity.peer_id, desk, limits)
        self._reception = Reception(identity.peer_id, contract_id, _software(), self._hub.links)
        self._dialler = Dialler(self._reception, self._hub, self._trust, desk, limits)
        self._server: grpc.aio.Server | None = None
        self._health = health.HealthServicer()
        self._dials: dict[PeerId, tuple[str, asyncio.Task[None]]] = {}
        self._renewal: asyncio.Task[None] | None = None

    async def start(self, listen: str | None) -> int:
        """Listen on HOST:PORT and return the port; None only dials, and returns 0.

        Raises AddressError for an address that is misspelt, out of range, not ours, in use, or can't be resolved.
        """
        self._renewal = asyncio.create_task(self._renew())
        if listen is None:
            return 0
        address = await check_listen(listen)
        server = grpc.aio.server(
            interceptors=[Gate(self._trust, self._desk, self._limits)],
            options=server_options(self._limits),
            maximum_concurrent_rpcs=self._limits.calls,
        )
        service = Service(self._reception, self._hub, self._desk, self._limits)
        add_ExchangeServicer_to_server(service, server)
        add_HealthServicer_to_server(self._health, server)
        try:
            port = server.add_secure_port(address, self._trust.server_credentials())
        except RuntimeError as error:
            raise AddressError(
                f"The listening address {listen} can't be used.", "Choose another with --listen."
            ) from error
        await server.start()
        self._server = server
        return port

    async def set_peers(self, peers: Mapping[PeerId, str | None]) -> None:
        """Who is listed and where each can be dialled (HOST:PORT, or None); revoked ones stay listed to get their receipts.

        Who is listed no more is cut off; connections to all others go on.
        """
        removed = self._hub.state().keys() - peers.keys()
        self._trust.set_peers(peers)
        self._reception.set_peers(peers)
        self._hub.links.set_peers(peers)
        for peer in removed:
            self._hub.kick(peer)
        await self._redial(peers)
        self._hub.prune()

    def broadcast(self, news: News) -> None:
        """Say news to every peer that is connected; returns at once."""
        self._hub.broadcast(news)
        self._hub.prune()

    def want(self, pairs: Collection[Pair]) -> None:
        """Replace the list of artifacts that this node lacks; fetches of others end before their next piece.

        Call it whenever the node's state has changed: peers that lack what is here now are told, and those that take no
        part any more are cut off.
        """
        self._hub.want(pairs)

    def kick(self, peer: PeerId) -> None:
        """End all connections with a peer; whether it may come back is for the desk to say."""
        self._hub.kick(peer)

    def links(self) -> Mapping[PeerId, Link]:
        """The connection to each listed peer."""
        return self._hub.state()

    async def stop(self, grace: float) -> None:
        """End all connections; what waits to be said is still said, within `grace` seconds."""
        await self._health.enter_graceful_shutdown()
        tasks = [task for _, task in self._dials.values()]
        await self._hub.close(grace)
        if self._renewal:
            tasks.append(self._renewal)
        await _cancelled(tasks)
        if self._server:
            await self._server.stop(0)

    async def _redial(self, peers: Mapping[PeerId, str | None]) -> None:
        changed = [peer for peer, (address, _) in self._dials.items() if peers.get(peer) != address]
        await _cancelled([self._dials.pop(peer)[1] for peer in changed])
        for peer, address in peers.items():
            if address is not None and peer not in self._dials:
                self._dials[peer] = (address, asyncio.create_task(self._dialler.keep(peer, address)))

    async def _renew(self) -> None:
        while True:
            await asyncio.sleep(self._limits.leaf_age)
            self._trust.renew()


async def _cancelled(tasks: Collection[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def _software() -> str:
    try:
        return f"fednode {version('fednode')}"
    except PackageNotFoundError:
        return "fednode"
