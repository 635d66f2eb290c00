"""The generative product: equal to Bayes' rule where denoisers are exact, and independent of what is asked beside it."""

import math
from itertools import pairwise

import pytest
import torch
from torch import Tensor

from fednode.contract import ImageShape
from fednode.learning.energies import energies
from fednode.learning.generative import (
    Term,
    common_noise,
    log_scores,
    mixed_by_label,
    noise_levels,
    order_of_levels,
    posterior,
    score,
)
from fednode.learning.sampler import Denoise, to_data
from fednode.presets import teacher_recipe
from fednode.recipe import TeacherRecipe

CPU = torch.device("cpu")
SPREAD = 0.35
SHAPE = (1, 3, 3)
RECIPE = TeacherRecipe()
ALL = TeacherRecipe(keep_percent=100)

torch.set_num_threads(1)


def exact(mean: Tensor) -> Denoise:
    """The best denoiser of N(mean, SPREAD^2): D(x; s) = (d^2 x + s^2 mean) / (d^2 + s^2)."""

    def denoise(x: Tensor, sigma: Tensor) -> Tensor:
        s2 = sigma[:, None, None, None] ** 2
        return (SPREAD**2 * x + s2 * mean) / (SPREAD**2 + s2)

    return denoise


def means(count: int) -> list[Tensor]:
    generator = torch.Generator().manual_seed(7)
    return [torch.rand(SHAPE, generator=generator) - 0.5 for _ in range(count)]


def images(around: list[Tensor], each: int) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(8)
    drawn = [mean + SPREAD * torch.randn((each, *SHAPE), generator=generator) for mean in around]
    pixels = ((torch.cat(drawn) + 1) * 127.5).round().clamp(0, 255).to(torch.uint8)
    return pixels, torch.arange(len(around)).repeat_interleave(each)


def nearest_mean(pixels: Tensor, around: list[Tensor]) -> Tensor:
    """Bayes' rule for Gaussians of one spread and equal priors."""
    return torch.stack([(to_data(pixels) - mean).square().sum((1, 2, 3)) for mean in around], 1).argmin(1)


def test_with_exact_denoisers_the_answer_is_that_of_bayes() -> None:
    around = means(4)
    pixels, truth = images(around, 100)
    answer = posterior([Term(i, 10, exact(mean)) for i, mean in enumerate(around)], pixels, 4, RECIPE, CPU).argmax(1)
    bayes = nearest_mean(pixels, around)
    assert (answer == bayes).float().mean() > 0.9
    assert (answer == truth).float().mean() > (bayes == truth).float().mean() - 0.05


def test_the_energy_of_an_exact_denoiser_is_that_of_the_closed_form() -> None:
    mean, x = means(1)[0], means(2)[1]
    levels = torch.tensor([0.3, 2.0])
    noise = torch.randn((1, 2, *SHAPE), generator=torch.Generator().manual_seed(1))
    found = energies(exact(mean), x[None], noise, levels)[0]
    for index, s in enumerate((0.3, 2.0)):
        error = (s**2 * (mean - x) + SPREAD**2 * s * noise[0, index]) / (SPREAD**2 + s**2)
        assert float(found[index]) == pytest.approx(float(error.square().sum()) / s**2, rel=1e-4)


def test_levels_are_eight_by_equal_factors_and_grow_with_the_side_of_the_image() -> None:
    for size, low, high in ((8, 0.11, 0.93), (28, 0.385, 3.255), (64, 0.88, 7.44), (128, 0.88, 7.44)):
        levels = noise_levels(teacher_recipe(ImageShape(size=size, channels=1))).tolist()
        assert len(levels) == 8
        assert (levels[0], levels[-1]) == pytest.approx((low, high))
        factors = [after / before for before, after in pairwise(levels)]
        assert factors == pytest.approx([(93 / 11) ** (1 / 7)] * 7, rel=1e-5)


def test_an_answer_does_not_depend_on_the_images_beside_it() -> None:
    around = means(3)
    pixels, _ = images(around, 30)
    terms = [Term(i, 10, exact(mean)) for i, mean in enumerate(around)]
    together = posterior(terms, pixels, 3, RECIPE, CPU)
    alone = posterior(terms, pixels[41:42], 3, RECIPE, CPU)
    assert torch.allclose(together[41], alone[0], atol=1e-6)


def test_noise_follows_from_the_image_and_is_unit_normal() -> None:
    pixels, _ = images(means(2), 60)
    noise = common_noise(pixels, 10)
    assert (noise == common_noise(pixels.clone(), 10)).all()
    assert not (noise[0] == noise[1]).any()
    assert abs(float(noise.mean())) < 0.05
    assert float(noise.std()) == pytest.approx(1, abs=0.05)


def test_two_equal_donors_of_a_label_are_as_good_as_one() -> None:
    around = means(3)
    pixels, _ = images(around, 10)
    single = [Term(i, 30, exact(mean)) for i, mean in enumerate(around)]
    double = [*single[:2], Term(2, 10, exact(around[2])), Term(2, 20, exact(around[2]))]
    assert torch.allclose(
        posterior(double, pixels, 3, RECIPE, CPU), posterior(single, pixels, 3, RECIPE, CPU), atol=1e-5
    )


def test_a_label_with_two_donors_explains_what_either_of_them_explains() -> None:
    around = means(4)
    pixels, truth = images(around, 60)
    terms = [Term(min(i, 2), 10, exact(mean)) for i, mean in enumerate(around)]
    answer = posterior(terms, pixels, 3, RECIPE, CPU).argmax(1)
    assert (answer == truth.clamp(max=2)).float().mean() > 0.8


def test_donors_of_a_label_are_one_mixture_weighted_by_their_counts() -> None:
    dummy = exact(means(1)[0])
    terms = [Term(1, 3, dummy), Term(0, 5, dummy), Term(1, 1, dummy)]
    sums = torch.tensor([[1.0, 2.5, 2.0], [-300.0, -301.0, -900.0]], dtype=torch.float64)
    found = mixed_by_label(sums, terms, 2).tolist()
    assert found[0] == pytest.approx([2.5, math.log(0.75 * math.exp(1.0) + 0.25 * math.exp(2.0))])
    assert found[1] == pytest.approx([-301.0, -300.0 + math.log(0.75)])


def test_a_label_gains_nothing_from_having_more_donors_than_others() -> None:
    around = means(3)
    pixels, _ = images(around, 20)
    near = [exact(around[2] + 0.01 * shift) for shift in range(4)]
    lone = [Term(0, 10, exact(around[0])), Term(1, 10, exact(around[1]))]
    one = log_scores([*lone, Term(2, 40, near[0])], pixels, 3, ALL, CPU)
    many = log_scores([*lone, *(Term(2, 10, denoise) for denoise in near)], pixels, 3, ALL, CPU)
    assert float((many - one)[:, 2].abs().max()) < 1.0
    assert torch.equal(many[:, :2], one[:, :2])


def test_scores_are_minus_the_mean_logarithm_of_the_energies_over_the_levels_times_the_sharpness() -> None:
    around = means(2)
    pixels, _ = images(around, 3)
    found = log_scores([Term(i, 5, exact(mean)) for i, mean in enumerate(around)], pixels, 2, ALL, CPU)
    noise = common_noise(pixels, 8)
    for image, x in enumerate(to_data(pixels)):
        for label, mean in enumerate(around):
            expected = 0.0
            for level, s in enumerate(0.11 * (93 / 11) ** (k / 7) for k in range(8)):
                error = (s**2 * (mean - x) + SPREAD**2 * s * noise[image, level]) / (SPREAD**2 + s**2)
                expected -= 16 / 8 * math.log(float(error.square().sum()) / s**2)
            assert float(found[image, label]) == pytest.approx(expected, abs=1e-3)


def test_with_all_labels_kept_a_score_does_not_depend_on_the_other_labels() -> None:
    around = means(5)
    pixels, _ = images(around, 4)
    terms = [Term(i, 5, exact(mean)) for i, mean in enumerate(around)]
    five, two = log_scores(terms, pixels, 5, ALL, CPU), log_scores(terms[:2], pixels, 2, ALL, CPU)
    assert torch.equal(five[:, :2], two)


def test_levels_are_asked_from_the_middle_outwards() -> None:
    assert order_of_levels(5) == (2, 1, 3, 0, 4)
    assert order_of_levels(4) == (1, 2, 0, 3)


def test_pruned_answers_are_those_of_all_levels_for_half_of_the_calls() -> None:
    around = [1.6 * mean for mean in means(10)]
    pixels, _ = images(around, 30)
    terms = [Term(i, 10, exact(mean)) for i, mean in enumerate(around)]
    every, pruned = score(terms, pixels, 10, ALL, CPU), score(terms, pixels, 10, RECIPE, CPU)
    assert every.calls == 80 * len(pixels)
    assert pruned.calls == 38 * len(pixels)  # 10 + 7 + 5 + 4 + 4 times 3
    assert (every.scores.argmax(1) == pruned.scores.argmax(1)).float().mean() > 0.95


def test_calls_count_each_donor_of_a_label_that_is_left() -> None:
    around = means(2)
    pixels, _ = images(around, 5)
    terms = [Term(0, 1, exact(around[0])), Term(0, 1, exact(around[0])), Term(1, 1, exact(around[1]))]
    assert score(terms, pixels, 2, RECIPE, CPU).calls == 8 * 3 * 10


def test_a_single_label_is_certain() -> None:
    pixels, _ = images(means(1), 3)
    assert posterior([Term(0, 5, exact(means(1)[0]))], pixels, 1, RECIPE, CPU).tolist() == [[1.0]] * 3


def test_a_higher_temperature_makes_answers_softer_and_keeps_their_order() -> None:
    around = means(3)
    pixels, _ = images(around, 20)
    terms = [Term(i, 10, exact(mean)) for i, mean in enumerate(around)]
    cold = posterior(terms, pixels, 3, TeacherRecipe(temperature_milli=1000), CPU)
    warm = posterior(terms, pixels, 3, TeacherRecipe(temperature_milli=4000), CPU)
    assert (cold.argmax(1) == warm.argmax(1)).all()
    assert (cold.max(1).values > warm.max(1).values).all()


@pytest.mark.parametrize("value", [math.nan, math.inf, 1e30])
def test_a_generator_that_overflows_explains_nothing_and_the_answer_stays_finite(value: float) -> None:
    around = means(2)
    pixels, _ = images(around, 20)
    terms = [*(Term(i, 10, exact(mean)) for i, mean in enumerate(around)), Term(2, 10, lambda x, s: x * 0 + value)]
    answer = posterior(terms, pixels, 3, RECIPE, CPU)
    assert bool(answer.isfinite().all())
    assert bool((answer[:, 2] < answer[:, :2].min(dim=1).values).all())
