"""Discriminants from sums: known Gaussians, any partition, and exact unlearning by subtraction."""

import pytest
import torch
from mitr.lda import Statistics, head, statistics
from torch import Tensor


def drawn(seed: int, count: int) -> tuple[Tensor, Tensor]:
    """Three labels around known means, with the covariance [[2, 0.5], [0.5, 1]] within each."""
    chance = torch.Generator().manual_seed(seed)
    root = torch.linalg.cholesky(torch.tensor([[2.0, 0.5], [0.5, 1.0]]))
    means = torch.tensor([[0.0, 0.0], [3.0, 0.0], [0.0, 4.0]])
    targets = torch.multinomial(torch.tensor([0.5, 0.3, 0.2]), count, replacement=True, generator=chance)
    return means[targets] + torch.randn(count, 2, generator=chance) @ root.T, targets


def same(one: Statistics, other: Statistics) -> bool:
    return all(torch.equal(getattr(one, name), getattr(other, name)) for name in ("counts", "sums", "squares"))


def test_the_head_is_the_one_of_the_gaussians_that_images_came_from() -> None:
    weights, biases = head(statistics(*drawn(0, 200_000), 3), 0.0)
    inverse = torch.linalg.inv(torch.tensor([[2.0, 0.5], [0.5, 1.0]])).double()
    means = torch.tensor([[0.0, 0.0], [3.0, 0.0], [0.0, 4.0]]).double()
    torch.testing.assert_close(weights, means @ inverse, atol=0.04, rtol=0)
    expected = torch.log(torch.tensor([0.5, 0.3, 0.2])) - ((means @ inverse) * means).sum(1) / 2
    torch.testing.assert_close(biases, expected, atol=0.08, rtol=0)


def test_sums_of_nodes_are_the_sums_of_all_images_whatever_the_partition() -> None:
    features, targets = drawn(1, 500)
    whole = statistics(features, targets, 3)
    for owners in (torch.arange(500) % 4, targets.clone()):
        parts = [statistics(features[owners == node], targets[owners == node], 3) for node in owners.unique()]
        together = parts[0]
        for part in parts[1:]:
            together = together + part
        assert same(together, whole)


def test_a_node_that_is_taken_away_leaves_the_bits_of_sums_and_head_without_it() -> None:
    stay, leave = statistics(*drawn(2, 300), 3), statistics(*drawn(3, 77), 3)
    after = (stay + leave) - leave
    assert same(after, stay)
    for one, other in zip(head(after, 0.1), head(stay, 0.1), strict=True):
        assert torch.equal(one, other)


def test_full_shrinkage_leaves_the_nearest_mean() -> None:
    """S = s I, so the answers of equally frequent labels are by distance to their means."""
    features = torch.tensor([[0.0, 0.0], [2.0, 0.0], [10.0, 1.0], [12.0, 1.0]])
    weights, biases = head(statistics(features, torch.tensor([0, 0, 1, 1]), 2), 1.0)
    for point, label in (([5.0, 0.0], 0), ([7.0, 0.0], 1)):
        assert int((weights @ torch.tensor(point).double() + biases).argmax()) == label


def test_a_label_without_images_is_never_answered() -> None:
    features, targets = drawn(4, 50)
    _, biases = head(statistics(features, targets, 5), 0.1)
    assert biases[3:].tolist() == [-float("inf")] * 2


def test_what_nodes_send_is_counted() -> None:
    assert statistics(*drawn(5, 10), 3).bytes == 8 * (3 + 6 + 3)
    assert statistics(torch.zeros(1, 192), torch.tensor([0]), 10).bytes == pytest.approx(164_000, rel=0.01)
