"""Power-function EMA of weights (Karras et al., "Analyzing and improving the training dynamics of diffusion models", 2312.02696).

The average over a fit of t steps weighs step s by s^gamma, so its width is a fixed share of the fit, whatever its length.
"""

from collections.abc import Sequence

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
