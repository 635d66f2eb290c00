"""What an expert is trained on: who draws what, equal weights for labels, and whose labels synthetic images carry."""

import math
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from fednode.architecture import ExpertArchitecture, GeneratorArchitecture
from fednode.contract import ImageShape
from fednode.errors import DataError
from fednode.learning import expert
from fednode.learning.denoiser import Denoiser
from fednode.learning.expert import Pool
from fednode.learning.session import Session, open_session
from fednode.learning.synthesis import Donor
from fednode.learning.training import Lesson, pools
from fednode.recipe import ExpertRecipe, SamplerRecipe, SynthesisRecipe, TeacherRecipe

LABELS = ("cat", "dog", "fox")
TINY = GeneratorArchitecture(image=ImageShape(size=4, channels=1), channels=(8,), blocks=1)
SYNTHESIS = SynthesisRecipe(sampler=SamplerRecipe(steps=2, batch=8), samples_per_label=8)
RECIPE = ExpertRecipe(synthesis=SYNTHESIS, teacher=TeacherRecipe(levels=2))

torch.set_num_threads(1)


@pytest.fixture(scope="module")
def session() -> Session:
    return open_session("cpu", 1)


@pytest.fixture(scope="module")
def donors() -> dict[str, list[Donor]]:
    found = {}
    for seed, label in enumerate(LABELS):
        with torch.random.fork_rng():
            torch.manual_seed(seed)
            denoiser = Denoiser(TINY)
            torch.nn.init.constant_(denoiser.leave_gain, 1.0)
        found[label] = [Donor(str(seed) * 64, label, 10, denoiser.freeze(), None)]
    return found


def real(count: int, seed: int = 0) -> Tensor:
    return torch.randint(0, 256, (count, 1, 4, 4), generator=torch.Generator().manual_seed(seed), dtype=torch.uint8)


def only_pool(lesson: Lesson, session: Session) -> Pool:
    (pool,) = pools(lesson, session, lambda phase, done, total: None)
    return pool


def changed(**fields: object) -> ExpertRecipe:
    return RECIPE.model_copy(update=fields)


class Normal:
    """A generator whose pixels are N(mean, spread^2), in data units: its denoiser is known in closed form."""

    architecture = TINY
    leave_gain = torch.zeros(1)

    def __init__(self, mean: float, spread: float = 0.05) -> None:
        self.mean, self.spread = mean, spread

    def __call__(self, x: Tensor, sigma: Tensor) -> Tensor:
        noise, own = sigma.view(-1, 1, 1, 1) ** 2, self.spread**2
        return (own * x + noise * self.mean) / (own + noise)


EXACT = SYNTHESIS.model_copy(update={"sampler": SamplerRecipe(steps=100, batch=8)})  # enough for a closed form to hold


def normal(name: str, label: str, mean: float, spread: float = 0.05, count: int = 10) -> Donor:
    denoiser: Any = Normal(mean, spread)
    return Donor(name * 64, label, count, denoiser, None)


def three_means() -> dict[str, list[Donor]]:
    means = {"cat": -0.5, "dog": 0.0, "fox": 0.5}
    return {label: [normal(str(seed), label, mean)] for seed, (label, mean) in enumerate(means.items())}


def brightness(images: Tensor) -> Tensor:
    return images.float().mean((1, 2, 3)) / 127.5 - 1


@pytest.mark.parametrize(
    ("mix", "drawn", "counts"),
    [
        ("paper", ["cat", "fox"], {"real": 5, "synthetic": 16}),
        ("projected", ["cat", "fox"], {"real": 5, "synthetic": 16}),
        ("mixed", ["cat", "dog", "fox"], {"real": 5, "synthetic": 24}),
        ("synthetic", ["cat", "dog", "fox"], {"real": 0, "synthetic": 24}),
    ],
)
def test_each_mix_draws_what_it_needs(
    donors: dict[str, list[Donor]], mix: str, drawn: list[str], counts: dict[str, int]
) -> None:
    lesson = Lesson(LABELS, {"dog": real(5)}, donors, changed(mix=mix))
    assert lesson.drawn == drawn
    assert lesson.counts == counts


def test_a_synthetic_mix_is_that_of_a_node_without_images(session: Session, donors: dict[str, list[Donor]]) -> None:
    with_images = only_pool(Lesson(LABELS, {"dog": real(5)}, donors, changed(mix="synthetic")), session)
    without = only_pool(Lesson(LABELS, {}, donors, changed(mix="synthetic")), session)
    assert torch.equal(with_images.images, without.images)
    assert torch.equal(with_images.weights, without.weights)


def test_projected_images_are_moved_towards_their_generator_as_the_flow_says(session: Session) -> None:
    images = torch.full((300, 16), 191, dtype=torch.uint8)
    images[range(300), [n % 16 for n in range(300)]] = (
        torch.arange(300).floor_divide(16).add(182).byte()
    )  # no two are equal
    own = {"dog": images.view(300, 1, 4, 4)}
    recipe = changed(mix="projected", projection_milli=400, synthesis=EXACT)
    donors = {**three_means(), "dog": [normal("1", "dog", 0.0, spread=0.3)]}
    pool = only_pool(Lesson(LABELS, own, donors, recipe), session)
    projected = pool.images[pool.targets[:, 1] == 1].float() / 127.5 - 1
    # x at 0 = mean + (x at sigma - mean) spread / sqrt(spread^2 + sigma^2), for normal data
    shrunk = 0.3 / math.hypot(0.3, 0.4)
    assert float(projected.mean()) == pytest.approx((191 / 127.5 - 1) * shrunk, abs=0.02)
    assert float(projected.std()) == pytest.approx(0.4 * shrunk, abs=0.02)


def test_a_real_image_without_a_generator_of_its_label_is_projected_by_none(
    session: Session, donors: dict[str, list[Donor]]
) -> None:
    lesson = Lesson(LABELS, {"fox": real(5)}, {label: donors[label] for label in LABELS[:2]}, changed(mix="projected"))
    pool = only_pool(lesson, session)
    assert torch.equal(pool.images[pool.targets[:, 2] == 1], real(5))


def test_samples_that_the_teacher_gives_another_label_are_dropped_and_counted_by_donor(session: Session) -> None:
    donors = three_means()
    donors["dog"].append(normal("9", "dog", -0.5, count=1))  # draws cats
    pool = only_pool(Lesson(LABELS, {}, donors, changed(targets="agreed", synthesis=EXACT)), session)
    assert pool.dropped == {"9" * 64: 2}
    assert (brightness(pool.images) - pool.targets @ torch.tensor([-0.5, 0.0, 0.5])).abs().max() < 0.1
    assert (pool.weights @ pool.targets.double()).tolist() == pytest.approx([1 / 3] * 3)


def test_a_label_keeps_all_its_samples_where_the_teacher_agrees_with_none(session: Session) -> None:
    donors = {**three_means(), "dog": [normal("1", "dog", -0.5)]}  # draws cats, as the cats' own generator does
    pool = only_pool(Lesson(LABELS, {}, donors, changed(targets="agreed", synthesis=EXACT)), session)
    assert pool.targets.sum(0).tolist() == [8, 8, 8]
    assert pool.dropped == {}


@pytest.mark.parametrize("targets", ["donor", "teacher", "agreed"])
def test_the_first_pool_says_which_donors_samples_the_teacher_doubts(session: Session, targets: str) -> None:
    donors = three_means()
    donors["dog"].append(normal("9", "dog", -0.5, count=1))  # draws cats
    synthesis = EXACT.model_copy(update={"samples_per_label": 24, "pools": 2})
    lesson = Lesson(LABELS, {}, donors, changed(targets=targets, synthesis=synthesis))
    first, second = pools(lesson, session, lambda phase, done, total: None)
    assert first.doubted == {
        ("cat", "0" * 64): (16, 0),
        ("dog", "1" * 64): (16, 0),
        ("dog", "9" * 64): (6, 6),
        ("fox", "2" * 64): (16, 0),
    }
    assert second.doubted == {}


def test_samples_of_the_only_label_that_is_known_are_not_doubted(session: Session) -> None:
    donors = {"cat": three_means()["cat"]}
    assert only_pool(Lesson(LABELS[:2], {"dog": real(5)}, donors, RECIPE), session).doubted == {}


def test_mixed_images_have_their_labels_in_the_shares_of_their_pixels(session: Session) -> None:
    pool = only_pool(Lesson(LABELS, {}, three_means(), changed(mixup=True, synthesis=EXACT)), session)
    assert len(pool.images) == 48
    assert (brightness(pool.images) - pool.targets @ torch.tensor([-0.5, 0.0, 0.5])).abs().max() < 0.1
    assert ((pool.targets > 0).sum(1) == 2).sum() > 8
    assert float(pool.weights.sum()) == pytest.approx(1)


def test_noised_copies_keep_their_label_and_stand_beside_the_clean_ones(session: Session) -> None:
    pool = only_pool(Lesson(LABELS, {}, three_means(), changed(noise_milli=800, synthesis=EXACT)), session)
    spread = (pool.images.float() / 127.5).flatten(1).std(1)
    assert (spread[:24] < 0.15).all()
    assert 0.25 < float(spread[24:].mean()) < 0.5
    assert torch.equal(pool.targets[:24], pool.targets[24:])


def test_a_teacher_labels_noised_and_mixed_images_as_well(session: Session) -> None:
    recipe = changed(targets="teacher", noise_milli=800, mixup=True, synthesis=EXACT)
    pool = only_pool(Lesson(LABELS, {}, three_means(), recipe), session)
    nearest = (brightness(pool.images)[:, None] - torch.tensor([-0.5, 0.0, 0.5])).abs()
    sure = nearest.sort(1).values.diff(dim=1)[:, 0] > 0.3
    assert (pool.targets.argmax(1) == nearest.argmin(1))[sure].all()
    assert sure[48:].any()
    assert not (pool.targets == 1).any(1).all()


def test_real_images_are_taught_only_if_asked_and_only_where_a_generator_knows_their_label(session: Session) -> None:
    own = {"cat": real(5), "fox": real(4)}
    known = {label: three_means()[label] for label in LABELS[:2]}
    soft = only_pool(Lesson(LABELS, own, known, changed(teach_real=True)), session).targets
    hard = only_pool(Lesson(LABELS, own, known, RECIPE), session).targets
    assert (hard[16:] == 1).any(1).all()
    assert not torch.equal(soft[16:21], hard[16:21])
    assert torch.equal(soft[21:], hard[21:])


def test_equal_lessons_give_equal_bits_and_each_pool_is_mixed_afresh(session: Session) -> None:
    synthesis = SYNTHESIS.model_copy(update={"pools": 2})
    recipe = changed(mix="projected", targets="teacher", noise_milli=500, mixup=True, synthesis=synthesis)
    lesson = Lesson(LABELS, {"dog": real(5)}, three_means(), recipe)
    once, again = (list(pools(lesson, session, lambda phase, done, total: None)) for _ in range(2))
    assert all(
        torch.equal(a.images, b.images) and torch.equal(a.targets, b.targets) for a, b in zip(once, again, strict=True)
    )
    assert not torch.equal(once[0].images[-5:], once[1].images[-5:])  # the projected ones
    assert not torch.equal(once[0].images[:64], once[1].images[:64])


def test_labels_weigh_alike_and_so_do_real_and_synthetic_images(
    session: Session, donors: dict[str, list[Donor]]
) -> None:
    pool = only_pool(Lesson(LABELS, {"dog": real(5)}, donors, changed(mix="mixed")), session)
    assert pool.targets.sum(0).tolist() == [8, 13, 8]
    weight_of_label = pool.weights @ pool.targets.double()
    assert weight_of_label.tolist() == pytest.approx([1 / 3] * 3)
    is_real = (pool.images[:, None] == real(5)[None]).flatten(2).all(2).any(1)
    assert float(pool.weights[is_real].sum()) == pytest.approx(1 / 6)


def test_without_own_images_an_expert_learns_from_synthetic_ones_alone(
    session: Session, donors: dict[str, list[Donor]]
) -> None:
    pool = only_pool(Lesson(LABELS, {}, donors, RECIPE), session)
    assert len(pool.images) == 24


def test_a_node_without_images_trains_an_expert_that_knows_real_ones(session: Session) -> None:
    recipe = changed(synthesis=EXACT.model_copy(update={"pools": 2}), steps=30, batch=16)
    architecture = ExpertArchitecture(name="resnet10t", image=TINY.image, width=8, outputs=3)
    made = pools(Lesson(LABELS, {}, three_means(), recipe), session, lambda phase, done, total: None)
    tensors = expert.fit(made, architecture, recipe, 1, lambda done, total: None, session.device)
    network = expert.build(architecture)
    network.load_state_dict({name: tensor.float() for name, tensor in tensors.items()}, strict=False)
    shades = torch.tensor([60, 70, 125, 131, 185, 195], dtype=torch.uint8)
    answers = expert.logits(network.eval(), shades.view(6, 1, 1, 1).expand(6, 1, 4, 4), session.device)
    assert answers.argmax(1).tolist() == [0, 0, 1, 1, 2, 2]


def test_a_label_with_neither_images_nor_donor_is_an_error(session: Session, donors: dict[str, list[Donor]]) -> None:
    with pytest.raises(DataError, match="'fox' has neither"):
        only_pool(Lesson(LABELS, {}, {label: donors[label] for label in LABELS[:2]}, RECIPE), session)


def test_a_teacher_gives_soft_labels_to_synthetic_images_and_none_to_real_ones(
    session: Session, donors: dict[str, list[Donor]]
) -> None:
    lesson = Lesson(LABELS, {"dog": real(5)}, donors, changed(targets="teacher", mix="paper"))
    pool = only_pool(lesson, session)
    hard = (pool.targets == 1).any(1)
    assert hard.tolist() == [False] * 16 + [True] * 5
    assert torch.allclose(pool.targets.sum(1), torch.ones(21), atol=1e-5)


def test_a_teacher_without_a_term_for_an_own_label_gives_it_no_probability(
    session: Session, donors: dict[str, list[Donor]]
) -> None:
    lesson = Lesson(
        LABELS, {"fox": real(5)}, {label: donors[label] for label in LABELS[:2]}, changed(targets="teacher")
    )
    pool = only_pool(lesson, session)
    assert (pool.targets[:16, 2] == 0).all()
    assert (pool.targets[16:, 2] == 1).all()


def test_each_pool_is_drawn_afresh(session: Session, donors: dict[str, list[Donor]]) -> None:
    recipe = changed(synthesis=SYNTHESIS.model_copy(update={"pools": 2}))
    first, second = pools(Lesson(LABELS, {}, donors, recipe), session, lambda phase, done, total: None)
    assert not (first.images == second.images).all()


def test_a_cache_changes_no_bit(session: Session, donors: dict[str, list[Donor]], tmp_path: Path) -> None:
    kept = {
        label: [Donor(d.digest, d.label, d.count, d.denoiser, tmp_path / label) for d in found]
        for label, found in donors.items()
    }
    fresh = only_pool(Lesson(LABELS, {}, donors, RECIPE), session).images
    for _ in range(2):
        assert (only_pool(Lesson(LABELS, {}, kept, RECIPE), session).images == fresh).all()
