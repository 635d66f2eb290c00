"""What each job of a worker follows from: specs, whose digests name the jobs."""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from fednode import grid
from fednode.architecture import ExpertArchitecture, GeneratorArchitecture, ViTArchitecture
from fednode.contract import Label, Value
from fednode.recipe import AuditRecipe, ExpertRecipe, GeneratorRecipe, SynthesisRecipe
from fednode.vit_recipe import ClassifierRecipe, DistilRecipe

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


class ClassifierSpec(Value):
    """What a classifier follows from: all labels of the contract in order, which are its outputs, and own labels with digests."""

    job: Literal["classifier"]
    recipe: ClassifierRecipe
    architecture: ViTArchitecture
    labels: Labels
    own: Annotated[tuple[tuple[Label, Digest], ...], Field(min_length=1)]


class ClassifierAuditSpec(Value):
    """What the report on a classifier follows from."""

    job: Literal["audit-classifier"]
    recipe: AuditRecipe
    architecture: ViTArchitecture
    labels: Labels
    own: Annotated[tuple[tuple[Label, Digest], ...], Field(min_length=1)]
    weights: Digest


class ClassifierInput(Value):
    """A classifier that an expert uses: its weight digest, its shape, and its outputs in order, each with the images it saw."""

    weights: Digest
    labels: Annotated[tuple[tuple[Label, Count], ...], Field(min_length=1)]
    architecture: ViTArchitecture

    @model_validator(mode="after")
    def _outputs_are_labels(self) -> Self:
        names = [label for label, _ in self.labels]
        if len(set(names)) != len(names) or len(names) != self.architecture.outputs:
            raise ValueError("each output has one label")
        if not any(count for _, count in self.labels):
            raise ValueError("a classifier has seen images")
        return self


class DistilSpec(Value):
    """What a distilled expert follows from: covered labels in order, own labels with digests, classifiers sorted by digest.

    With generators it learns from what they draw by the recipe `synthesis` as well.
    """

    job: Literal["distil"]
    recipe: DistilRecipe
    architecture: ViTArchitecture
    labels: Labels
    own: tuple[tuple[Label, Digest], ...]
    inputs: tuple[ClassifierInput, ...]
    generators: Annotated[tuple[Input, ...], Field(exclude_if=lambda inputs: not inputs)] = ()
    synthesis: Annotated[SynthesisRecipe | None, Field(exclude_if=lambda recipe: recipe is None)] = None

    @model_validator(mode="after")
    def _generators_have_a_recipe(self) -> Self:
        if bool(self.generators) != bool(self.synthesis):
            raise ValueError("synthesis belongs to generators and to nothing else")
        return self


class ScoreSpec(Value):
    """What a score follows from: the grid, covered labels in order, own labels with their digests, and all parts by digest."""

    job: Literal["score"]
    grid: grid.GridRecipe
    labels: Labels
    own: tuple[tuple[Label, Digest], ...]
    experts: tuple[Digest, ...]
    generators: tuple[tuple[Digest, Label, Count], ...]
    classifiers: Annotated[tuple[Digest, ...], Field(exclude_if=lambda digests: not digests)] = ()
