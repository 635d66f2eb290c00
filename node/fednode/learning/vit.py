"""Vision transformers of timm, and what FedMITR asks of them: answers from some patches alone, and how patches are attended to.

Rule 1: what is on the wire, fp16, is what everyone uses, its owner included.
Rule 2: what is not seen is not computed: patches are cut out of the images and embedded with their own positions.
"""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from fednode.architecture import ViTArchitecture
from fednode.learning import weights
from fednode.learning.weights import BadWeightsError, Expected

if TYPE_CHECKING:
    from timm.layers import Attention
    from timm.models.vision_transformer import VisionTransformer


def build(architecture: ViTArchitecture) -> "VisionTransformer":
    """The untrained network: (N, C, H, W) in data units -> logits (N, outputs).

    Images smaller than the network's side are continued by their border.
    """
    import timm  # noqa: PLC0415  (three seconds of CPU, and a worker that meets no ViT needs none of it)

    network = timm.create_model(
        architecture.name,
        img_size=architecture.side,
        patch_size=architecture.patch,
        in_chans=architecture.image.channels,
        embed_dim=architecture.width,
        depth=architecture.depth,
        num_heads=architecture.heads,
        num_classes=architecture.outputs,
    )
    network.patch_embed.register_forward_pre_hook(_continue)
    return cast("VisionTransformer", network)


def vit_tensors(architecture: ViTArchitecture) -> Expected:
    """Names, shapes and dtypes in a ViT's file. Raises BadWeightsError if the architecture is too large."""
    with torch.device("meta"):
        tensors = build(architecture).state_dict()
    if sum(tensor.numel() for tensor in tensors.values()) > weights.MAX_PARAMETERS:
        raise BadWeightsError(f"The architecture has more than {weights.MAX_PARAMETERS} parameters.")
    return {name: (tuple(tensor.shape), torch.float16) for name, tensor in tensors.items()}


def wire(network: "VisionTransformer") -> dict[str, Tensor]:
    """What is published of a network: its tensors as fp16 on the CPU, by name."""
    return {name: tensor.detach().half().cpu().contiguous() for name, tensor in network.state_dict().items()}


def placed(tensors: Mapping[str, Tensor], architecture: ViTArchitecture, device: torch.device) -> "VisionTransformer":
    """The network of these tensors on the device, in evaluation mode and without gradients."""
    with torch.device("meta"):
        network = build(architecture)
    network.load_state_dict({name: tensor.float() for name, tensor in tensors.items()}, assign=True)
    network.to(device).eval().requires_grad_(False)
    return network


def load(path: Path, architecture: ViTArchitecture, device: torch.device) -> "VisionTransformer":
    """The network in the file at `path`, checked before use, as `placed` gives it. Raises BadWeightsError."""
    return placed(weights.check_file(path, vit_tensors(architecture)), architecture, device)


def tokens(network: "VisionTransformer", x: Tensor, kept: Tensor | None = None) -> Tensor:
    """CLS and the patches `kept` (N, k) of images (N, C, H, W), in this order and with their positions: (N, 1 + k, D).

    None stands for all patches, row by row.
    """
    cls, positions = cast(Tensor, network.cls_token), cast(Tensor, network.pos_embed)
    of_patches = positions[:, 1:]
    if kept is None:
        patches = network.patch_embed(x)
    else:
        patches = _embedded(network, x, kept)
        of_patches = of_patches.expand(len(x), -1, -1).gather(1, _rows(kept, of_patches))
    return torch.cat([(cls + positions[:, :1]).expand(len(x), -1, -1), patches + of_patches], dim=1)


def features(network: "VisionTransformer", x: Tensor, kept: Tensor | None = None) -> Tensor:
    """The last block's tokens after the norm (N, 1 + k, D), of images (N, C, H, W) seen at their patches `kept` (N, k)."""
    return cast(Tensor, network.norm(network.blocks(tokens(network, x, kept))))


def answers(network: "VisionTransformer", x: Tensor, kept: Tensor | None = None) -> Tensor:
    """Logits (N, K) of images (N, C, H, W) in data units, seen at their patches `kept` (N, k) alone; None stands for all."""
    return cast(Tensor, network.head(features(network, x, kept)[:, 0]))


def token_answers(network: "VisionTransformer", x: Tensor) -> Tensor:
    """Logits (N, 1 + T, K) at CLS and at each patch, by the one head that the network has (LV-ViT, 2104.10858, has two)."""
    return cast(Tensor, network.head(features(network, x)))


@torch.no_grad()
def attention(network: "VisionTransformer", x: Tensor, kept: Tensor | None = None) -> Tensor:
    """How CLS attends to each patch seen in the last block, (N, k): softmax(q k^T / sqrt(d)), the mean over the heads."""
    found = tokens(network, x, kept)
    *before, last = network.blocks
    for block in before:
        found = block(found)
    return _cls_attention(cast("Attention", last.attn), last.norm1(found))


def _cls_attention(attn: "Attention", seen: Tensor) -> Tensor:
    n, t, _ = seen.shape
    qkv = attn.qkv(seen).reshape(n, t, 3, attn.num_heads, attn.head_dim).permute(2, 0, 3, 1, 4)
    q, k = qkv[0][:, :, :1], qkv[1]
    scores = (q @ k.transpose(-2, -1)).squeeze(2) / math.sqrt(q.shape[-1])
    found: Tensor = scores.float().softmax(dim=-1).mean(dim=1)[:, 1:]
    return found


def _embedded(network: "VisionTransformer", x: Tensor, kept: Tensor) -> Tensor:
    """What the network's convolution makes of the patches `kept` alone: its stride is a patch, so it is linear in each."""
    embed, (x,) = network.patch_embed, _continue(network.patch_embed, (x,))
    projection = cast(nn.Conv2d, embed.proj)
    patch = projection.kernel_size[0]
    cut = x.unfold(2, patch, patch).unfold(3, patch, patch).permute(0, 2, 3, 1, 4, 5).flatten(3).flatten(1, 2)
    bias = projection.bias
    return cast(
        Tensor, embed.norm(functional.linear(cut.gather(1, _rows(kept, cut)), projection.weight.flatten(1), bias))
    )


def _rows(kept: Tensor, table: Tensor) -> Tensor:
    """Indices (N, k, D) that gather the rows `kept` (N, k) out of a table (N, T, D)."""
    return kept[:, :, None].expand(-1, -1, table.shape[2])


def _continue(patch_embed: Any, inputs: tuple[Tensor]) -> tuple[Tensor]:
    """Images (N, C, H, W) of the side that the network wants."""
    missing = patch_embed.img_size[0] - inputs[0].shape[-1]
    return (functional.pad(inputs[0], (0, missing, 0, missing), mode="replicate") if missing else inputs[0],)
