"""The catalogue: a peer's one current signed list of what it offers and which labels it will offer.

Rule 1: the sequence only rises; an equal sequence is accepted only if the bytes are equal.
Rule 2: two different catalogues of one issuer and sequence are equivocation, and prove themselves.
Rule 3: on first contact any sequence is accepted; later a jump over MAX_JUMP waits for the operator.
Rule 4: what the current catalogue does not list is void.
Rule 5: freshness only warns; it never decides what is void or current.
"""

from enum import Enum, auto
from typing import Annotated, ClassVar, Self

from pydantic import Field, model_validator

from fednode.contract import MAX_LABELS, Label
from fednode.statement import MAX_INTEGER, Digest, PeerIdText, Seconds, Statement

MAX_JUMP = 1000
MAX_LISTED = 4096
FRESH_SECONDS = 90 * 24 * 3600
SKEW_SECONDS = 5 * 60


class Catalogue(Statement):
    """What the issuer offers now (`manifests`, by digest, sorted) and will offer (`publishes`, sorted labels)."""

    KIND: ClassVar[str] = "catalogue"
    LIMIT: ClassVar[int] = 1024 * 1024

    issuer: PeerIdText
    sequence: Annotated[int, Field(ge=1, le=MAX_INTEGER)]
    previous: Digest | None
    fresh_until: Seconds
    publishes: Annotated[tuple[Label, ...], Field(max_length=MAX_LABELS)]
    manifests: Annotated[tuple[Digest, ...], Field(max_length=MAX_LISTED)]

    @model_validator(mode="after")
    def _sorted(self) -> Self:
        for name in ("publishes", "manifests"):
            values = getattr(self, name)
            if list(values) != sorted(set(values)):
                raise ValueError(f"{name} is sorted and names each entry once")
        if (self.sequence == 1) != (self.previous is None):
            raise ValueError("the first catalogue, and only that, has none before it")
        return self


class Succession(Enum):
    """What a received catalogue is, beside the one held."""

    NEW = auto()
    SAME = auto()
    OLD = auto()
    JUMP = auto()
    EQUIVOCATION = auto()


def succession(held: Catalogue | None, received: Catalogue) -> Succession:
    """Compare a received catalogue with the one held of the same issuer (None: first contact)."""
    if held is None:
        return Succession.NEW
    if received.sequence == held.sequence:
        return Succession.SAME if received.digest == held.digest else Succession.EQUIVOCATION
    if received.sequence < held.sequence:
        return Succession.OLD
    return Succession.JUMP if received.sequence - held.sequence > MAX_JUMP else Succession.NEW
