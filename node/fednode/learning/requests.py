"""What a worker is asked: one frozen value for each op, read from one JSON line."""

from typing import Annotated, Literal, Self

from pydantic import Field, TypeAdapter, model_validator

from fednode import grid
from fednode.architecture import Architecture, ExpertShape, GeneratorArchitecture, ViTArchitecture, ViTName
from fednode.contract import ImageShape, Label, Value
from fednode.learning.dataset import DataSettings
from fednode.learning.specs import (
    AuditSpec,
    ClassifierAuditSpec,
    ClassifierSpec,
    Count,
    Digest,
    DistilSpec,
    ExpertSpec,
    FitSpec,
    Labelled,
    Labels,
    ScoreSpec,
)
from fednode.recipe import ExpertRecipe, GeneratorRecipe


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


class FitClassifier(WithData):
    """Fit the classifier of own images."""

    op: Literal["classifier"]
    spec: ClassifierSpec
    out: str


class AuditClassifier(WithData):
    """Report on what a classifier gives away; the report goes to `out`."""

    op: Literal["audit-classifier"]
    spec: ClassifierAuditSpec
    weights: str
    out: str


class ImportClassifier(Value):
    """Check a ready ViT whose outputs are the labels `named`, and write it for all `labels` of the contract."""

    id: int
    op: Literal["import-classifier"]
    image: ImageShape
    labels: Labels
    model: ViTName
    named: Labels
    file: str
    out: str


class Check(Value):
    """Check a weight file against its architecture."""

    id: int
    op: Literal["check"]
    kind: Literal["generator", "classifier", "expert"]
    architecture: Architecture
    weights: str


class InputFile(Value):
    """Where the weights of an input are, and the folder for what descends from it alone."""

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
    generators: dict[Digest, InputFile]
    out: str


class Distil(Value):
    """Train an expert on inverted images; `data` is None for a node without images. Each input has a file by its digest."""

    id: int
    op: Literal["distil"]
    data: DataSettings | None
    image: ImageShape
    labels: Labels
    spec: DistilSpec
    classifiers: dict[Digest, InputFile]
    generators: Annotated[dict[Digest, InputFile], Field(default_factory=dict)]
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


class ClassifierWeights(Value):
    """A published classifier; its outputs are `labels` in order, each with the images that it saw."""

    digest: Digest
    weights: str
    architecture: ViTArchitecture
    labels: Annotated[tuple[tuple[Label, Count], ...], Field(min_length=1)]


class Product(Value):
    """What a product is made of. `labels` are the covered ones, in the contract's order; all experts tell these apart."""

    id: int
    labels: Labels
    image: ImageShape
    experts: tuple[ExpertWeights, ...] = ()
    generators: tuple[GeneratorWeights, ...] = ()
    classifiers: tuple[ClassifierWeights, ...] = ()
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


class Deal(Value):
    """Deal the training images of a source to as many files as `out` names, each label by Dirichlet shares."""

    id: int
    op: Literal["deal"]
    source: str
    image: ImageShape
    labels: Labels
    alpha_milli: Annotated[int, Field(ge=10, le=1_000_000)]
    seed: Annotated[int, Field(ge=0)]
    out: Annotated[tuple[str, ...], Field(min_length=2)]


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
    Describe
    | Scan
    | Fit
    | Audit
    | FitClassifier
    | AuditClassifier
    | Check
    | ImportClassifier
    | Expert
    | Distil
    | Predict
    | Evaluate
    | Score
    | Baseline
    | Deal
    | Samples
    | Pace,
    Field(discriminator="op"),
]
REQUEST: TypeAdapter[Request] = TypeAdapter(Request)
