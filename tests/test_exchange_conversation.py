"""The wish list, without a clock or a connection."""

import pytest
from exchanging import LIMITS
from hypothesis import given
from hypothesis import strategies as st

from fednode.exchange.conversation import Wishes, pause
from fednode.exchange.limits import ExchangeLimits
from fednode.exchange.states import IllegalEventError, WishEvent, WishState, after
from fednode.lineage import Pair
from fednode_crypto.identity import PeerId

A, B, C = (PeerId(name) for name in "abc")
X, Y, Z = (Pair(issuer, digest) for issuer, digest in ((A, "x"), (B, "y"), (C, "z")))


def wishes(**limits: int) -> Wishes:
    return Wishes(ExchangeLimits(first_pause=1, last_pause=60, **limits))


def test_nothing_is_fetched_from_who_did_not_say_that_it_holds_it():
    list_ = wishes()
    list_.want([X])
    assert (list_.next(0), list_.wake()) == (None, None)


def test_a_wanted_artifact_is_fetched_once_however_many_hold_it():
    list_ = wishes()
    list_.want([X])
    list_.have(B, X)
    list_.have(C, X)
    assert list_.next(0) == (X, B)
    assert list_.next(0) is None
    assert list_.fetching() == {X: B}


def test_the_issuer_is_asked_first():
    list_ = wishes()
    list_.want([Z])
    for peer in (A, B, C):
        list_.have(peer, Z)
    assert list_.next(0) == (Z, C)


def test_the_least_busy_holder_is_asked_before_others():
    list_ = wishes()
    list_.want([X, Z])
    for pair in (X, Z):
        list_.have(A, pair)
        list_.have(B, pair)
    assert [list_.next(0), list_.next(0)] == [(X, A), (Z, B)]


def test_what_nobody_wants_is_not_remembered():
    list_ = wishes()
    list_.have(A, X)
    list_.want([X])
    assert list_.next(0) is None


def test_fetches_are_bounded_in_all_and_for_each_peer():
    list_ = wishes(fetches=2, fetches_per_peer=1)
    list_.want([X, Y, Z])
    for pair in (X, Y, Z):
        list_.have(A, pair)
    assert (list_.next(0), list_.next(0)) == ((X, A), None)
    list_.have(B, Y)
    list_.have(C, Z)
    assert (list_.next(0), list_.next(0)) == ((Y, B), None)


def test_another_holder_is_asked_at_once_and_the_failed_one_after_growing_pauses():
    list_ = wishes()
    list_.want([X])
    list_.have(A, X)
    list_.have(B, X)
    assert list_.next(0) == (X, A)
    list_.failed(X, 0, progressed=False, fault=False)
    assert list_.next(0) == (X, B)
    list_.gone(B, X)
    list_.failed(X, 1, progressed=False, fault=False)
    assert (list_.next(1.9), list_.wake(), list_.next(2)) == (None, 2, (X, A))
    list_.failed(X, 10, progressed=False, fault=False)
    assert list_.wake() == 14


def test_a_holder_that_gave_wrong_bytes_waits_the_longest_pause_however_much_was_right_before():
    list_ = wishes()
    list_.want([X])
    list_.have(A, X)
    list_.next(0)
    list_.failed(X, 5, progressed=True, fault=True)
    assert list_.wake() == 65


def test_a_cut_after_some_progress_does_not_make_the_pause_grow():
    list_ = wishes()
    list_.want([X])
    list_.have(A, X)
    for now in (0, 10, 20):
        assert list_.next(now) == (X, A)
        list_.failed(X, now, progressed=True, fault=False)
        assert list_.wake() == now + 1


def test_a_failure_is_remembered_over_a_reconnection():
    list_ = wishes()
    list_.want([X])
    list_.have(A, X)
    list_.next(0)
    list_.failed(X, 0, progressed=False, fault=True)
    list_.lost(A)
    assert list_.wake() is None
    list_.have(A, X)
    assert list_.wake() == 60


def test_what_is_not_wanted_any_more_is_returned_to_be_stopped():
    list_ = wishes()
    list_.want([X, Y])
    list_.have(A, X)
    list_.next(0)
    assert list_.want([Y]) == (X,)
    assert (list_.fetching(), list_.pairs()) == ({}, (Y,))
    assert list_.want([]) == ()


def test_a_fetch_that_goes_on_survives_a_new_list():
    list_ = wishes()
    list_.want([X])
    list_.have(A, X)
    list_.next(0)
    assert list_.want([X, Y]) == ()
    assert list_.fetching() == {X: A}


def test_what_is_complete_is_wanted_no_more():
    list_ = wishes()
    list_.want([X])
    list_.have(A, X)
    list_.next(0)
    list_.completed(X)
    assert list_.pairs() == ()


@pytest.mark.parametrize("state", WishState)
@pytest.mark.parametrize("event", WishEvent)
def test_an_event_leads_on_or_raises(state, event):
    legal = {
        (WishState.WAITING, WishEvent.ASSIGN): WishState.FETCHING,
        (WishState.WAITING, WishEvent.DROP): WishState.DROPPED,
        (WishState.FETCHING, WishEvent.FAIL): WishState.WAITING,
        (WishState.FETCHING, WishEvent.COMPLETE): WishState.GRANTED,
        (WishState.FETCHING, WishEvent.DROP): WishState.DROPPED,
    }
    if (state, event) in legal:
        assert after(state, event) is legal[state, event]
    else:
        with pytest.raises(IllegalEventError):
            after(state, event)


def test_an_illegal_event_changes_nothing():
    list_ = wishes()
    list_.want([X])
    list_.have(A, X)
    with pytest.raises(IllegalEventError):
        list_.completed(X)
    assert (list_.pairs(), list_.next(0)) == ((X,), (X, A))


def test_pauses_double_up_to_the_limit():
    limits = ExchangeLimits(first_pause=0.25, last_pause=30)
    assert [pause(failures, limits) for failures in range(9)] == [0.25, 0.5, 1, 2, 4, 8, 16, 30, 30]
    assert pause(10**6, limits) == 30


peers, pairs = st.sampled_from([A, B, C]), st.sampled_from([X, Y, Z])
steps = st.one_of(
    st.tuples(st.just("want"), st.sets(pairs)),
    st.tuples(st.just("have"), peers, pairs),
    st.tuples(st.just("gone"), peers, pairs),
    st.tuples(st.just("lost"), peers),
    st.tuples(st.just("next")),
    st.tuples(st.just("failed"), st.booleans(), st.booleans()),
    st.tuples(st.just("completed")),
)


@given(st.lists(steps, max_size=60))
def test_whatever_happens_only_what_is_wanted_is_fetched_within_the_bounds(story):
    list_, wanted = Wishes(LIMITS), set()
    for now, (step, *rest) in enumerate(story):
        fetching = sorted(list_.fetching())
        match step:
            case "want":
                wanted = rest[0]
                assert set(list_.want(wanted)) == set(fetching) - wanted
            case "have" | "gone" | "lost":
                getattr(list_, step)(*rest)
            case "next":
                chosen = list_.next(now)
                assert chosen is None or chosen[0] in wanted - set(fetching)
            case "failed" if fetching:
                list_.failed(fetching[0], now, *rest)
            case "completed" if fetching:
                list_.completed(fetching[0])
                wanted = wanted - {fetching[0]}
        givers = list(list_.fetching().values())
        assert list_.fetching().keys() <= wanted == set(list_.pairs())
        assert len(givers) <= LIMITS.fetches
        assert all(givers.count(peer) <= LIMITS.fetches_per_peer for peer in givers)
