"""Weights between nodes, over real sockets: fetched, pushed, relayed, resumed, checked."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from exchanging import CONTRACT, LIMITS, MemoryDesk, Node, asynchronous, nodes, until, weights

from fednode.exchange.exchange import Exchange
from fednode.exchange.stream import Stream
from fednode.lineage import Pair
from fednode.store import Partial, Store
from fednode_crypto.digest import PIECE_SIZE, PieceList
from fednode_crypto.identity import Identity

KEY = ("received", "generator")
BIG = weights(6 * PIECE_SIZE + 12_345)  # over the 4 MiB that one gRPC message may have


def lack(node: Node, holder: Node, data: bytes) -> Pair:
    """Let `holder` have a generator of its own that `node` knows of and wants."""
    pair = holder.desk.hold(holder.id, data)
    node.desk.offer(holder.id, data)
    node.exchange.want([pair])
    return pair


@asynchronous
async def test_the_dialling_side_fetches():
    async with nodes(2) as (one, two):
        pair = lack(one, two, BIG)
        await two.knows(lists=[one])
        await one.knows(two)
        await until(lambda: one.desk.arrivals)
        assert one.desk.files[pair] == BIG
        assert one.desk.arrivals == [(pair, len(BIG), two.id)]
        assert one.desk.counted["received", "generator"] == two.desk.counted["sent", "generator"] == len(BIG)


@asynchronous
async def test_the_dialled_side_is_pushed_what_it_lacks():
    async with nodes(2) as (one, two):
        pair = lack(one, two, BIG)
        await one.knows(lists=[two])
        await two.knows(one)
        await until(lambda: one.desk.arrivals)
        assert one.desk.files[pair] == BIG
        assert one.desk.counted["received", "generator"] == two.desk.counted["sent", "generator"] == len(BIG)


@asynchronous
async def test_what_becomes_wanted_while_connected_is_fetched():
    async with nodes(2) as (one, two):
        await two.knows(one)
        await one.knows(two)
        await until(lambda: one.linked(two))
        pair = lack(two, one, weights(10))
        await until(lambda: pair in two.desk.files)


@asynchronous
async def test_an_artifact_is_relayed_along_a_line_of_nodes():
    async with nodes(3) as (left, middle, right):
        pair = lack(left, right, BIG)
        middle.desk.offer(right.id, BIG)
        await left.knows(middle, lists=[right])
        await middle.knows(lists=[left, right])
        await right.knows(middle, lists=[left])
        await until(lambda: middle.linked(left) and middle.linked(right))
        await asyncio.sleep(0.1)
        assert left.desk.downloads == {}
        middle.exchange.want([pair])
        await until(lambda: left.desk.arrivals)
        assert left.desk.arrivals == [(pair, len(BIG), middle.id)]


@asynchronous
async def test_an_artifact_that_two_peers_hold_crosses_one_edge():
    async with nodes(3) as (one, two, three):
        pair = lack(one, two, BIG)
        three.desk.hold(two.id, BIG)
        for node in (one, two, three):
            await node.knows(*{one, two, three} - {node})
        await until(lambda: one.desk.arrivals)
        await asyncio.sleep(0.1)
        assert one.desk.counted["received", "generator"] == len(BIG)
        assert [arrival[:2] for arrival in one.desk.arrivals] == [(pair, len(BIG))]


@asynchronous
@pytest.mark.parametrize("dialled", [True, False])
async def test_a_transfer_that_is_cut_resumes_at_the_first_missing_piece(dialled):
    async with nodes(2) as (one, two):
        pair = lack(one, two, BIG)
        cuts = [2, 4]

        def cut(_: Pair, index: int) -> None:
            if index in cuts:
                cuts.remove(index)
                one.exchange.kick(two.id)

        two.desk.read = cut
        await one.knows(*[two] * dialled, lists=[two])
        await two.knows(*[one] * (not dialled), lists=[one])
        await until(lambda: one.desk.arrivals)
        assert one.desk.files[pair] == BIG
        assert cuts == []
        assert one.desk.written == sorted(set(one.desk.written))


@asynchronous
async def test_a_bad_piece_is_not_kept_and_the_rest_comes_from_another_holder():
    async with nodes(3) as (one, two, three):
        pair = lack(one, two, BIG)
        three.desk.hold(two.id, BIG)
        two.desk.read = lambda _, index: bytes(PIECE_SIZE) if index == 1 else None
        await three.knows(lists=[one, two])
        await two.knows(lists=[one, three])
        await one.knows(two, lists=[three])
        await until(lambda: one.desk.faults)
        assert one.desk.written == [0]
        await one.knows(two, three)
        await until(lambda: one.desk.arrivals)
        assert one.desk.files[pair] == BIG
        assert [(peer, error.code) for peer, error in one.desk.faults] == [(two.id, "bad-piece")]
        assert one.desk.arrivals == [(pair, len(BIG) - PIECE_SIZE, three.id)]


@asynchronous
async def test_a_piece_list_that_the_issuer_did_not_sign_is_refused():
    async with nodes(2) as (one, two):
        pair = lack(one, two, BIG)
        _, two.desk.lists[pair] = two.desk.offer(two.id, weights(100, seed=5)), two.desk.lists[pair]
        other = next(pieces for key, pieces in two.desk.lists.items() if key != pair)
        two.desk.lists[pair] = other
        await two.knows(lists=[one])
        await one.knows(two)
        await until(lambda: one.desk.faults)
        assert one.desk.faults[0][1].code == "bad-pieces"
        assert one.desk.downloads == {}


@asynchronous
async def test_a_size_other_than_the_signed_one_is_refused():
    async with nodes(2) as (one, two):
        pair = lack(one, two, BIG)
        manifest = one.desk.manifests[pair]
        smaller = manifest.weights.model_copy(update={"size": len(BIG) - 1})
        one.desk.manifests[pair] = manifest.model_copy(update={"weights": smaller})
        await two.knows(lists=[one])
        await one.knows(two)
        await until(lambda: one.desk.faults)
        assert (one.desk.faults[0][1].code, str(len(BIG)) in str(one.desk.faults[0][1])) == ("bad-pieces", True)
        assert one.desk.downloads == {}


@asynchronous
@pytest.mark.parametrize("dialled", [True, False])
async def test_an_open_stream_ends_at_the_next_piece_when_the_artifact_is_void(dialled):
    async with nodes(2) as (one, two):
        pair = lack(one, two, BIG)

        def void(_: Pair, index: int) -> None:
            if index == 2:
                two.desk.manifests.pop(pair)

        two.desk.read = void
        await one.knows(*[two] * dialled, lists=[two])
        await two.knows(*[one] * (not dialled), lists=[one])
        await until(lambda: pair not in two.desk.manifests)
        await asyncio.sleep(0.2)
        assert one.desk.written == [0, 1, 2][: len(one.desk.written)]  # the last may be lost with the stream
        assert one.desk.arrivals == []


@asynchronous
@pytest.mark.parametrize("dialled", [True, False])
async def test_what_is_not_wanted_any_more_stops_at_once(dialled):
    async with nodes(2) as (one, two):
        pair = lack(one, two, BIG)

        def drop(_: Pair, index: int) -> None:
            if index == 2:
                one.desk.void(pair)
                one.exchange.want([])

        two.desk.read = drop
        await one.knows(*[two] * dialled, lists=[two])
        await two.knows(*[one] * (not dialled), lists=[one])
        await until(lambda: pair not in one.desk.manifests)
        await asyncio.sleep(0.2)
        assert one.desk.downloads == {}
        assert (one.desk.faults, two.desk.faults) == ([], [])
        two.desk.read = lambda _, index: None
        one.desk.offer(two.id, BIG)
        one.exchange.want([pair])
        await until(lambda: one.desk.arrivals)
        assert one.desk.files[pair] == BIG


@asynchronous
async def test_a_full_disk_blocks_the_fetch_and_not_the_node():
    async with nodes(2) as (one, two):
        pair = lack(one, two, BIG)
        one.desk.full = True
        await two.knows(lists=[one])
        await one.knows(two)
        await until(lambda: one.desk.blocks)
        assert one.linked(two)
        one.desk.full = False
        await until(lambda: one.desk.arrivals)
        assert one.desk.files[pair] == BIG


def paced(node: Node, pause: Callable[[int], float]) -> None:
    """Let a node wait so many seconds before it sends its n-th message of a transfer (the piece list is the first)."""
    transfers = node.exchange._hub.giver._transfers
    give = transfers.give

    class Paced:
        def __init__(self, stream: Stream) -> None:
            self._stream, self.peer, self.read, self._sent = stream, stream.peer, stream.read, 0

        async def write(self, message: object, idle: float) -> None:
            self._sent += 1
            await asyncio.sleep(pause(self._sent))
            await self._stream.write(message, idle)

    transfers.give = lambda stream, pair: give(Paced(stream), pair)


@asynchronous
async def test_a_peer_that_stalls_fails_in_the_idle_limit_with_both_byte_counts():
    async with nodes(2, replace(LIMITS, idle=0.4)) as (one, two):
        lack(one, two, BIG)
        paced(two, lambda sent: 20 if sent == 4 else 0)
        await two.knows(lists=[one])
        await one.knows(two)
        await until(lambda: one.desk.faults)
        error = one.desk.faults[0][1]
        assert error.code == "stalled"
        assert f"{2 * PIECE_SIZE} of {len(BIG)} bytes" in str(error)


@asynchronous
async def test_a_slow_peer_is_no_stalled_one():
    async with nodes(2, replace(LIMITS, idle=0.4)) as (one, two):
        pair = lack(one, two, BIG)
        paced(two, lambda sent: 0.15)
        await two.knows(lists=[one])
        await one.knows(two)
        await until(lambda: one.exchange.links()[two.id].fetching)
        await until(lambda: one.exchange.links()[two.id].fetching[0].here)
        fetching = one.exchange.links()[two.id].fetching[0]
        assert (fetching.pair, fetching.size, fetching.here % PIECE_SIZE) == (pair, len(BIG), 0)
        await until(lambda: one.desk.arrivals)
        assert one.desk.files[pair] == BIG
        assert one.desk.faults == []


@asynchronous
async def test_an_artifact_of_a_stranger_is_served_by_who_holds_it():
    async with nodes(2) as (one, two):
        stranger = Identity.generate().peer_id
        pair = two.desk.hold(stranger, weights(100))
        one.desk.offer(stranger, weights(100))
        one.exchange.want([pair])
        await two.knows(one)
        await one.knows(two)
        await until(lambda: pair in one.desk.files)


class StoreDesk(MemoryDesk):
    """A node whose weights are on the disk."""

    def __init__(self, root: Path) -> None:
        super().__init__()
        self.store = Store(root, free=lambda _: 2**40)

    def pieces(self, pair: Pair) -> PieceList | None:
        return self.store.pieces(pair) if pair in self.store.files() else None

    def partial(self, pair: Pair, pieces: PieceList) -> Partial:
        return self.store.partial(pair, pieces)


@asynchronous
async def test_a_restart_resumes_what_is_on_the_disk(tmp_path):
    async with nodes(1) as (holder,):
        node, pair = Node(), holder.desk.hold(holder.id, BIG)
        await holder.knows(lists=[node])

        async def run(desk: StoreDesk, pause: Callable[[int], float], enough: Callable[[], object]) -> None:
            desk.listed = {holder.id}
            desk.offer(holder.id, BIG)
            paced(holder, pause)
            exchange = Exchange(node.identity, CONTRACT, desk, LIMITS)
            exchange.want([pair])
            await exchange.start(None)
            await exchange.set_peers({holder.id: holder.address})
            await until(enough)
            await exchange.stop(1)

        first = StoreDesk(tmp_path / "store")
        await run(first, lambda sent: 20 if sent == 5 else 0, lambda: first.counted.get(KEY, 0) == 3 * PIECE_SIZE)
        again = StoreDesk(tmp_path / "store")
        await run(again, lambda sent: 0, lambda: again.arrivals)
        assert again.store.path(pair).read_bytes() == BIG
        assert again.counted[KEY] == len(BIG) - 3 * PIECE_SIZE
