"""The laws behind the audit's verdicts, against counting all cases, closed forms and published values."""

import math
from itertools import combinations

import pytest

from fednode.learning.audit import chance


def by_enumeration(nearer: int, samples: int, fresh: int, rank: int) -> float:
    """The share of all orders in which at least `nearer` samples come before the rank-th fresh one."""
    orders = list(combinations(range(samples + fresh), fresh))
    return sum(places[rank - 1] - (rank - 1) >= nearer for places in orders) / len(orders)


@pytest.mark.parametrize("rank", [1, 2, 3])
@pytest.mark.parametrize("nearer", range(6))
def test_the_chance_of_ranks_is_that_of_counting_all_orders(nearer: int, rank: int) -> None:
    assert float(chance.ranks(nearer, 5, 4, rank)) == pytest.approx(by_enumeration(nearer, 5, 4, rank))


def test_the_fewer_the_held_out_images_the_more_must_be_near_before_it_fails() -> None:
    def needed(fresh: int) -> int:
        return next(count for count in range(257) if chance.ranks(count, 256, fresh, 1) < 0.001)

    assert needed(100) < needed(30) < needed(10)
    assert math.isclose(needed(17) / 256, 1 - 0.001 ** (1 / 17), abs_tol=0.03)


@pytest.mark.parametrize("seen", range(9))
def test_the_chance_of_a_split_is_that_of_taking_every_set_of_images(seen: int) -> None:
    visits = [4, 2, 1, 1, 0, 0, 0]
    sums = [sum(taken) for taken in combinations(visits, 3)]
    expected = sum(total <= seen for total in sums) / len(sums)
    assert float(chance.split([4, 2, 1, 1], len(visits), 3, seen)) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("hits", "trials", "low", "high"),
    [(5, 10, 0.1871, 0.8129), (0, 17, 0.0, 1 - 0.025 ** (1 / 17)), (60, 60, 0.025 ** (1 / 60), 1.0), (0, 0, 0.0, 1.0)],
)
def test_the_interval_of_a_share_is_exact(hits: int, trials: int, low: float, high: float) -> None:
    assert chance.proportion(hits, trials) == pytest.approx((low, high), abs=1e-4)


@pytest.mark.parametrize(("members", "others"), [(118, 17), (8, 2), (1, 1)])
def test_the_deviation_of_an_area_of_one_half_is_that_of_the_rank_test(members: int, others: int) -> None:
    expected = math.sqrt((members + others + 1) / (12 * members * others))
    assert chance.auc_deviation(0.5, members, others) == pytest.approx(expected)


def test_the_bound_of_an_area_is_the_true_area_that_just_explains_it() -> None:
    bound = chance.auc_bound(0.9, 40, 30, 0.025)
    assert 0.9 - bound == pytest.approx(1.959964 * chance.auc_deviation(bound, 40, 30), abs=1e-6)
    assert chance.auc_interval(0.9, 40, 30)[0] == pytest.approx(bound)


def test_an_area_of_one_from_a_handful_of_images_proves_little_and_from_many_much() -> None:
    assert chance.auc_bound(1.0, 18, 2, 0.001) < 0.5
    assert chance.auc_bound(1.0, 16, 17, 0.001) > 0.7
    assert chance.auc_bound(1.0, 1000, 125, 0.001) > 0.94


def test_an_interval_mirrors_with_its_area() -> None:
    low, high = chance.auc_interval(0.3, 25, 9)
    assert chance.auc_interval(0.7, 9, 25) == pytest.approx((1 - high, 1 - low))
    assert low < 0.3 < high
