"""What an expert gives away of the images that it saw, told by a network whose answers are known."""

import numpy as np
import torch
from torch import Tensor, nn

from fednode.learning.audit import expert_membership
from fednode.learning.dataset import LabelImages

LABELS = ("ant", "bee")
CPU = torch.device("cpu")


class Brightness(nn.Module):
    """Logits of `ant` and `bee`: the brighter an image, the surer it is of `ant`."""

    def forward(self, x: Tensor) -> Tensor:
        light = x.mean((1, 2, 3))
        return torch.stack([light, -light], 1)


def flat(label: str, train: list[int], holdout: list[int]) -> LabelImages:
    """Images of one value each."""
    shape = (-1, 1, 1, 1)
    parts = (np.full((len(values), 1, 4, 4), np.array(values, np.uint8).reshape(shape)) for values in (train, holdout))
    return LabelImages(label, *parts, "00" * 32)


def test_an_expert_that_is_surer_of_its_training_images_gives_them_away() -> None:
    own = {"ant": flat("ant", [200, 210, 220], [100, 120]), "bee": flat("bee", [20, 30], [150])}
    found = expert_membership(Brightness(), own, LABELS, CPU)
    assert found is not None
    assert found["auc"] == "1.0000"


def test_each_image_is_scored_by_its_own_label() -> None:
    found = expert_membership(Brightness(), {"bee": flat("bee", [200, 100], [150])}, LABELS, CPU)
    assert found is not None
    assert found["auc"] == "0.5000"


def test_without_held_out_images_there_is_nothing_to_tell() -> None:
    assert expert_membership(Brightness(), {"ant": flat("ant", [1, 2], [])}, LABELS, CPU) is None
    assert expert_membership(Brightness(), {}, LABELS, CPU) is None
