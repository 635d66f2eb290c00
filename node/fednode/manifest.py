"""The manifest: what an artifact says of itself, immutable and signed by its issuer."""

from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, StringConstraints, model_validator

from fednode.architecture import Architecture
from fednode.contract import MAX_LABELS, Label, Value
from fednode.lineage import Pair
from fednode.statement import MAX_INTEGER, Digest, PeerIdText, Reason, Statement

MAX_WEIGHTS = 32 * 1024**3
MAX_INPUTS = 1024

Kind = Literal["generator", "classifier", "expert"]
FAMILIES: dict[Kind, tuple[str, ...]] = {
    "generator": ("edm2",),
    "classifier": ("timm", "vit"),
    "expert": ("timm", "vit"),
}
Decimal = Annotated[str, StringConstraints(pattern=r"^(0|[1-9][0-9]{0,8})(\.[0-9]{1,18})?$")]
Word = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9.+:_-]{1,64}$")]
Count = Annotated[int, Field(ge=0, le=MAX_INTEGER)]


class LabelCount(Value):
    """How many of the issuer's own images of a label the artifact saw."""

    label: Label
    images: Count


class Weights(Value):
    """The weight file: the digest of its piece list, its size and the size of a piece in bytes."""

    digest: Digest
    size: Annotated[int, Field(ge=1, le=MAX_WEIGHTS)]
    piece_size: Annotated[int, Field(ge=1024, le=1024**2)]


class Numerics(Value):
    """What decides which digests may be compared: equal numerics give equal bytes from an equal spec.

    `processes`: how many have made it together; statements of one alone do without the field.
    """

    device: Word
    threads: Annotated[int, Field(ge=1, le=1024)]
    dtype: Word
    torch: Word
    deterministic: bool
    processes: Annotated[int, Field(ge=1, le=1024, exclude_if=lambda processes: processes == 1)] = 1


class Audit(Value):
    """The audit that came before signing; a failed one can only be published with the operator's reason."""

    digest: Digest
    passed: bool
    override: Reason | None

    @model_validator(mode="after")
    def _failed_needs_reason(self) -> Self:
        if self.passed == (self.override is not None):
            raise ValueError("an override belongs to a failed audit and to no other")
        return self


class Privacy(Value):
    """Differential privacy of the weights, as decimal text."""

    epsilon: Decimal
    delta: Decimal


class Manifest(Statement):
    """What an artifact is, what it saw and what it came from.

    `lineage` names every artifact of others and of the issuer that went in, sorted; a generator's and a classifier's is empty.
    A classifier names all labels of the contract, and counts no images of those that it has not seen; without an audit it was
    made elsewhere and handed in by its issuer.
    """

    KIND: ClassVar[str] = "manifest"
    LIMIT: ClassVar[int] = 512 * 1024

    issuer: PeerIdText
    kind: Kind
    architecture: Architecture
    recipe: Digest
    labels: Annotated[tuple[LabelCount, ...], Field(min_length=1, max_length=MAX_LABELS)]
    lineage: Annotated[tuple[Pair, ...], Field(max_length=MAX_INPUTS)]
    weights: Weights
    numerics: Numerics
    audit: Audit | None
    dp: Privacy | None

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if list(self.lineage) != sorted(set(self.lineage)):
            raise ValueError("lineage is sorted and names each pair once")
        if len({count.label for count in self.labels}) != len(self.labels):
            raise ValueError("each label is named once")
        if self.kind == "generator" and (self.lineage or self.audit is None):
            raise ValueError("a generator has an audit and no lineage")
        if self.kind == "classifier" and self.lineage:
            raise ValueError("a classifier has no lineage")
        if self.architecture.family not in FAMILIES[self.kind]:
            raise ValueError("the architecture does not belong to this kind")
        return self

    @property
    def pair(self) -> Pair:
        """The artifact as lineage names it."""
        return Pair(self.issuer, self.weights.digest)

    def names(self) -> tuple[str, ...]:
        """The labels, in the manifest's order."""
        return tuple(count.label for count in self.labels)

    def seen(self) -> tuple[str, ...]:
        """The labels that it can tell others of: a generator's, and those of which a classifier or expert saw own images."""
        return tuple(count.label for count in self.labels if count.images or self.kind == "generator")
