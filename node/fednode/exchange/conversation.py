"""Who is asked for what, and when: pure, without a clock or a connection.

Rule 1: only what is wanted is fetched, from a peer that said it holds it, from one peer at a time.
Rule 2: a peer that failed to give an artifact is asked for it again after a growing pause, other holders at once.
Rule 3: a peer whose bytes were wrong waits the longest pause.
Rule 4: no more than so many fetches in all, and for each peer; the issuer is asked first, else the least busy holder.
"""

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field

from fednode.exchange.limits import ExchangeLimits
from fednode.exchange.states import WishEvent, WishState, after
from fednode.lineage import Pair
from fednode_crypto.identity import PeerId


@dataclass
class Holder:
    """A peer that holds a wanted artifact; it may be asked from `not_before` on."""

    failures: int = 0
    not_before: float = 0.0
    holds: bool = False


@dataclass
class Wish:
    """A wanted artifact, its holders, and the one that gives it now."""

    state: WishState = WishState.WAITING
    giver: PeerId | None = None
    holders: dict[PeerId, Holder] = field(default_factory=dict)

    def happens(self, event: WishEvent, giver: PeerId | None = None) -> None:
        """Move on by the table of `states`."""
        self.state = after(self.state, event)
        self.giver = giver


class Wishes:
    """The wish list of this node. Times are seconds of one steady clock, handed in."""

    def __init__(self, limits: ExchangeLimits) -> None:
        self._limits = limits
        self._wishes: dict[Pair, Wish] = {}

    def pairs(self) -> tuple[Pair, ...]:
        """All that is wanted, sorted."""
        return tuple(sorted(self._wishes))

    def fetching(self) -> dict[Pair, PeerId]:
        """What is being fetched, and from whom."""
        return {pair: wish.giver for pair, wish in self._wishes.items() if wish.giver is not None}

    def want(self, pairs: Collection[Pair]) -> tuple[Pair, ...]:
        """Replace the list; what was being fetched and is not wanted any more is returned, to be stopped."""
        stopped = []
        for pair in self._wishes.keys() - set(pairs):
            wish = self._wishes.pop(pair)
            if wish.state is WishState.FETCHING:
                stopped.append(pair)
            wish.happens(WishEvent.DROP)
        for pair in pairs:
            self._wishes.setdefault(pair, Wish())
        return tuple(sorted(stopped))

    def have(self, peer: PeerId, pair: Pair) -> None:
        """A peer says that it holds an artifact."""
        if pair in self._wishes:
            self._wishes[pair].holders.setdefault(peer, Holder()).holds = True

    def gone(self, peer: PeerId, pair: Pair) -> None:
        """A peer does not hold an artifact any more."""
        if pair in self._wishes and peer in self._wishes[pair].holders:
            self._wishes[pair].holders[peer].holds = False

    def lost(self, peer: PeerId) -> None:
        """There is no connection to a peer; what it failed to give before is remembered."""
        for wish in self._wishes.values():
            if peer in wish.holders:
                wish.holders[peer].holds = False

    def next(self, now: float) -> tuple[Pair, PeerId] | None:
        """The next fetch to begin, which then counts as begun; None if there is none at `now`."""
        if len(self.fetching()) >= self._limits.fetches:
            return None
        for pair, peer, not_before in self._choices():
            if not_before <= now:
                self._wishes[pair].happens(WishEvent.ASSIGN, peer)
                return pair, peer
        return None

    def wake(self) -> float | None:
        """When `next` may have something that it has not now; None if only events can bring that."""
        if len(self.fetching()) >= self._limits.fetches:
            return None
        return min((not_before for _, _, not_before in self._choices()), default=None)

    def failed(self, pair: Pair, now: float, progressed: bool, fault: bool) -> None:
        """A fetch has ended early; `fault`: with wrong bytes; `progressed`: after some that were right."""
        wish = self._wishes[pair]
        giver = wish.giver
        wish.happens(WishEvent.FAIL)
        if giver is not None and giver in wish.holders:
            holder = wish.holders[giver]
            holder.failures = 0 if progressed and not fault else holder.failures + 1
            holder.not_before = now + (self._limits.last_pause if fault else pause(holder.failures, self._limits))

    def completed(self, pair: Pair) -> None:
        """A fetch has come to its end, and the artifact is here."""
        self._wishes[pair].happens(WishEvent.COMPLETE)
        del self._wishes[pair]

    def _choices(self) -> Iterator[tuple[Pair, PeerId, float]]:
        """What could be fetched and from whom, best first, with the time from which on (Rules 1 to 4)."""
        givers = list(self.fetching().values())
        for pair, wish in sorted(self._wishes.items()):
            if wish.state is not WishState.WAITING:
                continue
            able = [
                (holder.not_before, peer != pair.issuer, givers.count(peer), peer)
                for peer, holder in wish.holders.items()
                if holder.holds and givers.count(peer) < self._limits.fetches_per_peer
            ]
            for not_before, _, _, peer in sorted(able, key=lambda choice: choice[1:]):
                yield pair, peer, not_before


def pause(failures: int, limits: ExchangeLimits) -> float:
    """Seconds before the next try after so many failures in a row: doubled each time, up to a limit."""
    return float(min(limits.last_pause, limits.first_pause * 2.0 ** min(failures, 32)))
