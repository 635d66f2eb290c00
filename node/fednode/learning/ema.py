"""Power-function EMA of weights (Karras et al., "Analyzing and improving the training dynamics of diffusion models", 2312.02696).

The average over a fit of t steps weighs step s by s^gamma, so its width is a fixed share of the fit, whatever its length. From
stored averages of a few widths, that of any other follows afterwards, without the steps in between (section 3.2).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor


def gamma_of(width: float) -> float:
    """The exponent gamma of relative width `width` (0 < width < 0.29): the profile's standard deviation over the fit's length.

    2312.02696, appendix C: width^2 = (g+1) / ((g+2)^2 (g+3)), so g is the largest real root of
    g^3 + 7 g^2 + (16 - width^-2) g + (12 - width^-2).
    """
    inverse = width**-2
    roots = np.roots([1.0, 7.0, 16.0 - inverse, 12.0 - inverse])
    return float(max(root.real for root in roots if abs(root.imag) < 1e-9))


class PowerEma:
    """A running power-function average of some tensors; `step` counts the updates, from 1."""

    def __init__(self, tensors: Sequence[Tensor], width: float) -> None:
        self.gamma = gamma_of(width)
        self.step = 0
        self.averages = [tensor.detach().clone() for tensor in tensors]

    @torch.no_grad()
    def update(self, tensors: Sequence[Tensor]) -> None:
        """Takes in the tensors after one more step: average <- beta average + (1 - beta) tensor, beta = (1 - 1/t)^(gamma+1)."""
        self.step += 1
        beta = (1.0 - 1.0 / self.step) ** (self.gamma + 1.0)
        torch._foreach_lerp_(self.averages, list(tensors), 1.0 - beta)


@dataclass(frozen=True)
class Profile:
    """How an average weighs the steps of a fit: (gamma + 1) s^gamma / time^(gamma + 1) for s in (0, time]."""

    time: float
    gamma: float


def inner_product(a: Profile, b: Profile) -> float:
    """The integral of the product of two profiles (2312.02696, appendix C, algorithm 3)."""
    exponent = b.gamma if a.time < b.time else -a.gamma
    scale = (a.gamma + 1.0) * (b.gamma + 1.0) / ((a.gamma + b.gamma + 1.0) * max(a.time, b.time))
    return scale * math.pow(a.time / b.time, exponent)


def coefficients(stored: Sequence[Profile], wanted: Profile) -> list[float]:
    """The shares, 1 in all, of the stored profiles whose sum is nearest to the wanted one in the least-squares sense.

    From A x = b with A_ij = <p_i, p_j> and b_i = <p_i, p_wanted> (algorithm 3), and a Lagrange multiplier for the sum.
    """
    stored = [Profile(one.time / wanted.time, one.gamma) for one in stored]
    wanted = Profile(1.0, wanted.gamma)
    system, right = np.ones((len(stored) + 1, len(stored) + 1)), np.ones(len(stored) + 1)
    system[:-1, :-1] = [[inner_product(a, b) for b in stored] for a in stored]
    system[-1, -1] = 0.0
    right[:-1] = [inner_product(one, wanted) for one in stored]
    return [float(share) for share in np.linalg.solve(system, right)[:-1]]


def combine(stored: Sequence[Sequence[Tensor]], shares: Sequence[float]) -> list[Tensor]:
    """The sums, in float32, of each tensor of the stored averages with these shares."""
    return [
        torch.stack([share * tensor.float() for share, tensor in zip(shares, tensors, strict=True)]).sum(0)
        for tensors in zip(*stored, strict=True)
    ]
