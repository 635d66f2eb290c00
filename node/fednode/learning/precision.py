"""In which numbers networks compute: float32, or bfloat16 where a machine has units for it. Weights and sums stay float32."""

import torch

from fednode.recipe import Dtype


def computing(dtype: Dtype, device: torch.device) -> torch.autocast:
    """The context in which the layers of a network compute in `dtype`."""
    return torch.autocast(device.type, torch.bfloat16, enabled=dtype == "bfloat16")
