"""The life of a wish: an artifact that this node lacks.

Rule 1: it is fetched from one peer at a time.
Rule 2: an event that is not in the table raises, and changes nothing.
"""

from enum import Enum, auto


class WishState(Enum):
    """Where a wish stands."""

    WAITING = auto()
    FETCHING = auto()
    GRANTED = auto()
    DROPPED = auto()


class WishEvent(Enum):
    """What can happen to a wish."""

    ASSIGN = auto()
    FAIL = auto()
    COMPLETE = auto()
    DROP = auto()


_TABLE = {
    (WishState.WAITING, WishEvent.ASSIGN): WishState.FETCHING,
    (WishState.WAITING, WishEvent.DROP): WishState.DROPPED,
    (WishState.FETCHING, WishEvent.FAIL): WishState.WAITING,
    (WishState.FETCHING, WishEvent.COMPLETE): WishState.GRANTED,
    (WishState.FETCHING, WishEvent.DROP): WishState.DROPPED,
}


class IllegalEventError(Exception):
    """An event that can't happen in this state: our own mistake, never a peer's."""


def after(state: WishState, event: WishEvent) -> WishState:
    """The state that follows. Raises IllegalEventError."""
    try:
        return _TABLE[state, event]
    except KeyError:
        raise IllegalEventError(f"{event.name} can't happen to a wish that is {state.name}") from None
