"""Products: the answers of several models multiplied (Hinton 2002; FederatedFactory, 2603.16370), and their temperature."""

from collections.abc import Sequence

import torch
from torch import Tensor

FLOOR = 1e-12
TINY = 1e-30


def product_of_experts(logits: Sequence[Tensor]) -> Tensor:
    """Probabilities (N, K), float64, from the logits (N, K) of each expert.

    log p(c|x) = log_softmax_c( sum_i w_i max(log_softmax(f_i(x))_c, log 1e-12) ), w_i = 1/K: the arithmetic mean of the floored
    log probabilities has the argmax of their sum, and its confidence does not grow with the number of experts.
    """
    floored = [torch.log_softmax(one.double(), dim=1).clamp_min(torch.tensor(FLOOR).double().log()) for one in logits]
    return torch.softmax(torch.stack(floored).mean(dim=0), dim=1)


def log_probabilities(probabilities: Tensor) -> Tensor:
    """Their logarithms (N, K), not below that of TINY, so that a label that was ruled out stays comparable."""
    return probabilities.double().clamp_min(TINY).log()


def product_of_both(experts: Tensor, generative: Tensor) -> Tensor:
    """Log probabilities (N, K), up to a constant of each row: the mean of those of the two products."""
    return (experts + generative) / 2


def tempered(logs: Tensor, temperature_milli: int) -> Tensor:
    """Probabilities (N, K) in proportion to exp(logs / T), T in thousandths: above 1000 less sure, below it surer."""
    return torch.softmax(logs / (temperature_milli / 1e3), dim=1)
