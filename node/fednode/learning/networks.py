"""Networks by the family of their architecture: what is in their files, and how one is loaded to answer."""

from pathlib import Path

import torch
from torch import nn

from fednode.architecture import ExpertArchitecture, ExpertShape, GeneratorArchitecture, ViTArchitecture
from fednode.learning import expert, vit, weights
from fednode.learning.weights import Expected


def tensors_of(architecture: GeneratorArchitecture | ExpertArchitecture | ViTArchitecture) -> Expected:
    """Names, shapes and dtypes in the file of a network. Raises BadWeightsError if the architecture is too large."""
    if isinstance(architecture, GeneratorArchitecture):
        return weights.generator_tensors(architecture)
    if isinstance(architecture, ViTArchitecture):
        return vit.vit_tensors(architecture)
    return expert.expert_tensors(architecture)


def load(path: Path, architecture: ExpertShape, device: torch.device) -> nn.Module:
    """The network in the file at `path`, checked before use, that answers images (N, C, H, W). Raises BadWeightsError."""
    if isinstance(architecture, ViTArchitecture):
        network: nn.Module = vit.load(path, architecture, device)
        return network
    return expert.load(path, architecture, device)
