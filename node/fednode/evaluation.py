"""The evaluation: a node's signed counts of how each way to answer does on its own held-out images.

Rule 1: it says counts and sums alone, never an image, an answer for one image, or anything of a label with few images.
Rule 2: it names every artifact that was scored. It is void when one of these is, and counts for a node only while they are just
        those that this node answers with.
Rule 3: temperature does not change which label is the likeliest, so a cell has one row of answers for a label and a loss for each
        temperature.
"""

from typing import Annotated, Any, ClassVar, Self

from pydantic import Field, StringConstraints, model_validator

from fednode.contract import MAX_LABELS, Label, Value
from fednode.lineage import Pair
from fednode.manifest import MAX_INPUTS
from fednode.statement import Digest, PeerIdText, Statement
from fednode_crypto.digest import digest_json

MINIMUM_IMAGES = 5
MAX_IMAGES = 2_000
MAX_ROWS = MAX_IMAGES // MINIMUM_IMAGES
MAX_LOSS_MICRO = 16_000_000
MAX_SCORED = MAX_INPUTS + 128  # every generator that an expert may name, and the experts

CellName = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z-]{0,31}$")]
LabelIndex = Annotated[int, Field(ge=0, lt=MAX_LABELS)]
Images = Annotated[int, Field(ge=1, le=MAX_IMAGES)]
Loss = Annotated[int, Field(ge=0, le=MAX_IMAGES * MAX_LOSS_MICRO)]


class Row(Value):
    """What was answered for the images of one own label: (index of the answered label, images), sorted.

    `losses`: for each temperature of the grid the images' log losses, clipped and added up, in millionths of a nat.
    """

    label: Label
    answered: Annotated[tuple[tuple[LabelIndex, Images], ...], Field(min_length=1, max_length=MAX_LABELS)]
    losses: Annotated[tuple[Loss, ...], Field(min_length=1, max_length=8)]

    @property
    def images(self) -> int:
        """How many images of the label were scored."""
        return sum(count for _, count in self.answered)

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        indices = [index for index, _ in self.answered]
        if indices != sorted(set(indices)):
            raise ValueError("answers are sorted by label and name each once")
        if self.images < MINIMUM_IMAGES:
            raise ValueError(f"fewer than {MINIMUM_IMAGES} images of a label were scored")
        if max(self.losses) > self.images * MAX_LOSS_MICRO:
            raise ValueError("the log loss is more than so many images can have")
        return self


class Scores(Value):
    """One cell of the grid, with a row for each own label that was scored, in the order of the labels."""

    cell: CellName
    rows: Annotated[tuple[Row, ...], Field(min_length=1, max_length=MAX_ROWS)]


class Evaluation(Statement):
    """The counts of one node. `labels` are those that the products tell apart; `lineage` names all their parts, sorted."""

    KIND: ClassVar[str] = "evaluation"
    LIMIT: ClassVar[int] = 1024 * 1024

    issuer: PeerIdText
    grid: Digest
    labels: Annotated[tuple[Label, ...], Field(min_length=2, max_length=MAX_LABELS)]
    lineage: Annotated[tuple[Pair, ...], Field(min_length=1, max_length=MAX_SCORED)]
    scores: Annotated[tuple[Scores, ...], Field(min_length=1, max_length=6)]

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if list(self.lineage) != sorted(set(self.lineage)):
            raise ValueError("lineage is sorted and names each pair once")
        if len(set(self.labels)) != len(self.labels):
            raise ValueError("each label is named once")
        cells = [scores.cell for scores in self.scores]
        if cells != sorted(set(cells)):
            raise ValueError("cells are sorted and named once")
        return self

    @model_validator(mode="after")
    def _rows_fit(self) -> Self:
        place = {label: index for index, label in enumerate(self.labels)}
        shapes = [[(row.label, row.images, len(row.losses)) for row in scores.rows] for scores in self.scores]
        if any(shape != shapes[0] for shape in shapes):
            raise ValueError("every cell has the same images")
        rows = [place.get(label, -1) for label, _, _ in shapes[0]]
        if -1 in rows or rows != sorted(set(rows)):
            raise ValueError("rows are in the order of the labels, and each is of another one")
        if sum(images for _, images, _ in shapes[0]) > MAX_IMAGES or len({losses for _, _, losses in shapes[0]}) > 1:
            raise ValueError("there are too many images, or not as many losses in each row")
        answers = (index for scores in self.scores for row in scores.rows for index, _ in row.answered)
        if max(answers) >= len(self.labels):
            raise ValueError("an answer is none of the labels")
        return self

    @property
    def counts(self) -> str:
        """SHA-256 (hex) of what was counted, without who says so, when, and of which issuers' artifacts."""
        return counts_digest(self.grid, self.labels, [scores.model_dump(mode="json") for scores in self.scores])


def counts_digest(grid: str, labels: tuple[str, ...], scores: list[Any]) -> str:
    """SHA-256 (hex) of the counts of a score job, as `Evaluation.counts` gives it."""
    return digest_json("fednode/counts/v1", {"grid": grid, "labels": list(labels), "scores": scores})
