"""An expert: a timm network from the allow-list that tells the covered labels apart, with its stem fitted to small images.

Rule 1: what is on the wire, fp16 with the statistics of the batch norms, is what everyone uses, its owner included.
Rule 2: each image of a pool is drawn with its weight, so labels are balanced whatever their counts.
"""

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional

from fednode.architecture import ExpertArchitecture
from fednode.learning import weights
from fednode.learning.augment import augment
from fednode.learning.precision import computing
from fednode.learning.sampler import to_data
from fednode.learning.weights import BadWeightsError, Expected
from fednode.recipe import ExpertRecipe

SMALL_IMAGE = 64
ANSWER_BATCH = 256
MOMENTUM = 0.9
WARM_UP_SHARE = 0.1

Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class Pool:
    """Images to train on: uint8 (N, C, H, W); target probabilities (N, K); how often each is drawn, (N,), adding up to 1.

    `dropped`: how many samples of each donor, by digest, were left out of it. `doubted`: of how many samples of a label and a
    donor the generative product was asked, and to how many of these it gives another label.
    """

    images: Tensor
    targets: Tensor
    weights: Tensor
    dropped: Mapping[str, int] = field(default_factory=dict)
    doubted: Mapping[tuple[str, str], tuple[int, int]] = field(default_factory=dict)


def build(architecture: ExpertArchitecture) -> nn.Module:
    """The untrained network: (N, C, H, W) in data units -> logits (N, outputs)."""
    import timm  # noqa: PLC0415  (three seconds of CPU, and a worker that meets no expert needs none of it)

    network: nn.Module = timm.create_model(
        architecture.name,
        num_classes=architecture.outputs,
        in_chans=architecture.image.channels,
        channels=tuple(architecture.width << stage for stage in range(4)),
        stem_type="deep",
        stem_width=architecture.width // 2,
    )
    reduction = architecture.reduction or (1 if architecture.image.size <= SMALL_IMAGE else 4)
    if reduction < 4:
        network.maxpool = nn.Identity()
    if reduction == 1:
        network.get_submodule("conv1.0").stride = (1, 1)  # type: ignore[assignment]
    return network


def expert_tensors(architecture: ExpertArchitecture) -> Expected:
    """Names, shapes and dtypes in an expert's file. Raises BadWeightsError if the architecture is too large."""
    with torch.device("meta"):
        tensors = _wire(build(architecture))
    if sum(tensor.numel() for tensor in tensors.values()) > weights.MAX_PARAMETERS:
        raise BadWeightsError(f"The architecture has more than {weights.MAX_PARAMETERS} parameters.")
    return {name: (tuple(tensor.shape), torch.float16) for name, tensor in tensors.items()}


def fit(
    pools: Iterable[Pool],
    architecture: ExpertArchitecture,
    recipe: ExpertRecipe,
    seed: int,
    progress: Progress,
    device: torch.device,
) -> dict[str, Tensor]:
    """Trains an expert on `recipe.synthesis.pools` pools, one after the other, for equal shares of the steps.

    Returns its fp16 weights on the CPU, by name. `progress(done, total)` is called after each step. Equal arguments give equal
    bits at equal numerics; the global random state is left as it was.
    """
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        torch.manual_seed(seed)
        network = _place(build(architecture), device).train()
        optimiser = _optimiser(network, recipe)
        done = 0
        for index, pool in enumerate(pools):
            until = recipe.steps * (index + 1) // recipe.synthesis.pools
            for batch in _batches(pool, until - done, recipe, device):
                _set_rate(optimiser, done, recipe)
                _step(network, optimiser, batch, recipe)
                done += 1
                progress(done, recipe.steps)
    return {name: tensor.detach().half().cpu().contiguous() for name, tensor in _wire(network).items()}


def load(path: Path, architecture: ExpertArchitecture, device: torch.device) -> nn.Module:
    """The expert in the file at `path`, checked before use, in evaluation mode. Raises BadWeightsError."""
    tensors = weights.check_file(path, expert_tensors(architecture))
    network = build(architecture)
    network.load_state_dict({name: tensor.float() for name, tensor in tensors.items()}, strict=False)
    return _place(network, device).eval()


@torch.inference_mode()
def logits(network: nn.Module, images: Tensor, device: torch.device) -> Tensor:
    """Finite logits (N, K) of uint8 images (N, C, H, W), on the CPU.

    A network of sound weights can still overflow. Where it does, the row is 0: it prefers no label, and spoils no product.
    """
    batches = torch.split(images, ANSWER_BATCH)
    found = torch.cat([network(_to_network(batch, device)).cpu() for batch in batches])
    return torch.where(found.isfinite().all(dim=1, keepdim=True), found, 0.0)


def _wire(network: nn.Module) -> dict[str, Tensor]:
    """What is published: all weights and statistics, without the batch norms' counters, which only training uses."""
    return {name: tensor for name, tensor in network.state_dict().items() if not name.endswith("num_batches_tracked")}


def _place(network: nn.Module, device: torch.device) -> nn.Module:
    """The network on its device; convolutions are faster with the channels last."""
    return network.to(device).to(memory_format=torch.channels_last)


def _to_network(images: Tensor, device: torch.device) -> Tensor:
    return to_data(images.to(device)).contiguous(memory_format=torch.channels_last)


def _optimiser(network: nn.Module, recipe: ExpertRecipe) -> torch.optim.Optimizer:
    """AdamW; norms and biases are left out of the decay."""
    matrices = [p for p in network.parameters() if p.ndim > 1]
    vectors = [p for p in network.parameters() if p.ndim <= 1]
    groups = [
        {"params": matrices, "weight_decay": recipe.weight_decay_micro / 1e6},
        {"params": vectors, "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(groups, lr=recipe.lr_micro / 1e6, betas=(MOMENTUM, 0.99), fused=True)


def _set_rate(optimiser: torch.optim.Optimizer, step: int, recipe: ExpertRecipe) -> None:
    """A linear rise over the first tenth, times half a cosine from 1 to 0 over all steps."""
    rise = min((step + 1) / max(WARM_UP_SHARE * recipe.steps, 1), 1.0)
    rate = recipe.lr_micro / 1e6 * rise * (1 + math.cos(math.pi * step / recipe.steps)) / 2
    for group in optimiser.param_groups:
        group["lr"] = rate


def _batches(pool: Pool, count: int, recipe: ExpertRecipe, device: torch.device) -> Iterable[tuple[Tensor, Tensor]]:
    """`count` batches of augmented images in data units and smoothed targets."""
    if count == 0:
        return
    chosen = torch.multinomial(pool.weights, count * recipe.batch, replacement=True).view(count, -1)
    outputs, smoothing = pool.targets.shape[1], recipe.smoothing_milli / 1e3
    targets = pool.targets * (1 - smoothing) + smoothing / outputs
    for rows in chosen:
        images = augment(pool.images[rows], recipe)
        yield _to_network(images, device), targets[rows].to(device)


def _step(
    network: nn.Module, optimiser: torch.optim.Optimizer, batch: tuple[Tensor, Tensor], recipe: ExpertRecipe
) -> None:
    images, targets = batch
    optimiser.zero_grad()
    with computing(recipe.dtype, images.device):
        answers = network(images)
    functional.cross_entropy(answers.float(), targets).backward()  # type: ignore[no-untyped-call]
    optimiser.step()
