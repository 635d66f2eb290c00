"""What a worker is asked: one frozen value for each op, read from one JSON line."""

from typing import Annotated, Literal, Self

from pydantic import Field, TypeAdapter, model_validator

from fednode import grid
from fednode.contract import ImageShape, Label, Value
from fednode.learning.dataset import DataSettings
from fednode.recipe import (
    Architecture,
    AuditRecipe,
    ExpertArchitecture,
    ExpertRecipe,
    ExpertShape,
    GeneratorArchitecture,
    GeneratorRecipe,
)

Labels = Annotated[tuple[Label, ...], Field(min_length=1)]
Count = Annotated[int, Field(ge=0)]
Digest = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
Labelled = Annotated[tuple[tuple[Label, Count], ...], Field(min_length=1, max_length=1)]


class FitSpec(Value):
    """What a generator follows from."""

    job: Literal["fit"]
    recipe: GeneratorRecipe
    architecture: GeneratorArchitecture
    label: Label
    images: Digest


class AuditSpec(Value):
    """What an audit's report follows from."""

    job: Literal["audit"]
    recipe: AuditRecipe
    architecture: GeneratorArchitecture
    label: Label
    images: Digest
    weights: Digest


class Input(Value):
    """A generator that an expert uses: its weight digest, its one label with the images it learned from, its shape."""

    weights: Digest
    labels: Labelled
    architecture: GeneratorArchitecture


class ExpertSpec(Value):
    """What an expert follows from: covered labels in order, own labels with their digests, inputs sorted by digest."""

    job: Literal["expert"]
    recipe: ExpertRecipe
    architecture: ExpertArchitecture
    labels: Labels
    own: tuple[tuple[Label, Digest], ...]
    inputs: tuple[Input, ...]


class WithData(Value):
    """A request about own images, in the contract's image shape and labels."""

    id: int
    data: DataSettings
    image: ImageShape
    labels: Labels


class Describe(Value):
    """Which labels a source has, and in which shape its images are best used."""

    id: int
    op: Literal["describe"]
    source: str


class Scan(WithData):
    """Which labels the data have, with counts and digests."""

    op: Literal["scan"]


class Fit(WithData):
    """Fit the generator of one label; `secret` is what the noise of a private fit follows from."""

    op: Literal["fit"]
    spec: FitSpec
    out: str
    secret: Digest | None = None

    @model_validator(mode="after")
    def _private_needs_secret(self) -> Self:
        if self.spec.recipe.privacy and not self.secret:
            raise ValueError("a private fit needs a secret")
        return self


class Audit(WithData):
    """Audit a generator; the report goes to `out`."""

    op: Literal["audit"]
    spec: AuditSpec
    weights: str
    out: str


class Check(Value):
    """Check a weight file against its architecture."""

    id: int
    op: Literal["check"]
    kind: Literal["generator", "classifier", "expert"]
    architecture: Architecture
    weights: str


class GeneratorFile(Value):
    """Where a generator's weights are, and the folder for what descends from it alone."""

    weights: str
    derived: str | None = None


class Expert(Value):
    """Train the expert; `data` is None for a node without images."""

    id: int
    op: Literal["expert"]
    data: DataSettings | None
    image: ImageShape
    labels: Labels
    spec: ExpertSpec
    generators: dict[Digest, GeneratorFile]
    out: str


class ExpertWeights(Value):
    """A published expert of a product."""

    digest: Digest
    weights: str
    architecture: ExpertShape


class GeneratorWeights(Value):
    """A published generator of a product."""

    digest: Digest
    weights: str
    architecture: GeneratorArchitecture
    labels: Labelled
    derived: str | None = None


class Product(Value):
    """What a product is made of. `labels` are the covered ones, in the contract's order; all experts tell these apart."""

    id: int
    labels: Labels
    image: ImageShape
    experts: tuple[ExpertWeights, ...] = ()
    generators: tuple[GeneratorWeights, ...] = ()
    recipe: ExpertRecipe


class NamedImage(Value):
    """An image file to answer: its name, and its bytes in base64."""

    name: str
    data: str


class Way(Value):
    """A way to answer: a product, the noise levels of its generators, and a temperature in thousandths."""

    product: grid.Product
    levels: grid.Levels = "all"
    temperature_milli: grid.Milli = grid.PLAIN_MILLI


class Predict(Product, Way):
    """Answer images in one way."""

    op: Literal["predict"]
    images: tuple[NamedImage, ...]


class Evaluate(Product):
    """Measure each expert, the products and the `chosen` way to answer on the test part of `data`.

    `contract_labels` are all labels, `labels` the covered ones.
    """

    op: Literal["evaluate"]
    contract_labels: Labels
    data: DataSettings
    chosen: Way | None = None
    confusion_png: str | None = None


class ScoreSpec(Value):
    """What a score follows from: the grid, covered labels in order, own labels with their digests, and all parts by digest."""

    job: Literal["score"]
    grid: grid.GridRecipe
    labels: Labels
    own: tuple[tuple[Label, Digest], ...]
    experts: tuple[Digest, ...]
    generators: tuple[tuple[Digest, Label, Count], ...]


class Score(Product):
    """Count the answers of every cell of the grid on own held-out images; `data` is None for a node without images."""

    op: Literal["score"]
    contract_labels: Labels
    data: DataSettings | None
    spec: ScoreSpec


class Baseline(Value):
    """Train the expert's network on real images of several sources alone, and measure it on the test part of `test`."""

    id: int
    op: Literal["baseline"]
    data: Annotated[tuple[DataSettings, ...], Field(min_length=1)]
    test: DataSettings
    image: ImageShape
    labels: Labels
    recipe: ExpertRecipe


class Pace(Value):
    """How fast a fit goes here: time it for some seconds."""

    id: int
    op: Literal["pace"]
    architecture: GeneratorArchitecture
    recipe: GeneratorRecipe
    seconds: Annotated[int, Field(ge=1, le=60)]


class Samples(WithData):
    """Draw a picture of real beside synthetic images, label by label."""

    op: Literal["samples"]
    generators: Annotated[tuple[GeneratorWeights, ...], Field(min_length=1)]
    recipe: ExpertRecipe
    per_label: Annotated[int, Field(ge=1, le=64)] = 8
    out: str


Request = Annotated[
    Describe | Scan | Fit | Audit | Check | Expert | Predict | Evaluate | Score | Baseline | Samples | Pace,
    Field(discriminator="op"),
]
REQUEST: TypeAdapter[Request] = TypeAdapter(Request)
