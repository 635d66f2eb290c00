"""Successive halving: fewer labels are asked at each round, and those that were dropped stay behind those that were not."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from fednode.learning.halving import Round, race, rounds_of

TEN = tuple(range(10))


def test_ten_labels_become_five_three_and_two_and_the_last_two_meet_at_all_levels() -> None:
    expected = [Round((0,), 5), Round((1,), 3), Round((2,), 2), Round((3, 4, 5, 6, 7, 8, 9), 2)]
    assert rounds_of(TEN, 10, 50) == expected


@pytest.mark.parametrize("labels", [1, 2])
def test_up_to_two_labels_meet_at_all_levels_at_once(labels: int) -> None:
    assert rounds_of(TEN, labels, 50) == [Round(TEN, labels)]


def test_keeping_all_asks_every_label_at_every_level_at_once() -> None:
    assert rounds_of(TEN, 100, 100) == [Round(TEN, 100)]


@pytest.mark.parametrize(
    ("labels", "percent", "expected"), [(10, 70, [10, 7, 5, 4, 3]), (100, 50, [100, 50, 25, 13, 7])]
)
def test_fewer_labels_are_asked_at_each_of_the_first_levels(labels: int, percent: int, expected: list[int]) -> None:
    rounds = rounds_of(TEN, labels, percent)
    assert [labels, *(one.keep for one in rounds)][:5] == expected


@given(st.integers(1, 40), st.integers(1, 12), st.integers(1, 100))
def test_each_level_is_asked_once_and_at_least_two_stay(labels: int, levels: int, percent: int) -> None:
    rounds = rounds_of(tuple(range(levels)), labels, percent)
    assert [level for one in rounds for level in one.levels] == list(range(levels))
    kept = [labels, *(one.keep for one in rounds)]
    assert kept == sorted(kept, reverse=True)
    assert kept[-1] >= min(labels, 2)


def asked_from(table: Tensor) -> tuple[list[Tensor], object]:
    """Answers from a table (N, K, L) of what each level adds, and the labels that were asked in each round."""
    sums = torch.zeros(table.shape[:2], dtype=torch.float64)
    asked = []

    def ask(alive: Tensor, levels: tuple[int, ...]) -> Tensor:
        asked.append(alive.clone())
        sums.add_(torch.where(alive, table[:, :, list(levels)].sum(2), 0.0))
        return sums.clone()

    return asked, ask


def test_a_dropped_label_falls_behind_at_the_rate_at_which_it_did() -> None:
    # Label 3 is 6 behind after one of four levels; label 1 is 2 + 1 behind after two of them.
    table = torch.tensor([[[-1.0, -1, -1, -1], [-3.0, -2, 9, 9], [-2.0, -1, -1, -2], [-7.0, 9, 9, 9]]]).double()
    asked, ask = asked_from(table)
    found = race(1, 4, [Round((0,), 3), Round((1,), 2), Round((2, 3), 2)], ask)
    assert [one.sum().item() for one in asked] == [4, 3, 2]
    assert found.tolist() == [[-4.0, -4.0 - 3 * 2, -6.0, -4.0 - 6 * 4]]


def test_a_dropped_label_never_passes_one_that_stayed() -> None:
    # Label 2 is a little behind at the first level, and label 1 far behind at the second.
    table = torch.tensor([[[0.0, 0.0], [-1.0, -50.0], [-2.0, 0.0]]]).double()
    found = race(1, 3, [Round((0,), 2), Round((1,), 2)], asked_from(table)[1])
    assert found.tolist() == [[0.0, -51.0, -51.0]]


@settings(max_examples=50)
@given(st.integers(0, 10**6), st.integers(1, 12), st.integers(1, 8), st.integers(1, 100))
def test_those_who_stay_have_their_full_sums_and_the_best_of_them_wins(
    seed: int, k: int, depth: int, keep: int
) -> None:
    table = torch.randn((3, k, depth), generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    asked, ask = asked_from(table)
    found = race(3, k, rounds_of(tuple(range(depth)), k, keep), ask)
    stayed = asked[-1]
    assert torch.allclose(found[stayed], table.sum(2)[stayed])
    for image in range(3):
        others = found[image][~stayed[image]]
        assert (others <= found[image][stayed[image]].min()).all()
        assert stayed[image, found[image].argmax()]


def test_ties_go_to_the_earlier_label() -> None:
    asked, ask = asked_from(torch.zeros((1, 4, 2), dtype=torch.float64))
    race(1, 4, [Round((0,), 2), Round((1,), 2)], ask)
    assert asked[-1].tolist() == [[True, True, False, False]]
