"""Fitting: the loss and its optimum, the schedule, bad gradients, equal bits, and a generator that learns what it saw."""

import math
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from fednode.architecture import GeneratorArchitecture
from fednode.contract import ImageShape
from fednode.learning import fitting, generator
from fednode.learning.denoiser import Denoiser
from fednode.learning.sampler import draw
from fednode.learning.weights import BadWeightsError
from fednode.recipe import GeneratorRecipe, SamplerRecipe

CPU = torch.device("cpu")
TINY = GeneratorArchitecture(image=ImageShape(size=4, channels=1), channels=(8, 8), blocks=1)
SHORT = GeneratorRecipe(images=64, batch=16, rampup_milli=250, decay_milli=500)


def images(count: int = 12) -> Tensor:
    return torch.randint(0, 256, (count, 1, 4, 4), generator=torch.Generator().manual_seed(2), dtype=torch.uint8)


def fit(seed: int = 1, recipe: GeneratorRecipe = SHORT) -> dict[str, Tensor]:
    return generator.fit(images(), TINY, recipe, seed, lambda done, total: None, CPU)


def test_the_loss_of_one_image_is_what_the_paper_says() -> None:
    loss = fitting.loss_of(torch.tensor([0.2]), torch.tensor([2.0]), torch.tensor([0.7]))
    assert float(loss) == pytest.approx((4.0 + 0.25) / 1.0 * 0.2 / math.exp(0.7) + 0.7)


def test_the_best_uncertainty_is_the_log_of_the_weighted_error() -> None:
    error, sigma = torch.full((1,), 0.2), torch.full((1,), 2.0)
    u = torch.zeros(1, requires_grad=True)
    optimiser = torch.optim.SGD([u], lr=0.3)
    for _ in range(200):
        optimiser.zero_grad()
        fitting.loss_of(error, sigma, u).backward()  # type: ignore[no-untyped-call]
        optimiser.step()
    assert float(u.detach()) == pytest.approx(math.log(4.25 * 0.2), abs=1e-4)


def test_the_weight_of_the_loss_undoes_the_output_scale() -> None:
    sigma = torch.tensor([0.05, 0.5, 20.0])
    c_out = sigma * 0.5 / (sigma**2 + 0.25).sqrt()
    for index in range(3):
        error, level = (c_out**2)[index : index + 1], sigma[index : index + 1]
        assert float(fitting.loss_of(error, level, torch.zeros(1))) == pytest.approx(1.0, abs=1e-5)


def test_the_learning_rate_rises_stays_and_falls_with_the_inverse_square_root() -> None:
    recipe = GeneratorRecipe(images=10**6, batch=10, lr_micro=20_000, rampup_milli=63, decay_milli=250)
    rates = [fitting.learning_rate(step, 160, recipe) for step in range(160)]
    assert rates[0] == pytest.approx(0.002)
    assert rates[4] == pytest.approx(0.010)
    assert rates[9] == rates[25] == rates[40] == pytest.approx(0.020)
    assert rates[80] == pytest.approx(0.020 / math.sqrt(2))
    assert max(rates) <= 0.020


def test_the_schedule_is_the_same_curve_whatever_the_budget() -> None:
    recipe = GeneratorRecipe(images=10**6, batch=10)
    short, long = ([fitting.learning_rate(step, steps, recipe) for step in range(steps)] for steps in (100, 1000))
    assert short[5:] == pytest.approx(long[50::10], rel=1e-9)
    assert long[-1] == pytest.approx(0.010 * math.sqrt(0.333), rel=1e-2)


def test_gradients_that_are_not_finite_become_zero_and_the_others_stay() -> None:
    parameter = nn.Parameter(torch.zeros(4))
    parameter.grad = torch.tensor([torch.nan, torch.inf, -torch.inf, 2.5])
    fitting.clear_bad_gradients([parameter, nn.Parameter(torch.zeros(1))])
    assert parameter.grad.tolist() == [0.0, 0.0, 0.0, 2.5]


def test_a_batch_of_poison_leaves_the_weights_finite(monkeypatch: pytest.MonkeyPatch) -> None:
    plain, calls = fitting.batch_loss, []

    def poisoned(*arguments: object) -> Tensor:
        calls.append(1)
        return plain(*arguments) * (torch.nan if len(calls) == 2 else 1.0)  # type: ignore[arg-type]

    monkeypatch.setattr(fitting, "batch_loss", poisoned)
    assert all(bool(tensor.isfinite().all()) for tensor in fit().values())
    assert len(calls) == 4


def test_equal_seeds_give_equal_bits_and_others_do_not() -> None:
    first, second, other = fit(1), fit(1), fit(2)
    assert all(torch.equal(first[name], second[name]) for name in first)
    assert any(not torch.equal(first[name], other[name]) for name in first)


def test_fitting_leaves_the_global_random_state_alone_and_does_not_depend_on_it() -> None:
    torch.manual_seed(5)
    before, first = torch.random.get_rng_state(), fit()
    assert torch.equal(before, torch.random.get_rng_state())
    torch.manual_seed(6)
    assert all(torch.equal(first[name], tensor) for name, tensor in fit().items())


def test_progress_counts_every_step() -> None:
    seen: list[tuple[int, int]] = []
    generator.fit(images(), TINY, SHORT, 1, lambda done, total: seen.append((done, total)), CPU)
    assert seen == [(1, 4), (2, 4), (3, 4), (4, 4)]


def test_the_weights_are_half_precision_and_hold_nothing_of_the_uncertainty() -> None:
    tensors = fit()
    assert {tensor.dtype for tensor in tensors.values()} == {torch.float16}
    assert not [name for name in tensors if "uncertainty" in name]


def test_one_image_is_enough_for_a_fit() -> None:
    assert generator.fit(images(1), TINY, SHORT, 1, lambda done, total: None, CPU)


def test_a_saved_generator_loads_frozen_and_draws(tmp_path: Path) -> None:
    generator.save(tmp_path / "g", fit())
    model = generator.load(tmp_path / "g", TINY, CPU)
    assert not model.training
    assert not any(parameter.requires_grad for parameter in model.parameters())
    assert draw(model, range(3), lambda i: i, SamplerRecipe(steps=2, batch=4)).shape == (3, 1, 4, 4)


def test_a_spoilt_generator_is_not_loaded(tmp_path: Path) -> None:
    generator.save(tmp_path / "g", fit() | {"leave_gain": torch.zeros(2, dtype=torch.float16)})
    with pytest.raises(BadWeightsError, match="leave_gain"):
        generator.load(tmp_path / "g", TINY, CPU)


def test_a_generator_of_one_image_draws_what_is_nearest_to_that_image() -> None:
    recipe = GeneratorRecipe(
        images=16 * 80, max_passes=16 * 80, batch=16, lr_micro=20_000, rampup_milli=125, decay_milli=500
    )
    tensors = generator.fit(images(1), TINY, recipe, 3, lambda done, total: None, CPU)
    model = Denoiser(TINY)
    model.load_state_dict({name: tensor.float() for name, tensor in tensors.items()})
    drawn = draw(model.freeze(), range(16), lambda i: i, SamplerRecipe(steps=6, batch=16))
    distances = torch.cdist(drawn.flatten(1).float(), images(12).flatten(1).float())
    assert distances.argmin(1).tolist() == [0] * 16


SCRIPT = """
import hashlib, torch
torch.set_num_threads(1)
torch.use_deterministic_algorithms(True)
from pathlib import Path
from test_generator import CPU, TINY, fit
from fednode.learning import fitting, generator
from fednode.learning.sampler import draw
from fednode.recipe import SamplerRecipe
path = Path(__import__("sys").argv[1])
generator.save(path, fit())
drawn = draw(generator.load(path, TINY, CPU), range(9), lambda i: i, SamplerRecipe(steps=3, batch=4))
print(hashlib.sha256(path.read_bytes()).hexdigest(), hashlib.sha256(drawn.numpy().tobytes()).hexdigest())
"""


def test_two_processes_give_equal_bytes_of_weights_and_samples(tmp_path: Path) -> None:
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path), "OMP_NUM_THREADS": "1"}
    runs = [
        subprocess.Popen(
            [sys.executable, "-c", SCRIPT, str(tmp_path / name)], stdout=subprocess.PIPE, env=environment, text=True
        )
        for name in ("one", "two")
    ]
    said = [run.communicate(timeout=120)[0] for run in runs]
    assert [run.returncode for run in runs] == [0, 0]
    assert said[0] == said[1]
    assert len(said[0].split()) == 2
