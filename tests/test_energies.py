"""Energies: one generator after the other and all in one stacked forward agree, and only what is asked for is computed."""

import pytest
import torch
from torch import Tensor

from fednode.architecture import GeneratorArchitecture
from fednode.contract import ImageShape
from fednode.learning import energies as module
from fednode.learning.denoiser import Denoiser
from fednode.learning.energies import STACKED_PIXELS, WORST, energies, energies_of_asked
from fednode.learning.generative import Term, score
from fednode.recipe import TeacherRecipe

ARCHITECTURE = GeneratorArchitecture(image=ImageShape(size=8, channels=1), channels=(8, 16), blocks=1, attention=(4,))
LEVELS = torch.tensor([0.3, 1.0])

torch.set_num_threads(1)


def network(seed: int, architecture: GeneratorArchitecture = ARCHITECTURE) -> Denoiser:
    """A generator whose output depends on all of its weights: fresh ones start as the identity."""
    torch.manual_seed(seed)
    made = Denoiser(architecture)
    with torch.no_grad():
        for name, parameter in made.named_parameters():
            if name.endswith("gain"):
                parameter.fill_(0.5)
    return made.freeze()


def seen(images: int) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(5)
    x = torch.randn((images, 1, 8, 8), generator=generator)
    return x, torch.randn((images, 2, 1, 8, 8), generator=generator)


def one_by_one(networks: list[Denoiser], asked: Tensor, x: Tensor, noise: Tensor) -> Tensor:
    found = torch.ones((len(x), 2, len(networks)), dtype=torch.float64)
    for image, number in asked.nonzero().tolist():
        s = slice(image, image + 1)
        found[image, :, number] = energies(networks[number], x[s], noise[s], LEVELS)[0].double()
    return found


@pytest.mark.parametrize("images", [1, 3, 20])  # the last is beyond what is stacked
def test_energies_of_small_and_of_large_batches_are_those_of_each_generator_alone(images: int) -> None:
    networks, (x, noise) = [network(seed) for seed in range(5)], seen(images)
    asked = torch.rand((images, 5), generator=torch.Generator().manual_seed(1)) < 0.6
    asked[0] = True
    found = energies_of_asked(networks, asked, x, noise, LEVELS)
    assert torch.allclose(found, one_by_one(networks, asked, x, noise), rtol=1e-4)


def test_small_batches_of_one_architecture_are_stacked_and_nothing_else_is(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []

    def stack_of(networks: tuple[Denoiser, ...]) -> module.Stack:
        calls.append(len(networks))
        return module.Stack(networks)

    monkeypatch.setattr(module, "stack_of", stack_of)
    networks = [network(seed) for seed in range(4)]
    other = ARCHITECTURE.model_copy(update={"channels": (8, 8)})
    most = STACKED_PIXELS // (64 * 2)
    for generators, images in (
        (networks, most),
        (networks, most + 1),
        (networks[:3], 1),
        ([*networks[:3], network(3, other)], 1),
        ([*networks[:3], lambda x, sigma: x], 1),
    ):
        x, noise = seen(images)
        energies_of_asked(generators, torch.ones(images, 4, dtype=torch.bool)[:, : len(generators)], x, noise, LEVELS)
    assert calls == [4]


def test_an_image_alone_is_scored_at_once_and_as_it_is_among_many() -> None:
    terms = [Term(seed, 1, network(seed)) for seed in range(6)]
    images = torch.randint(0, 256, (20, 1, 8, 8), generator=torch.Generator().manual_seed(2)).to(torch.uint8)
    many = score(terms, images, 6, TeacherRecipe(), torch.device("cpu"))
    alone = score(terms, images[7:8], 6, TeacherRecipe(), torch.device("cpu"))
    assert (many.calls, alone.calls) == (20 * (6 + 5 + 4 + 5 * 3), 6 * 8)
    assert torch.allclose(alone.scores[0], many.scores[7], atol=1e-3)


def test_a_generator_that_nobody_asks_is_not_called() -> None:
    def refuse(x: Tensor, sigma: Tensor) -> Tensor:
        raise AssertionError

    x, noise = seen(4)
    asked = torch.tensor([[True, False]] * 4)
    found = energies_of_asked([lambda x, sigma: x * 0, refuse], asked, x, noise, LEVELS)
    assert torch.equal(found[:, :, 1], torch.ones(4, 2, dtype=torch.float64))
    expected = x.square().sum((1, 2, 3)).double() / 0.09
    assert torch.allclose(found[:, 0, 0], expected)


def test_an_overflow_is_the_worst_energy_in_a_stack_as_well() -> None:
    networks = [network(seed) for seed in range(4)]
    with torch.no_grad():
        networks[2].leave_gain.fill_(float("nan"))
    x, noise = seen(1)
    found = energies_of_asked(networks, torch.ones(1, 4, dtype=torch.bool), x, noise, LEVELS)
    assert found[0, :, 2].tolist() == pytest.approx([WORST] * 2)
    assert (found[0, :, [0, 1, 3]] < WORST / 1e6).all()
