"""The product of experts: the experts' answers multiplied (Hinton 2002; FederatedFactory, 2603.16370)."""

from collections.abc import Sequence

import torch
from torch import Tensor

FLOOR = 1e-12


def product_of_experts(logits: Sequence[Tensor]) -> Tensor:
    """Probabilities (N, K), float64, from the logits (N, K) of each expert.

    log p(c|x) = log_softmax_c( sum_i w_i max(log_softmax(f_i(x))_c, log 1e-12) ), w_i = 1/K: the arithmetic mean of the floored
    log probabilities has the argmax of their sum, and its confidence does not grow with the number of experts.
    """
    floored = [torch.log_softmax(one.double(), dim=1).clamp_min(torch.tensor(FLOOR).double().log()) for one in logits]
    return torch.softmax(torch.stack(floored).mean(dim=0), dim=1)
