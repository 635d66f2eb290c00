"""The catalogue: a peer's one current signed list of what it offers and which labels it will offer.

Rule 1: the sequence only rises; an equal sequence is accepted only if the bytes are equal.
Rule 2: two different catalogues of one issuer and sequence are equivocation, and prove themselves.
Rule 3: on first contact any sequence is accepted; later a jump over MAX_JUMP waits for the operator.
Rule 4: what the current catalogue does not list is void.
Rule 5: freshness only warns; it never decides what is void or current.
"""

from dataclasses import dataclass
from enum import Enum, auto
from typing import Annotated, ClassVar, Self

from pydantic import Field, model_validator

from fednode.contract import MAX_LABELS, Label
from fednode.statement import MAX_INTEGER, Digest, PeerIdText, Seconds, Statement

MAX_JUMP = 1000
MAX_LISTED = 4096
FRESH_SECONDS = 90 * 24 * 3600
SKEW_SECONDS = 5 * 60


Labels = Annotated[tuple[Label, ...], Field(max_length=MAX_LABELS)]
LabelsIfAny = Annotated[Labels, Field(exclude_if=lambda labels: not labels)]  # statements without them stay canonical


@dataclass(frozen=True)
class Announced:
    """What a catalogue says besides its generators.

    `classifies`: the labels that the issuer's classifier has seen or will have. A node that chooses by what all hold says what it
    `holds`, and that it is `undecided` until it has chosen.
    """

    classifies: tuple[str, ...] = ()
    holds: tuple[str, ...] = ()
    undecided: bool = False


NOTHING_ELSE = Announced()


class Catalogue(Statement):
    """What the issuer offers now (`manifests`, by digest, sorted) and will offer.

    `publishes` are the labels of its generators, sorted; the rest is as in Announced.
    """

    KIND: ClassVar[str] = "catalogue"
    LIMIT: ClassVar[int] = 1024 * 1024

    issuer: PeerIdText
    sequence: Annotated[int, Field(ge=1, le=MAX_INTEGER)]
    previous: Digest | None
    fresh_until: Seconds
    publishes: Labels
    manifests: Annotated[tuple[Digest, ...], Field(max_length=MAX_LISTED)]
    classifies: LabelsIfAny = ()
    holds: LabelsIfAny = ()
    undecided: Annotated[bool, Field(exclude_if=lambda undecided: not undecided)] = False

    @model_validator(mode="after")
    def _sorted(self) -> Self:
        for name in ("publishes", "manifests", "classifies", "holds"):
            values = getattr(self, name)
            if list(values) != sorted(set(values)):
                raise ValueError(f"{name} is sorted and names each entry once")
        if (self.sequence == 1) != (self.previous is None):
            raise ValueError("the first catalogue, and only that, has none before it")
        return self

    @property
    def announced(self) -> Announced:
        """What it says besides its generators."""
        return Announced(self.classifies, self.holds, self.undecided)

    @property
    def declared(self) -> frozenset[str]:
        """The labels that the issuer has images of, as far as it says so."""
        return frozenset(self.holds or (*self.publishes, *self.classifies))


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
