"""The ensemble of classifiers: who has not seen a label has no say about it."""

from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from fednode.architecture import ViTArchitecture
from fednode.contract import ImageShape
from fednode.grid import Cell
from fednode.learning import vit
from fednode.learning.answers import UnanswerableError, log_answers
from fednode.learning.requests import ClassifierWeights, Product
from fednode.learning.session import open_session
from fednode.recipe import ExpertRecipe

IMAGE = ImageShape(size=4, channels=1)
SHAPE = ViTArchitecture(name="vit_tiny_patch16_224", image=IMAGE, patch=2, width=8, depth=1, heads=1, outputs=3)
LABELS = ("cat", "dog", "fox")
SESSION = open_session("cpu", 1)
IMAGES = torch.zeros(2, 1, 4, 4, dtype=torch.uint8)


def saying(path: Path, logits: tuple[float, ...], counts: tuple[int, ...]) -> ClassifierWeights:
    """A classifier that answers every image with these logits, and has seen so many images of each label."""
    tensors = vit.wire(vit.build(SHAPE))
    tensors["head.weight"] = torch.zeros_like(tensors["head.weight"])
    tensors["head.bias"] = torch.tensor(logits, dtype=torch.float16)
    save_file(tensors, path)
    labels = tuple(zip(LABELS, counts, strict=True))
    return ClassifierWeights(
        digest=f"{abs(hash(path)):064x}"[-64:], weights=str(path), architecture=SHAPE, labels=labels
    )


def answers(*classifiers: ClassifierWeights, labels: tuple[str, ...] = LABELS) -> torch.Tensor:
    request = Product(id=1, labels=labels, image=IMAGE, classifiers=classifiers, recipe=ExpertRecipe())
    return log_answers(request, SESSION, IMAGES, Cell("ensemble", "all"), lambda phase, done, total: None)


def test_a_logit_is_the_mean_of_those_who_have_seen_the_label(tmp_path: Path) -> None:
    one = saying(tmp_path / "one", (4.0, 1.0, 50.0), (9, 3, 0))
    other = saying(tmp_path / "other", (-50.0, 3.0, 1.0), (0, 5, 7))
    expected = torch.log_softmax(torch.tensor([4.0, 2.0, 1.0], dtype=torch.float64), 0)
    torch.testing.assert_close(answers(one, other), expected.expand(2, 3))


def test_labels_that_are_not_covered_are_left_out(tmp_path: Path) -> None:
    one = saying(tmp_path / "one", (4.0, 1.0, 50.0), (9, 3, 0))
    expected = torch.log_softmax(torch.tensor([4.0, 1.0], dtype=torch.float64), 0)
    torch.testing.assert_close(answers(one, labels=("cat", "dog")), expected.expand(2, 2))


def test_a_covered_label_that_nobody_has_seen_can_not_be_answered(tmp_path: Path) -> None:
    one = saying(tmp_path / "one", (4.0, 1.0, 50.0), (9, 3, 0))
    with pytest.raises(UnanswerableError, match="'fox'"):
        answers(one)
    with pytest.raises(UnanswerableError, match="'cat'"):
        answers()
