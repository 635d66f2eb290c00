"""Baselines that distil an ensemble without data, on cases whose answer is known."""

import math

import pytest
import torch
from mitr import coboosting, deepinversion, dense, fedftg
from mitr.calls import boosting_epochs, dense_epochs, metered, tuning_rounds
from mitr.coboosting import CoBoosting
from mitr.deepinversion import DeepInversion
from mitr.dense import Dense
from mitr.fedftg import FedFTG
from mitr.painter import Painter, Painting
from mitr.students import Student, Teachers, divergence, imitation
from torch import Tensor, nn

from fednode.contract import ImageShape
from fednode.vit_recipe import DistilRecipe

IMAGE = ImageShape(size=6, channels=1)
PAINTING = Painting(batch=16, steps=4, latent=8, width=8)
RECIPE = DistilRecipe(steps=60, batch=16, lr_micro=50_000)


class Brightness(nn.Module):
    """Says label 1 of bright images and label 0 of dark ones, as surely as `strength` says."""

    def __init__(self, strength: float) -> None:
        super().__init__()
        self.strength = strength

    def forward(self, images: Tensor) -> Tensor:
        light = self.strength * images.mean((1, 2, 3))
        return torch.stack([-light, light], 1)


def linear() -> nn.Module:
    network = nn.Sequential(nn.Flatten(), nn.Linear(36, 2))
    nn.init.zeros_(network[1].weight)
    nn.init.zeros_(network[1].bias)
    return network


def pupil(recipe: DistilRecipe = RECIPE) -> Student:
    return Student(linear(), recipe, lambda done, total: None)


def teachers(*strengths: float) -> Teachers:
    return Teachers([Brightness(one) for one in strengths], torch.tensor([[5.0, 5.0]] * len(strengths)))


def plain_images() -> tuple[Tensor, list[int]]:
    """Six plain images from black to white, and what they are."""
    shades = torch.tensor([-0.9, -0.5, -0.2, 0.2, 0.5, 0.9])
    return shades[:, None, None, None].expand(-1, 1, 6, 6), [0, 0, 0, 1, 1, 1]


SETTINGS = {
    "dense": (dense, Dense(PAINTING, epochs=6)),
    "co-boosting": (coboosting, CoBoosting(PAINTING, epochs=4)),
    "fedftg": (fedftg, FedFTG(PAINTING, rounds=10)),
    "deepinversion": (deepinversion, DeepInversion(images=24, steps=8, jitter=1)),
}


@pytest.mark.parametrize("name", SETTINGS)
def test_a_student_learns_what_the_ensemble_knows_without_an_image(name: str) -> None:
    torch.manual_seed(0)
    module, settings = SETTINGS[name]
    student = pupil()
    module.distil(teachers(6.0, 3.0), student, IMAGE, settings)
    images, expected = plain_images()
    assert student.network(images).argmax(1).tolist() == expected
    assert student.images >= RECIPE.steps * RECIPE.batch


def test_a_student_imitates_by_t_squared_times_the_divergence_of_softened_answers() -> None:
    teacher, student = torch.tensor([[0.0, math.log(3) * 2]]), torch.zeros(1, 2)
    expected = 4 * (0.25 * math.log(0.25 / 0.5) + 0.75 * math.log(0.75 / 0.5))
    assert imitation(student, teacher, 2.0).item() == pytest.approx(expected)
    assert divergence(teacher, teacher).item() == 0


def test_steps_are_shared_out_evenly_and_none_is_lost() -> None:
    student = pupil(DistilRecipe(steps=10))
    assert [student.steps_of(part, 4) for part in range(4)] == [2, 3, 2, 3]


def test_dense_seeks_images_about_which_ensemble_and_student_differ() -> None:
    """The second image alone counts for the gap: there the two say different labels."""
    ensemble = torch.tensor([[2.0, 0.0], [2.0, 0.0]])
    student = torch.tensor([[1.0, 0.0], [0.0, 1.0]])
    targets = torch.tensor([0, 0])
    apart = divergence(ensemble, student)[1].item() / 2
    certain = math.log(1 + math.exp(-2))
    assert dense.painter_loss(ensemble, student, targets, 0.5).item() == pytest.approx(certain - 0.5 * apart)


def test_co_boosting_weighs_the_loss_of_an_image_by_how_hard_it_is() -> None:
    ensemble = torch.tensor([[math.log(3), 0.0]])
    expected = (1 - 0.75) * math.log(1 / 0.75)
    assert coboosting.painter_loss(ensemble, ensemble, torch.tensor([0])).item() == pytest.approx(expected)


def test_co_boosting_moves_weights_by_one_rate_towards_who_is_right_and_keeps_them_within_0_and_1() -> None:
    right, wrong = torch.tensor([[3.0, 0.0]]), torch.tensor([[0.0, 3.0]])
    logits, targets = torch.stack([right, wrong]), torch.tensor([0])
    moved = coboosting.moved(torch.tensor([0.5, 0.5]), logits, targets, 0.01)
    assert moved.tolist() == pytest.approx([0.51, 0.49])
    assert coboosting.moved(torch.tensor([1.0, 0.0]), logits, targets, 0.01).tolist() == [1.0, 0.0]


def test_co_boosting_makes_an_image_hard_by_moving_each_pixel_by_its_reach() -> None:
    """The direction asks for less of label 1, so a bright image gets darker, everywhere by as much."""
    images = torch.full((1, 1, 6, 6), 0.5)
    hard = coboosting.hardened(teachers(1.0), torch.ones(1), images, torch.tensor([[0.0, -1.0]]), 0.125)
    assert torch.equal(hard, torch.full_like(images, 0.375))


def test_fedftg_weighs_nodes_by_their_share_of_a_label() -> None:
    counts = torch.tensor([[3.0, 0.0], [1.0, 4.0]])
    assert fedftg.node_shares(counts).tolist() == [[0.75, 0.0], [0.25, 1.0]]
    assert fedftg.label_shares(counts).tolist() == [0.5, 0.5]
    said = torch.tensor([[[2.0, 0.0]], [[0.0, 1.0]]])
    student, target = torch.tensor([[0.0, 0.0]]), torch.tensor([0])
    shares = fedftg.node_shares(counts)
    apart = 0.75 * divergence(student, said[0]) + 0.25 * divergence(student, said[1])
    assert fedftg.disagreement(student, said, target, shares).item() == pytest.approx(apart.item())
    wrong = 0.75 * math.log(1 + math.exp(-2)) + 0.25 * math.log(1 + math.e)
    assert fedftg.label_loss(said, target, shares).item() == pytest.approx(wrong)


def test_fedftg_counts_sameness_of_images_by_how_far_their_noise_is_apart() -> None:
    noise = torch.tensor([[0.0], [2.0]])
    same = torch.zeros(2, 1, 1, 1)
    assert fedftg.variety_loss(same, noise).item() == 1.0
    apart = torch.tensor([0.0, 0.5])[:, None, None, None]
    assert fedftg.variety_loss(apart, noise).item() == pytest.approx(math.exp(-0.5 * 4 / 2))


def test_deepinversion_ends_at_images_of_their_label_and_its_priors_are_those_of_the_paper() -> None:
    torch.manual_seed(0)
    settings = DeepInversion(images=4, steps=60, jitter=1)
    targets = torch.tensor([0, 1, 1, 0])
    images = deepinversion.invert(Brightness(6.0), targets, IMAGE, settings)
    assert Brightness(6.0)(images).argmax(1).tolist() == targets.tolist()
    assert images.abs().max() <= 1
    # One bright pixel in the middle of one of two images: each of its four difference images has it twice.
    dot = torch.zeros(2, 1, 5, 5)
    dot[0, 0, 2, 2] = 3.0
    only = DeepInversion(images=1, smooth=1.0, size=10.0)
    assert deepinversion.prior(dot, only).item() == pytest.approx((4 * 3 * 2**0.5 + 10 * 3) / 2)


def test_a_painter_gives_images_of_any_side_within_the_range() -> None:
    for side in (6, 8, 28):
        images = Painter(8, 4, ImageShape(size=side, channels=3))(torch.randn(2, 8))
        assert images.shape == (2, 3, side, side)
        assert images.abs().max() <= 1


class Tokens(nn.Module):
    """A network with blocks, as a ViT has them: nine patches and one token more."""

    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.Sequential(nn.Identity(), nn.Identity())

    def forward(self, images: Tensor) -> Tensor:
        tokens = self.blocks(torch.cat([images[:, 0, ::2, ::2].flatten(1), images[:, 0, :1, 0]], 1)[:, :, None])
        return torch.stack([-tokens.mean((1, 2)), tokens.mean((1, 2))], 1)


def test_calls_are_counted_at_the_networks_and_all_methods_get_as_many() -> None:
    """Calls count for what makes the images and for what asks for their answers."""
    networks = [Tokens(), Tokens(), Tokens()]
    asked = Teachers(networks, torch.ones(3, 2))
    painting = Painting(batch=10, steps=4, latent=4, width=4)
    calls = 4_800
    runs = {
        dense: Dense(painting, dense_epochs(calls, 3, 10, 4)),
        coboosting: CoBoosting(painting, boosting_epochs(calls, 3, 10, 4)),
        fedftg: FedFTG(painting, tuning_rounds(calls, 3, 10)),
        deepinversion: DeepInversion(images=100, steps=13),
    }
    for module, settings in runs.items():
        with metered(networks) as meter:
            module.distil(asked, pupil(DistilRecipe(steps=20, batch=5)), IMAGE, settings)
        assert meter.images == calls, module.__name__
        assert meter.tokens == meter.images * 10
    assert not any(network.blocks[0]._forward_pre_hooks for network in networks)
