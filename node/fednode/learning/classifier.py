"""A classifier: a ViT trained on own images alone, for others to invert.

Its outputs are all labels of the contract, in order, also those that its images lack.
"""

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor
from torch.nn import functional

from fednode.architecture import ViTArchitecture
from fednode.learning import vit
from fednode.learning.augment import augment
from fednode.learning.precision import computing
from fednode.learning.sampler import to_data
from fednode.learning.vitfit import Aids, Run, seeded, train
from fednode.vit_recipe import ClassifierRecipe


def fit(
    images: Mapping[str, Tensor],
    labels: Sequence[str],
    architecture: ViTArchitecture,
    recipe: ClassifierRecipe,
    seed: int,
    aids: Aids,
) -> dict[str, Tensor]:
    """The classifier of own images, uint8 (N, C, H, W) by label, at least one: its fp16 weights on the CPU, by name.

    Equal arguments give equal bits at equal numerics, interrupted and resumed or not; the global random state is left as it was.
    """
    present = [label for label in labels if label in images]
    data = torch.cat([images[label] for label in present])
    targets = torch.cat([torch.full((len(images[label]),), list(labels).index(label)) for label in present])
    with seeded(seed, aids.device):
        network = vit.build(architecture)
        if aids.start:
            network.load_state_dict({name: tensor.float() for name, tensor in aids.start.items()})
        network = network.to(aids.device).train()

        def loss() -> Tensor:
            rows = torch.randint(len(data), (recipe.batch,))
            x = noised(to_data(augment(data[rows], recipe)), recipe.noise_milli / 1e3).to(aids.device)
            with computing(recipe.dtype, aids.device):
                logits = network(x)
            smoothing = recipe.smoothing_milli / 1e3
            return functional.cross_entropy(logits.float(), targets[rows].to(aids.device), label_smoothing=smoothing)

        train(Run(network, recipe), loss, aids)
    return vit.wire(network)


def noised(x: Tensor, largest: float) -> Tensor:
    """Images (N, C, H, W) on the CPU, each with normal noise of its own strength, uniform between 0 and `largest`."""
    if not largest:
        return x
    strength = largest * torch.rand(len(x), 1, 1, 1)
    return x + strength * torch.randn(x.shape)
