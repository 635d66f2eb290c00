"""Experts: what is built, what is learned, equal bits, and weight files that are refused."""

from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor

from fednode.architecture import ExpertArchitecture
from fednode.contract import ImageShape
from fednode.learning import expert, weights
from fednode.learning.expert import Pool
from fednode.learning.weights import BadWeightsError
from fednode.presets import expert_architecture
from fednode.recipe import ExpertRecipe, SynthesisRecipe

CPU = torch.device("cpu")
TINY = ExpertArchitecture(name="resnet10t", image=ImageShape(size=8, channels=1), width=8, outputs=2)
RECIPE = ExpertRecipe(steps=6, batch=8)

torch.set_num_threads(1)  # bits are equal at a fixed number, and more of them only slow such small networks down


def toy_pool(seed: int = 0, count: int = 40) -> Pool:
    """Two labels: the first is darker than the second."""
    generator = torch.Generator().manual_seed(seed)
    labels = torch.arange(count) % 2
    images = torch.randint(0, 120, (count, 1, 8, 8), generator=generator) + 120 * labels[:, None, None, None]
    targets = torch.nn.functional.one_hot(labels, 2).float()
    return Pool(images.to(torch.uint8), targets, torch.full((count,), 1 / count, dtype=torch.float64))


def fit(seed: int = 1, recipe: ExpertRecipe = RECIPE, pools: int = 1) -> dict[str, Tensor]:
    changed = recipe.model_copy(update={"synthesis": SynthesisRecipe(pools=pools)})
    return expert.fit([toy_pool(n) for n in range(pools)], TINY, changed, seed, lambda done, total: None, CPU)


@pytest.fixture(scope="module")
def trained() -> dict[str, Tensor]:
    return fit(recipe=ExpertRecipe(steps=24, batch=16))


def test_an_expert_learns_to_tell_its_labels_apart(trained: dict[str, Tensor], tmp_path: Path) -> None:
    weights.save(tmp_path / "e", trained)
    network = expert.load(tmp_path / "e", TINY, CPU)
    fresh = toy_pool(9)
    answer = expert.logits(network, fresh.images, CPU).argmax(1)
    assert (answer == fresh.targets.argmax(1)).float().mean() > 0.95


def test_an_answer_does_not_depend_on_the_images_beside_it(trained: dict[str, Tensor], tmp_path: Path) -> None:
    weights.save(tmp_path / "e", trained)
    network = expert.load(tmp_path / "e", TINY, CPU)
    images = toy_pool(9).images
    together, alone = expert.logits(network, images, CPU), expert.logits(network, images[3:4], CPU)
    assert torch.allclose(together[3], alone[0], atol=1e-4)


def test_equal_seeds_give_equal_bits_and_others_do_not() -> None:
    first, again, other = fit(1), fit(1), fit(2)
    assert all(torch.equal(first[name], again[name]) for name in first)
    assert any(not torch.equal(first[name], other[name]) for name in first)


def test_fitting_leaves_the_global_random_state_as_it_was() -> None:
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    fit(1)
    assert torch.equal(torch.rand(3), expected)


def test_pools_share_the_steps_and_progress_counts_them_all() -> None:
    told: list[tuple[int, int]] = []
    recipe = ExpertRecipe(steps=7, batch=4, synthesis=SynthesisRecipe(pools=3))
    used: list[int] = []

    def give() -> object:
        for number in range(3):
            used.append(len(told))
            yield toy_pool(number)

    expert.fit(give(), TINY, recipe, 1, lambda done, total: told.append((done, total)), CPU)  # type: ignore[arg-type]
    assert told == [(step, 7) for step in range(1, 8)]
    assert used == [0, 2, 4]


def test_images_without_weight_are_never_drawn() -> None:
    pool = toy_pool()
    spoiled = Pool(
        torch.cat([pool.images, 255 - pool.images]),
        pool.targets.repeat(2, 1),
        torch.cat([pool.weights, pool.weights * 0]),
    )
    plain = expert.fit([pool], TINY, RECIPE, 1, lambda done, total: None, CPU)
    assert all(plain[name].isfinite().all() for name in plain)
    network_input = expert._batches(spoiled, 5, RECIPE, CPU)
    dark, bright = pool.images[0::2].float().mean(), pool.images[1::2].float().mean()
    for images, targets in network_input:
        values = (images.mean((1, 2, 3)) + 1) * 127.5
        assert ((values - torch.where(targets[:, 0] > 0.5, dark, bright)).abs() < 40).all()


def test_what_is_published_is_fp16_and_exactly_what_the_architecture_says(trained: dict[str, Tensor]) -> None:
    expected = expert.expert_tensors(TINY)
    assert {name: (tuple(t.shape), t.dtype) for name, t in trained.items()} == expected
    assert any(name.endswith("running_var") for name in expected)
    assert not any("num_batches" in name for name in expected)


@pytest.mark.parametrize("name", ["resnet10t", "resnet18", "resnet26", "resnet50"])
@pytest.mark.parametrize(
    ("size", "channels", "reduction", "reduced"),
    [(8, 1, None, 8), (32, 3, None, 32), (128, 3, None, 32), (28, 1, 2, 14), (28, 3, 4, 7), (128, 1, 1, 128)],
)
def test_the_stem_reduces_as_asked_and_else_keeps_small_images_at_full_size(
    name: str, size: int, channels: int, reduction: int | None, reduced: int
) -> None:
    image = ImageShape(size=size, channels=channels)
    fields = {"name": name, "image": image, "width": 8, "outputs": 5, "reduction": reduction}
    architecture = ExpertArchitecture.model_validate(fields)
    with torch.device("meta"):
        network = expert.build(architecture).eval()
        seen: list[int] = []
        network.get_submodule("layer1").register_forward_pre_hook(
            lambda module, inputs: seen.append(inputs[0].shape[-1])
        )
        assert network(torch.zeros(1, channels, size, size)).shape == (1, 5)
    assert seen == [reduced]


@pytest.mark.parametrize(("size", "side"), [(8, 8), (28, 14), (32, 16), (64, 16), (128, 32)])
def test_the_default_expert_works_on_few_squares_whatever_the_images(size: int, side: int) -> None:
    architecture = expert_architecture(ImageShape(size=size, channels=3), 4)
    with torch.device("meta"):
        network = expert.build(architecture).eval()
        seen: list[int] = []
        network.get_submodule("layer1").register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0].shape[-1]))
        network(torch.zeros(1, 3, size, size))
    assert seen == [side]


def test_an_architecture_reads_as_before_unless_its_stem_is_named() -> None:
    assert "reduction" not in TINY.model_dump(mode="json")
    assert TINY.model_copy(update={"reduction": 2}).model_dump(mode="json")["reduction"] == 2


def test_an_architecture_beyond_the_bound_is_refused_before_anything_is_built() -> None:
    huge = ExpertArchitecture(name="resnet50", image=ImageShape(size=8, channels=1), width=256, outputs=2)
    with pytest.raises(BadWeightsError, match="more than"):
        expert.expert_tensors(huge)


def spoil(trained: dict[str, Tensor], how: str) -> dict[str, Tensor]:
    name = "layer1.0.conv1.weight"
    tensor, others = trained[name], {other: value for other, value in trained.items() if other != name}
    changed = {
        "nan": {name: torch.full_like(tensor, float("nan"))},
        "infinity": {name: torch.full_like(tensor, float("inf"))},
        "magnitude": {name: torch.full_like(tensor, 60000.0)},
        "shape": {name: tensor[:-1].contiguous()},
        "dtype": {name: tensor.float()},
        "extra": {name: tensor, "more": tensor.clone()},
        "missing": {},
    }
    return others | changed[how]


@pytest.mark.parametrize("how", ["nan", "infinity", "magnitude", "shape", "dtype", "extra", "missing"])
def test_hostile_weights_are_refused(trained: dict[str, Tensor], tmp_path: Path, how: str) -> None:
    save_file(spoil(trained, how), tmp_path / "e")
    with pytest.raises(BadWeightsError):
        expert.load(tmp_path / "e", TINY, CPU)


def test_weights_of_other_labels_are_refused(trained: dict[str, Tensor], tmp_path: Path) -> None:
    weights.save(tmp_path / "e", trained)
    with pytest.raises(BadWeightsError, match="fc"):
        expert.load(tmp_path / "e", TINY.model_copy(update={"outputs": 3}), CPU)


def test_an_expert_whose_sound_weights_overflow_prefers_no_label(trained: dict[str, Tensor], tmp_path: Path) -> None:
    hostile = {
        name: torch.full_like(tensor, -1.0 if name.endswith("running_var") else 100.0)
        for name, tensor in trained.items()
    }
    weights.save(tmp_path / "w", hostile)
    found = expert.logits(expert.load(tmp_path / "w", TINY, CPU), toy_pool().images, CPU)
    assert found.tolist() == [[0.0, 0.0]] * 40
