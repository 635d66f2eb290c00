"""News between nodes, over real sockets: both ways, whoever dialled, along a line, tombstones first."""

import asyncio

from exchanging import asynchronous, nodes, until

from fednode.book import News

A, B, C = (News("catalogue", name, (b"manifest of " + name,)) for name in (b"a", b"b", b"c"))


@asynchronous
async def test_both_sides_hear_what_the_other_knew_and_what_comes_later():
    async with nodes(2) as (one, two):
        one.desk.known, two.desk.known = [A], [B]
        await one.knows(two)
        await two.knows(one)
        await until(lambda: B in one.desk.known and A in two.desk.known)
        two.desk.known.append(C)
        two.exchange.broadcast(C)
        await until(lambda: C in one.desk.known)


@asynchronous
async def test_one_side_that_can_dial_is_enough():
    async with nodes(2) as (one, two):
        one.desk.known, two.desk.known = [A], [B]
        await one.knows(lists=[two])
        await two.knows(one)
        await until(lambda: B in one.desk.known and A in two.desk.known)
        one.desk.known.append(C)
        one.exchange.broadcast(C)
        await until(lambda: C in two.desk.known)
        assert (one.exchange.links()[two.id].direction, two.exchange.links()[one.id].direction) == ("in", "out")


@asynchronous
async def test_news_travels_along_a_line_of_nodes():
    async with nodes(3) as (left, middle, right):
        await left.knows(middle, lists=[right])
        await middle.knows(lists=[left, right])
        await right.knows(middle, lists=[left])
        await until(lambda: middle.linked(left) and middle.linked(right))
        right.desk.known.append(C)
        right.exchange.broadcast(C)
        await until(lambda: C in left.desk.known)
        assert left.desk.heard[-1] == (C, middle.id)
        await asyncio.sleep(0.1)
        assert [news for news, _ in right.desk.heard] == []
