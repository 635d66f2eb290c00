"""The contract: what all nodes of a federation must agree on, and the id that stands for it."""

import re
from typing import Annotated, Self

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, model_validator

from fednode_crypto.digest import digest_json

MAX_LABELS = 1000
MAX_LABEL_LENGTH = 32

Label = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9-]{0,31}$")]


class Value(BaseModel):
    """A frozen plain value: strict types, and no field beyond those that are named."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class ImageShape(Value):
    """The square images of a federation: `size` pixels a side and 1 (grey) or 3 (colour) channels, range 0..255."""

    size: Annotated[int, Field(ge=4, le=1024)]
    channels: Annotated[int, Field(ge=1, le=3)]

    @model_validator(mode="after")
    def _grey_or_colour(self) -> Self:
        if self.channels == 2:
            raise ValueError("channels is 1 for grey or 3 for colour")
        return self


class Contract(Value):
    """Federation name, labels in order, image shape, and the quorum that binds a revocation everywhere.

    `quorum` 0 stands for a majority of the electorate and at least 2; 1 lets a single revoke bind everywhere.
    """

    federation: Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9-]{0,31}$")]
    labels: Annotated[tuple[Label, ...], Field(min_length=2, max_length=MAX_LABELS)]
    image: ImageShape
    quorum: Annotated[int, Field(ge=0, le=64)] = 0

    @model_validator(mode="after")
    def _labels_once(self) -> Self:
        twice = sorted({label for label in self.labels if self.labels.count(label) > 1})
        if twice:
            raise ValueError(f"label {twice[0]!r} is listed twice")
        return self

    @property
    def id(self) -> str:
        """SHA-256 (hex) of the contract; equal contracts, and only they, have equal ids."""
        return digest_json("fednode/contract/v1", self.model_dump(mode="json"))


def label_name(name: str) -> str:
    """The contract's spelling of a folder or class name, which ends after MAX_LABEL_LENGTH characters."""
    return spelling(name)[:MAX_LABEL_LENGTH].strip("-")


def spelling(name: str) -> str:
    """A name in lower case, runs of characters other than letters and digits made one dash."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")
