"""Numbers of another type: every network computes in them, and what comes out is nearly the same."""

import pytest
import torch

from fednode.architecture import GeneratorArchitecture
from fednode.contract import ImageShape
from fednode.learning import generative, sampler
from fednode.learning.denoiser import Denoiser
from fednode.presets import recipes
from fednode.recipe import SamplerRecipe, TeacherRecipe

CPU = torch.device("cpu")
TINY = GeneratorArchitecture(image=ImageShape(size=4, channels=1), channels=(8, 8), blocks=1)
PLAIN = TeacherRecipe(levels=4, keep_percent=100)
ROUGH = PLAIN.model_copy(update={"dtype": "bfloat16"})


@pytest.fixture
def denoiser() -> Denoiser:
    torch.manual_seed(3)
    model = Denoiser(TINY)
    torch.nn.init.constant_(model.leave_gain, 0.5)
    return model.freeze()


def test_a_wish_for_numbers_reaches_every_network_of_a_node() -> None:
    made = recipes(ImageShape(size=28, channels=1), dtype="bfloat16")
    expert = made.expert
    everywhere = (made.generator, made.audit.sampler, expert, expert.synthesis.sampler, expert.teacher)
    assert [one.dtype for one in everywhere] == ["bfloat16"] * 5
    plain = recipes(ImageShape(size=28, channels=1))
    assert plain.expert.digest != expert.digest
    assert plain.generator.digest != made.generator.digest


def test_a_private_fit_stays_in_float32_whatever_the_other_networks_compute_in() -> None:
    made = recipes(ImageShape(size=28, channels=1), epsilon=8, dtype="bfloat16")
    assert (made.generator.dtype, made.expert.dtype) == ("float32", "bfloat16")


def test_samples_in_bfloat16_are_nearly_those_of_float32_and_equal_each_time(denoiser: Denoiser) -> None:
    plain = SamplerRecipe(steps=6, batch=8)
    rough = plain.model_copy(update={"dtype": "bfloat16"})
    exact, first, again = (
        sampler.draw(denoiser, range(8), lambda i: i, recipe).int() for recipe in (plain, rough, rough)
    )
    assert torch.equal(first, again)
    assert not torch.equal(first, exact)
    assert (first - exact).abs().max() <= 12


def scores(labels: int, recipe: TeacherRecipe) -> torch.Tensor:
    terms = []
    for label in range(labels):
        torch.manual_seed(label)
        model = Denoiser(TINY)
        torch.nn.init.constant_(model.leave_gain, 0.5)
        terms.append(generative.Term(label, 10, model.freeze()))
    images = torch.randint(0, 256, (5, 1, 4, 4), generator=torch.Generator().manual_seed(1), dtype=torch.uint8)
    return generative.log_scores(terms, images, labels, recipe, CPU)


def test_scores_in_bfloat16_are_nearly_those_of_float32_and_equal_each_time() -> None:
    exact, first, again = scores(2, PLAIN), scores(2, ROUGH), scores(2, ROUGH)
    assert torch.equal(first, again)
    assert not torch.equal(first, exact)
    assert torch.allclose(first, exact, atol=0.2)


def test_scores_of_one_stacked_forward_stay_in_float32() -> None:
    assert torch.equal(scores(6, ROUGH), scores(6, PLAIN))
