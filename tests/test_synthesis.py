"""Drawing what is missing: shares of donors, samples that know where they come from, and a cache that changes no bit."""

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from fednode.architecture import GeneratorArchitecture
from fednode.contract import ImageShape
from fednode.learning.denoiser import Denoiser
from fednode.learning.synthesis import Donor, draw_label, samples, shares
from fednode.recipe import SamplerRecipe, SynthesisRecipe

TINY = GeneratorArchitecture(image=ImageShape(size=4, channels=1), channels=(8,), blocks=1)
SAMPLER = SamplerRecipe(steps=2, batch=4)
NUMERICS = {"device": "cpu", "threads": 1, "torch": "x"}

torch.set_num_threads(1)


def donor(name: str, count: int = 10, derived: Path | None = None) -> Donor:
    with torch.random.fork_rng():
        torch.manual_seed(ord(name))
        denoiser = Denoiser(TINY)
        torch.nn.init.constant_(denoiser.leave_gain, 1.0)
    return Donor(name * 64, "cat", count, denoiser.freeze(), derived)


def recipe(amount: int, cap: int = 75) -> SynthesisRecipe:
    return SynthesisRecipe(sampler=SAMPLER, samples_per_label=amount, donor_cap_percent=cap)


@pytest.mark.parametrize(
    ("counts", "total", "cap", "expected"),
    [
        ([5], 100, 50, [100]),
        ([10, 10], 100, 75, [50, 50]),
        ([30, 10], 100, 90, [75, 25]),
        ([99, 1], 100, 75, [75, 25]),
        ([98, 1, 1], 100, 60, [60, 20, 20]),
        ([60, 38, 2], 100, 40, [40, 40, 20]),
        ([1, 1], 100, 10, [50, 50]),
        ([1, 1, 1], 100, 75, [34, 33, 33]),
        ([1, 1, 1], 2, 75, [1, 1, 0]),
        ([0, 0], 10, 75, [5, 5]),
    ],
)
def test_donors_share_by_their_counts_under_the_cap(
    counts: list[int], total: int, cap: int, expected: list[int]
) -> None:
    assert shares(counts, total, cap) == expected


def test_shares_always_add_up() -> None:
    generator = torch.Generator().manual_seed(0)
    for total in range(1, 60):
        counts = torch.randint(1, 1000, (1 + total % 7,), generator=generator).tolist()
        found = shares(counts, total, 40)
        assert sum(found) == total
        assert min(found) >= 0


def test_each_sample_knows_its_donor_and_its_index() -> None:
    drawn = draw_label([donor("b", 30), donor("a", 10)], 0, recipe(8), NUMERICS)
    assert drawn.origins == [("a" * 64, 0), ("a" * 64, 1), *(("b" * 64, index) for index in range(6))]
    assert (drawn.images[:2] == samples(donor("a"), range(2), SAMPLER, NUMERICS)).all()
    assert (drawn.images[2:] == samples(donor("b"), range(6), SAMPLER, NUMERICS)).all()


def test_the_order_in_which_donors_came_changes_nothing() -> None:
    donors = [donor("c", 30), donor("a", 10), donor("b", 20)]
    forward = draw_label(donors, 0, recipe(9), NUMERICS)
    backward = draw_label(donors[::-1], 0, recipe(9), NUMERICS)
    assert forward.origins == backward.origins
    assert (forward.images == backward.images).all()


def test_donors_with_equal_weights_are_one_donor_and_never_give_a_sample_twice() -> None:
    drawn = draw_label([donor("a", 10), donor("a", 20)], 0, recipe(6), NUMERICS)
    assert len(set(drawn.origins)) == 6


def test_a_second_pool_goes_on_where_the_first_ended() -> None:
    first, second = (draw_label([donor("a")], pool, recipe(5), NUMERICS) for pool in (0, 1))
    assert [index for _, index in first.origins + second.origins] == list(range(10))
    together = samples(donor("a"), range(10), SAMPLER, NUMERICS)
    assert (torch.cat([first.images, second.images]) == together).all()


def test_other_generators_draw_other_samples() -> None:
    first, second = (samples(donor(name), range(4), SAMPLER, NUMERICS) for name in "ab")
    assert not (first == second).all()


def test_samples_are_kept_beside_the_generator_and_equal_those_drawn_afresh(tmp_path: Path) -> None:
    fresh = samples(donor("a"), range(6), SAMPLER, NUMERICS)
    drawn = samples(donor("a", derived=tmp_path / "a"), range(6), SAMPLER, NUMERICS)
    kept = samples(donor("a", derived=tmp_path / "a"), range(6), SAMPLER, NUMERICS)
    assert len(list((tmp_path / "a").iterdir())) == 1
    assert (fresh == drawn).all()
    assert (fresh == kept).all()


def test_kept_samples_are_read_and_not_drawn_again(tmp_path: Path) -> None:
    samples(donor("a", derived=tmp_path), range(6), SAMPLER, NUMERICS)
    (file,) = tmp_path.iterdir()
    marked = load_file(file)["images"] * 0 + 77
    save_file({"images": marked}, file)
    assert (samples(donor("a", derived=tmp_path), range(6), SAMPLER, NUMERICS) == 77).all()


@pytest.mark.parametrize("damage", [b"", b"half", b"\x08\0\0\0\0\0\0\0{}      "])
def test_a_damaged_cache_is_drawn_again(tmp_path: Path, damage: bytes) -> None:
    fresh = samples(donor("a", derived=tmp_path), range(6), SAMPLER, NUMERICS)
    (file,) = tmp_path.iterdir()
    file.write_bytes(damage)
    assert (samples(donor("a", derived=tmp_path), range(6), SAMPLER, NUMERICS) == fresh).all()
    assert file.stat().st_size > len(damage)


def test_other_numerics_ranges_and_samplers_are_kept_apart(tmp_path: Path) -> None:
    source = donor("a", derived=tmp_path)
    samples(source, range(6), SAMPLER, NUMERICS)
    samples(source, range(6), SAMPLER, {**NUMERICS, "threads": 2})
    samples(source, range(5), SAMPLER, NUMERICS)
    samples(source, range(6), SamplerRecipe(steps=3, batch=4), NUMERICS)
    assert len(list(tmp_path.iterdir())) == 4
