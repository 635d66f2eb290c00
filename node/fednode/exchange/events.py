"""What is said over a watch."""

from dataclasses import dataclass

from fednode.book import News
from fednode.lineage import Pair


@dataclass(frozen=True)
class Want:
    """All that the sender lacks now."""

    pairs: tuple[Pair, ...]


@dataclass(frozen=True)
class Have:
    """The sender holds what the other side wants."""

    pair: Pair


@dataclass(frozen=True)
class Gone:
    """The sender does not hold it any more, or will not send it now."""

    pair: Pair


@dataclass(frozen=True)
class Send:
    """The dialling side is asked to push."""

    pair: Pair


Event = News | Want | Have | Gone | Send


@dataclass(frozen=True)
class Greeting:
    """What a node says of itself; `clock` is in seconds since 1970."""

    software: str
    protocols: tuple[int, ...]
    contract: str
    clock: float
    roster: str
