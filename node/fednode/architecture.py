"""Architectures: which networks there are, as plain values that specs and manifests hold."""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from fednode.contract import ImageShape, Value

MAX_GRID = 64


class GeneratorArchitecture(Value):
    """The EDM2 denoiser of one label: channels at each resolution, blocks a resolution, sides that have attention.

    The network works on a grid of squares of `patch` by `patch` pixels; `attention` counts in squares.
    """

    family: Literal["edm2"] = "edm2"
    image: ImageShape
    channels: Annotated[tuple[Annotated[int, Field(ge=8, le=512)], ...], Field(min_length=1, max_length=6)]
    blocks: Annotated[int, Field(ge=1, le=4)]
    attention: Annotated[tuple[Annotated[int, Field(ge=1, le=256)], ...], Field(max_length=6)] = ()
    patch: Annotated[Literal[1, 2, 4], Field(exclude_if=lambda patch: patch == 1)] = (
        1  # statements without it stay canonical
    )


ExpertName = Literal["resnet10t", "resnet18", "resnet26", "resnet50"]


class ExpertArchitecture(Value):
    """A timm network from the allow-list; `width` is the channels of the first stage, `outputs` the labels it tells apart.

    The stem divides an image's sides by `reduction`; None stands for 1 up to 64 px and for 4 above.
    """

    family: Literal["timm"] = "timm"
    name: ExpertName
    image: ImageShape
    width: Annotated[int, Field(ge=8, le=256)]
    outputs: Annotated[int, Field(ge=1, le=1000)]
    reduction: Annotated[Literal[1, 2, 4] | None, Field(exclude_if=lambda reduction: reduction is None)] = None


ViTName = Literal[
    "vit_tiny_patch16_224",
    "vit_small_patch16_224",
    "vit_base_patch16_224",
    "deit_tiny_patch16_224",
    "deit_small_patch16_224",
    "deit_base_patch16_224",
]


class ViTArchitecture(Value):
    """A timm ViT from the allow-list: patches of `patch` by `patch` pixels, `depth` blocks of `width` channels and `heads` heads.

    An image whose side `patch` does not divide is continued to the right and below by its border.
    """

    family: Literal["vit"] = "vit"
    name: ViTName
    image: ImageShape
    patch: Annotated[int, Field(ge=1, le=64)]
    width: Annotated[int, Field(ge=8, le=1024)]
    depth: Annotated[int, Field(ge=1, le=24)]
    heads: Annotated[int, Field(ge=1, le=16)]
    outputs: Annotated[int, Field(ge=1, le=1000)]

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.width % self.heads:
            raise ValueError("the heads share the width equally")
        if not 2 <= self.grid <= MAX_GRID:
            raise ValueError(f"an image has 2 to {MAX_GRID} patches a side")
        return self

    @property
    def grid(self) -> int:
        """Patches along a side."""
        return -(-self.image.size // self.patch)

    @property
    def side(self) -> int:
        """The side in pixels of what the network sees."""
        return self.grid * self.patch


ExpertShape = Annotated[ExpertArchitecture | ViTArchitecture, Field(discriminator="family")]

Architecture = Annotated[GeneratorArchitecture | ExpertArchitecture | ViTArchitecture, Field(discriminator="family")]
