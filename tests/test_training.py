"""What an expert is trained on: who draws what, equal weights for labels, and whose labels synthetic images carry."""

from pathlib import Path

import pytest
import torch
from torch import Tensor

from fednode.contract import ImageShape
from fednode.errors import DataError
from fednode.learning.augment import augment
from fednode.learning.denoiser import Denoiser
from fednode.learning.expert import Pool
from fednode.learning.session import Session, open_session
from fednode.learning.synthesis import Donor
from fednode.learning.training import Lesson, pools
from fednode.recipe import ExpertRecipe, GeneratorArchitecture, SamplerRecipe, SynthesisRecipe, TeacherRecipe

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


def test_the_paper_draws_only_what_is_missing_and_mixed_draws_own_labels_too(donors: dict[str, list[Donor]]) -> None:
    own = {"dog": real(5)}
    assert Lesson(LABELS, own, donors, changed(mix="paper")).drawn == ["cat", "fox"]
    assert Lesson(LABELS, own, donors, changed(mix="mixed")).drawn == ["cat", "dog", "fox"]
    assert Lesson(LABELS, own, donors, changed(mix="paper")).counts == {"real": 5, "synthetic": 16}


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


def test_a_label_with_neither_images_nor_donor_is_an_error(session: Session, donors: dict[str, list[Donor]]) -> None:
    with pytest.raises(DataError, match="'fox' has neither"):
        only_pool(Lesson(LABELS, {}, {label: donors[label] for label in LABELS[:2]}, RECIPE), session)


def test_a_teacher_gives_soft_labels_to_synthetic_images_and_none_to_real_ones(
    session: Session, donors: dict[str, list[Donor]]
) -> None:
    lesson = Lesson(LABELS, {"dog": real(5)}, donors, changed(targets="teacher", mix="paper"))
    pool = only_pool(lesson, session)
    hard = (pool.targets == 1).any(1)
    assert hard.tolist() == [False] * 8 + [True] * 5 + [False] * 8
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


def test_moved_images_keep_their_pixels_and_each_moves_by_its_own_offset() -> None:
    spot = torch.zeros((200, 1, 5, 5), dtype=torch.uint8)
    spot[:, :, 2, 2] = 255
    with torch.random.fork_rng():
        torch.manual_seed(0)
        moved = augment(spot, 1, False)
    assert (moved.flatten(1).sum(1) == 255).all()
    places = {tuple(place) for place in moved[:, 0].nonzero()[:, 1:].tolist()}
    assert places == {(row, column) for row in (1, 2, 3) for column in (1, 2, 3)}


def test_the_eight_symmetries_of_the_square_all_occur_and_no_other_images() -> None:
    image = torch.arange(9, dtype=torch.uint8).reshape(1, 1, 3, 3)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        turned = augment(image.repeat(200, 1, 1, 1), 0, True)
    found = {tuple(one.flatten().tolist()) for one in turned}
    expected = {
        tuple(one.flatten().tolist())
        for turns in range(4)
        for one in (image.rot90(turns, (2, 3)), image.rot90(turns, (2, 3)).transpose(2, 3))
    }
    assert found == expected
    assert len(found) == 8


def test_without_augmentation_images_are_as_they_are() -> None:
    assert (augment(real(4), 0, False) == real(4)).all()
