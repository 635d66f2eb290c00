"""Partitions: every image goes to one node, no node is empty, and the seed decides."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from partitions import dirichlet_shares, partition

from fednode.errors import DataError


def even(labels: int, images: int) -> np.ndarray:
    return np.repeat(np.arange(labels), images)


def labels_of(parts: list[np.ndarray], targets: np.ndarray) -> list[set[int]]:
    return [set(targets[part].tolist()) for part in parts]


def test_in_silos_each_node_has_all_images_of_one_label() -> None:
    targets = np.array([2, 0, 1, 0, 2, 2])
    parts = partition("silos", targets, 3, None, 0)
    assert [part.tolist() for part in parts] == [[1, 3], [2], [0, 4, 5]]


def test_silos_beyond_the_labels_share_labels() -> None:
    targets = even(3, 10)
    parts = partition("silos", targets, 3, 5, 0)
    assert labels_of(parts, targets) == [{0}, {1}, {2}, {0}, {1}]
    assert [len(part) for part in parts] == [5, 5, 10, 5, 5]


@given(
    labels=st.integers(2, 8),
    images=st.integers(1, 40),
    nodes=st.integers(2, 12),
    exponent=st.floats(-6, 6),
    seed=st.integers(0, 2**32),
)
@settings(max_examples=60, deadline=None)
def test_dirichlet_gives_every_image_to_one_node_and_leaves_none_empty(
    labels: int, images: int, nodes: int, exponent: float, seed: int
) -> None:
    targets = even(labels, images)
    if len(targets) < nodes:
        return
    name = f"dirichlet:{10**exponent}"
    parts = partition(name, targets, labels, nodes, seed)
    assert len(parts) == nodes
    assert np.array_equal(np.sort(np.concatenate(parts)), np.arange(len(targets)))
    assert min(len(part) for part in parts) >= max(1, min(20, len(targets) // (2 * nodes)))
    again = partition(name, targets, labels, nodes, seed)
    assert all(np.array_equal(one, other) for one, other in zip(parts, again, strict=True))


@given(labels=st.integers(2, 9), nodes=st.integers(2, 12), count=st.integers(1, 9), seed=st.integers(0, 2**32))
@settings(max_examples=60, deadline=None)
def test_shards_give_every_node_its_number_of_labels_and_cover_all(
    labels: int, nodes: int, count: int, seed: int
) -> None:
    if count > labels or nodes * count < labels:
        return
    targets = even(labels, 30)
    parts = partition(f"shards:{count}", targets, labels, nodes, seed)
    assert np.array_equal(np.sort(np.concatenate(parts)), np.arange(len(targets)))
    assert [len(held) for held in labels_of(parts, targets)] == [count] * nodes
    holders = [sum(label in held for held in labels_of(parts, targets)) for label in range(labels)]
    assert max(holders) - min(holders) <= 1


@pytest.mark.parametrize("name", ["dirichlet:0.1", "shards:2"])
def test_another_seed_is_another_partition(name: str) -> None:
    targets = even(5, 40)
    one, other = (partition(name, targets, 5, 5, seed) for seed in (0, 1))
    assert any(not np.array_equal(a, b) for a, b in zip(one, other, strict=True))


@given(exponent=st.floats(-6, 6), nodes=st.integers(1, 20), seed=st.integers(0, 2**32))
@settings(max_examples=60, deadline=None)
def test_dirichlet_shares_are_never_nan(exponent: float, nodes: int, seed: int) -> None:
    shares = dirichlet_shares(10**exponent, nodes, np.random.default_rng(seed))
    assert np.all(shares >= 0)
    assert abs(shares.sum() - 1) < 1e-9


def test_dirichlet_shares_have_the_moments_of_their_distribution() -> None:
    """Of Dirichlet(a, ..., a) over n: mean 1/n, variance (1/n)(1 - 1/n) / (n a + 1)."""
    rng = np.random.default_rng(0)
    for alpha in (0.1, 1.0, 5.0):
        drawn = np.array([dirichlet_shares(alpha, 4, rng)[0] for _ in range(4_000)])
        assert abs(drawn.mean() - 0.25) < 0.02
        assert abs(drawn.var() / (0.25 * 0.75 / (4 * alpha + 1)) - 1) < 0.12


@pytest.mark.parametrize(
    ("name", "nodes", "said"),
    [
        ("circles", None, "not a partition"),
        ("silos:3", None, "not a partition"),
        ("silos", 2, "can't hold 3 labels"),
        ("shards:1", 2, "can't hold 3 labels"),
        ("shards:4", None, "not a number of labels"),
        ("shards:x", None, "not a number of labels"),
        ("dirichlet:", None, "not an alpha"),
        ("dirichlet:nan", None, "not an alpha"),
        ("dirichlet:0", None, "not an alpha"),
        ("dirichlet:0.1", 1, "no federation"),
        ("dirichlet:0.1", 31, "can't be shared out"),
    ],
)
def test_what_cannot_be_done_is_refused_with_a_reason(name: str, nodes: int | None, said: str) -> None:
    with pytest.raises(DataError, match=said):
        partition(name, even(3, 10), 3, nodes, 0)


def test_a_label_with_fewer_images_than_nodes_that_hold_it_is_refused() -> None:
    with pytest.raises(DataError, match="1 images of a label can't be shared by 2 nodes"):
        partition("silos", np.array([0, 1, 1, 1, 1]), 2, 4, 0)
