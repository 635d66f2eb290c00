"""Fidelity against closed forms: Gaussians for the Fréchet distance, sums over all pairs for the kernel distance."""

import pytest
import torch

from fednode.learning.audit.fidelity import coverage, fid, fidelity, kid

POINTS = torch.randn(40, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


def test_a_shift_costs_its_square_and_nothing_else() -> None:
    assert fid(POINTS, POINTS) == pytest.approx(0, abs=1e-9)
    assert fid(POINTS, POINTS + torch.tensor([1.0, 2.0, 0.0])) == pytest.approx(5.0)


def test_a_stretch_costs_the_square_of_the_deviations_difference() -> None:
    spread = torch.diag(torch.cov(POINTS.T)).sum()
    assert fid(POINTS, POINTS * 3) == pytest.approx(float(4 * spread + (2 * POINTS.mean(0)).square().sum()))


def test_the_frechet_distance_is_that_of_the_matrix_formula_also_with_fewer_points_than_dimensions() -> None:
    one, two = torch.randn(2, 6, 9, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    covariances = [torch.cov(part.T) for part in (one, two)]
    root = torch.linalg.eigvals(covariances[0] @ covariances[1]).real.clamp_min(0).sqrt().sum()
    expected = (one.mean(0) - two.mean(0)).square().sum() + sum(c.trace() for c in covariances) - 2 * root
    assert fid(one, two) == pytest.approx(float(expected), abs=1e-6)


def test_the_kernel_distance_of_whole_sets_is_the_unbiased_mmd() -> None:
    other = POINTS * 0.5 + 1

    def kernel(a: torch.Tensor, b: torch.Tensor) -> float:
        return float((a @ b / 3 + 1) ** 3)

    pairs = [(i, j) for i in range(40) for j in range(40) if i != j]
    within = sum(kernel(x[i], x[j]) for x in (POINTS, other) for i, j in pairs) / len(pairs)
    between = sum(kernel(a, b) for a in POINTS for b in other) / 1600
    mean, deviation = kid(POINTS, other, seed=3)
    assert mean == pytest.approx(within - 2 * between)
    assert deviation == pytest.approx(0, abs=1e-9)


def test_a_point_is_covered_within_the_distance_of_a_known_point_to_its_neighbour() -> None:
    known = torch.tensor([[0.0], [1.0], [10.0]])
    assert coverage(known, torch.tensor([[-0.9], [-1.1], [2.0], [18.9], [19.1]]), 1).tolist() == [
        True,
        False,
        True,
        True,
        False,
    ]


def test_samples_far_away_have_no_precision_and_those_in_one_spot_no_recall() -> None:
    far, spot = fidelity(POINTS, POINTS + 100, 3, 0), fidelity(POINTS, POINTS[:1] + POINTS[:5] * 1e-3, 3, 0)
    assert far["precision"] == {"share": "0.0000", "interval": ["0.0000", "0.0881"]}
    assert spot["precision"]["share"] == "1.0000"  # type: ignore[index, call-overload]
    assert float(spot["recall"]["share"]) < 0.1  # type: ignore[index, call-overload, arg-type]
