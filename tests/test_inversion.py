"""Inversion: what stops and stays as it was, what a step costs, the total variation, and equal bytes after an interruption."""

import math

import pytest
import torch
from torch import Tensor, nn

from fednode.architecture import ViTArchitecture
from fednode.contract import ImageShape
from fednode.learning import vit
from fednode.learning.inversion import Inversion, invert, total_variation, variation_gradient
from fednode.learning.inverted import Classifier, targets_of
from fednode.learning.patches import Move, left_after, moved, others, pixels_of, stops, survivors
from fednode.learning.vitfit import Aids
from fednode.vit_recipe import InversionRecipe, Mode

torch.set_num_threads(1)
AIDS = Aids(lambda done, total: None, torch.device("cpu"))
SHAPE = ViTArchitecture(
    name="vit_tiny_patch16_224", image=ImageShape(size=8, channels=1), patch=2, width=16, depth=2, heads=2, outputs=3
)
RECIPE = InversionRecipe(steps=16, lr_milli=100)
TARGETS = torch.tensor([0, 1, 2, 0])


@pytest.fixture(scope="module")
def network() -> nn.Module:
    torch.manual_seed(0)
    found: nn.Module = vit.build(SHAPE).eval().requires_grad_(False)
    found.head.weight.mul_(50)  # an answer worth moving; at random weights all labels look alike
    return found


def run(network: nn.Module, mode: Mode, seed: int = 7) -> Inversion:
    return Inversion(network, TARGETS, SHAPE, RECIPE.model_copy(update={"mode": mode}), seed)


def test_the_schedule_of_196_patches_is_that_of_the_paper() -> None:
    counts = [196]
    for _ in range(4):
        counts.append(left_after(counts[-1], 30))
    assert counts == [196, 137, 95, 66, 46]
    assert left_after(1, 30) == 1
    assert stops(InversionRecipe(steps=400)) == {50, 100, 200, 300}
    assert stops(InversionRecipe(steps=400, mode="dense")) == set()


def test_those_of_the_highest_ranks_go_on_in_order_and_ties_go_to_the_first() -> None:
    seen = torch.tensor([[1, 4, 6, 9]])
    assert survivors(torch.tensor([[0.1, 0.9, 0.2, 0.8]]), seen, 50).tolist() == [[4, 9]]
    assert survivors(torch.tensor([[0.5, 0.5, 0.5, 0.6]]), seen, 50).tolist() == [[1, 9]]
    assert others(torch.tensor([[1, 3], [0, 1]]), 4).tolist() == [[0, 2], [2, 3]]


def test_total_variation_of_a_known_image() -> None:
    """[[0, 3], [4, 0]]: to the right 3 and 4, below 4 and 3, along the diagonals 0 and 1."""
    x = torch.tensor([[0.0, 3.0], [4.0, 0.0]])[None, None]
    assert float(total_variation(x)) == pytest.approx(5 + 5 + 0 + 1)
    both = total_variation(torch.cat([x, 2 * x]))
    assert both.tolist() == pytest.approx([11, 22])
    ramp = torch.arange(4.0).expand(1, 2, 4, 4)  # two channels of 0 1 2 3 in each row
    assert float(total_variation(ramp)) == pytest.approx(math.sqrt(24) + 0 + 2 * math.sqrt(18))


def test_the_gradient_of_total_variation_is_that_of_autograd_and_nothing_where_all_is_flat() -> None:
    x = torch.randn(3, 2, 5, 5, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    x[1] = 0.5
    x[2, :, 1:] = x[2, :, :1]
    x.requires_grad_()
    (expected,) = torch.autograd.grad(total_variation(x).sum(), x)
    found = variation_gradient(x.detach())
    assert torch.allclose(found, expected)
    assert not found[1].any()
    assert found[2].any()


@pytest.mark.parametrize("mirrored", [False, True])
@pytest.mark.parametrize(("down", "right"), [(2, -4), (0, 6), (-2, 2)])
def test_patches_move_with_their_pixels(down: int, right: int, mirrored: bool) -> None:
    seen, move = torch.tensor([[0, 3, 9], [5, 6, 15]]), Move(down, right, mirrored)
    before = pixels_of(seen, 4, 8)
    assert torch.equal(move.of(before), pixels_of(moved(seen, move, 4, 8), 4, 8))
    assert before.sum((1, 2, 3)).tolist() == [12, 12]


def test_a_roll_by_less_than_half_a_patch_leaves_patches_where_they_are() -> None:
    seen = torch.tensor([[0, 5]])
    assert moved(seen, Move(1, -1, False), 4, 16).tolist() == [[0, 5]]
    assert moved(seen, Move(3, -3, False), 4, 16).tolist() == [[7, 8]]


@pytest.mark.parametrize("mode", ["sparse", "random", "rebirth"])
def test_stopped_patches_keep_the_pixels_that_they_had(network: nn.Module, mode: Mode) -> None:
    inversion = run(network, mode)
    stopped = []
    for _ in range(RECIPE.steps):
        inversion.advance()
        if inversion.step in inversion.stops:
            stopped.append((inversion.still.clone(), inversion.x.clone()))
    assert len(stopped) == 4
    for still, then in stopped:
        assert bool(still.any())
        assert torch.equal(torch.where(still, inversion.x, 0.0), torch.where(still, then, 0.0))
        assert not torch.equal(inversion.x, then) or still is stopped[-1][0]
    kept = inversion.found().kept
    assert kept.shape == (4, 14 if mode == "rebirth" else 2)
    assert torch.equal(inversion.still, ~pixels_of(others(kept, 16) if mode == "rebirth" else kept, 4, 8))


def test_dense_keeps_all_patches_and_moves_all_pixels(network: nn.Module) -> None:
    inversion = run(network, "dense")
    before = inversion.x.clamp(-1, 1)
    for _ in range(RECIPE.steps):
        inversion.advance()
    assert inversion.found().kept.tolist() == [list(range(16))] * 4
    patches = (inversion.x != before).view(4, 4, 2, 4, 2)
    assert bool(patches.any(dim=4).any(dim=2).all())


@pytest.mark.parametrize(("mode", "best"), [("sparse", True), ("rebirth", False)])
def test_sparse_stops_what_is_attended_to_least_and_rebirth_what_is_most(
    network: nn.Module, mode: Mode, best: bool
) -> None:
    inversion = run(network, mode)
    while inversion.step < 1:
        inversion.advance()
    attention = vit.attention(network, inversion.x, inversion.seen)
    inversion._stop()
    going = torch.zeros(4, 16, dtype=torch.bool).scatter_(1, inversion.seen, True)
    for row in range(4):
        left, gone = attention[row][going[row]], attention[row][~going[row]]
        assert bool(left.min() >= gone.max()) if best else bool(left.max() <= gone.min())


def test_a_step_computes_on_the_patches_left_alone(network: nn.Module) -> None:
    tokens: list[int] = []
    handle = network.blocks[0].register_forward_pre_hook(  # type: ignore[index]
        lambda module, given: tokens.append(given[0].shape[1] - 1)
    )
    inversion = run(network, "sparse")
    for _ in range(RECIPE.steps):
        inversion.advance()
    handle.remove()
    # 16 steps with stops after 2, 4, 8 and 12, and at each stop one look at what is attended to
    assert tokens == [16] * 3 + [11] * 3 + [7] * 5 + [4] * 5 + [2] * 4


def test_images_come_to_what_the_classifier_takes_for_their_label(network: nn.Module) -> None:
    recipe = InversionRecipe(mode="dense", steps=60, lr_milli=50, jitter_milli=0, flip=False)
    found = invert(network, TARGETS, SHAPE, recipe, 1, AIDS)
    said = vit.answers(network, found.images.float() / 127.5 - 1).softmax(1)[torch.arange(4), TARGETS]
    start = run(network, "dense", seed=1).x
    before = vit.answers(network, start).softmax(1)[torch.arange(4), TARGETS]
    assert bool((said > before).all())
    assert bool((said[1:3] > 5 * before[1:3]).all())
    assert found.images.dtype == torch.uint8


def test_an_image_does_not_depend_on_those_beside_it(network: nn.Module) -> None:
    """All but the bits: the images of a batch share rolls, and each has its own descent."""
    both, alone = run(network, "dense"), run(network, "dense")
    alone.targets, alone.x = alone.targets[:1], alone.x[:1]
    alone.first, alone.second, alone.still = alone.first[:1], alone.second[:1], alone.still[:1]
    alone.seen = alone.seen[:1]
    assert torch.allclose(both._gradient()[0], alone._gradient()[0], atol=1e-6)


@pytest.mark.parametrize("mode", ["sparse", "random"])
def test_equal_seeds_give_equal_bytes_also_after_an_interruption(network: nn.Module, mode: Mode) -> None:
    torch.manual_seed(3)
    state = torch.get_rng_state()
    whole, other = run(network, mode), run(network, mode, seed=8)
    halved = run(network, mode)
    for number in range(RECIPE.steps):
        whole.advance()
        other.advance()
        if number < 6:
            halved.advance()
    saved = {name: tensor.clone() for name, tensor in halved.state().items()}
    resumed = run(network, mode)
    resumed.restore(saved)
    while resumed.step < RECIPE.steps:
        resumed.advance()
    assert torch.equal(resumed.x, whole.x)
    assert torch.equal(resumed.found().kept, whole.found().kept)
    assert not torch.equal(other.x, whole.x)
    assert torch.equal(torch.get_rng_state(), state)


def test_images_that_patches_do_not_cover_are_cut_to_size(network: nn.Module) -> None:
    shape = SHAPE.model_copy(update={"image": ImageShape(size=7, channels=1)})
    found = invert(network, TARGETS, shape, RECIPE, 1, AIDS)
    assert found.images.shape == (4, 1, 7, 7)
    assert found.kept.shape == (4, 2)


@pytest.mark.parametrize(("share", "wanted"), [("counts", [0, 6, 0, 4]), ("equal", [0, 5, 0, 5])])
def test_targets_are_the_labels_that_the_classifier_has_seen(network: nn.Module, share: str, wanted: list[int]) -> None:
    def made(digest: str) -> Tensor:
        counts = {"ant": 0, "bee": 30, "cat": 0, "dog": 20}
        recipe = InversionRecipe.model_validate({"images": 10, "share": share})
        return targets_of(Classifier(digest, network, SHAPE, counts), recipe)

    assert torch.bincount(made("ab"), minlength=4).tolist() == wanted
    assert made("ab").tolist() == made("ab").tolist()
    assert made("ab").tolist() != made("cd").tolist()


def test_a_label_of_few_images_has_one_all_the_same(network: nn.Module) -> None:
    counts = {"ant": 1, "bee": 0, "cat": 999}
    found = targets_of(Classifier("ab", network, SHAPE, counts), InversionRecipe(images=10))
    assert torch.bincount(found, minlength=3).tolist() == [1, 0, 10]
