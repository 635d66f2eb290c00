"""The denoiser: the network of EDM2 (2312.02696) and the preconditioning of EDM (2206.00364).

Rule 1: a constant channel beside the image stands for biases; beyond the image, where the sides are padded, it is 0.
Rule 2: after `freeze` the weights are normalised and the network is for drawing only.
Rule 3: with patches each pixel of the network's grid holds a square of the image, its pixels side by side as channels.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional

from fednode.architecture import GeneratorArchitecture
from fednode.learning.layers import Fourier, MPConv, mp_cat, mp_silu, mp_sum, normalise, normalise_weights

SIGMA_DATA = 0.5
RESIDUAL = 0.3
HEAD_CHANNELS = 64

Resample = Literal["keep", "down", "up"]


class Attention(nn.Module):
    """Self-attention with pixel-normalised queries, keys and values, added to its input by mp_sum (2312.02696, B.7)."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.heads = math.gcd(channels, max(1, channels // HEAD_CHANNELS))
        self.qkv = MPConv(channels, 3 * channels, 1)
        self.projection = MPConv(channels, channels, 1)

    def forward(self, x: Tensor) -> Tensor:
        n, c, h, w = x.shape
        qkv = self.qkv(x).reshape(n, self.heads, c // self.heads, 3, h * w)
        q, k, v = normalise(qkv, (2,)).permute(3, 0, 1, 4, 2)
        y = functional.scaled_dot_product_attention(q, k, v)
        y = self.projection(y.transpose(2, 3).reshape(n, c, h, w))
        return mp_sum(x, y, RESIDUAL)


@dataclass(frozen=True)
class BlockPlan:
    """One block: channels in and out, its half of the network, how it resamples, and whether it attends and joins a skip."""

    inputs: int
    outputs: int
    half: Literal["encoder", "decoder"]
    resample: Resample = "keep"
    attends: bool = False
    joins: bool = False


class Block(nn.Module):
    """A residual block of the encoder or the decoder, steered by the noise embedding (2312.02696, figure 21)."""

    def __init__(self, plan: BlockPlan, embedding: int, dropout: float) -> None:
        super().__init__()
        self.plan = plan
        self.dropout = dropout
        inner = plan.outputs if plan.half == "encoder" else plan.inputs
        self.first = MPConv(inner, plan.outputs, 3)
        self.second = MPConv(plan.outputs, plan.outputs, 3)
        self.steer = MPConv(embedding, plan.outputs, 0)
        self.steer_gain = nn.Parameter(torch.zeros(()))
        self.skip = MPConv(plan.inputs, plan.outputs, 1) if plan.inputs != plan.outputs else None
        self.attention = Attention(plan.outputs) if plan.attends else None

    def forward(self, x: Tensor, embedding: Tensor) -> Tensor:
        x = resample(x, self.plan.resample)
        if self.plan.half == "encoder":
            x = normalise(self._skipped(x), (1,))
        y = self._residual(x, embedding)
        if self.plan.half == "decoder":
            x = self._skipped(x)
        x = mp_sum(x, y, RESIDUAL)
        if self.attention is not None:
            x = self.attention(x)
        return x

    def _skipped(self, x: Tensor) -> Tensor:
        if self.skip is not None:
            x = self.skip(x)
        return x

    def _residual(self, x: Tensor, embedding: Tensor) -> Tensor:
        y: Tensor = self.first(mp_silu(x))
        y = mp_silu(y * (self.steer(embedding) * self.steer_gain + 1.0)[:, :, None, None])
        if self.training and self.dropout:
            y = functional.dropout(y, self.dropout)
        residual: Tensor = self.second(y)
        return residual


def resample(x: Tensor, how: Resample) -> Tensor:
    """Halves or doubles both sides with the box filter [1, 1], or leaves x alone."""
    if how == "down":
        return functional.avg_pool2d(x, 2)
    if how == "up":
        return functional.interpolate(x, scale_factor=2.0, mode="nearest")
    return x


def grid_side(architecture: GeneratorArchitecture) -> int:
    """The image's side in patches, rounded up so that every level halves it evenly."""
    unit = 1 << (len(architecture.channels) - 1)
    return -(-architecture.image.size // (architecture.patch * unit)) * unit


def encoder_plans(architecture: GeneratorArchitecture) -> Iterator[BlockPlan]:
    """The encoder's blocks, finest level first; the image's own convolution comes before them."""
    channels = architecture.channels
    for level, outputs in enumerate(channels):
        inputs = channels[max(level - 1, 0)]
        attends = grid_side(architecture) >> level in architecture.attention
        if level:
            yield BlockPlan(inputs, inputs, "encoder", "down")
        for _ in range(architecture.blocks):
            yield BlockPlan(inputs, outputs, "encoder", attends=attends)
            inputs = outputs


def decoder_plans(architecture: GeneratorArchitecture, skips: list[int]) -> Iterator[BlockPlan]:
    """The decoder's blocks, coarsest level first; `skips` are the encoder's output channels, taken from the end."""
    levels = len(architecture.channels)
    skips = list(skips)
    inputs = architecture.channels[-1]
    for level in reversed(range(levels)):
        outputs = architecture.channels[level]
        attends = grid_side(architecture) >> level in architecture.attention
        if level == levels - 1:
            # The paper's coarsest level attends whenever the network does.
            yield BlockPlan(inputs, inputs, "decoder", attends=bool(architecture.attention))
            yield BlockPlan(inputs, inputs, "decoder")
        else:
            yield BlockPlan(inputs, inputs, "decoder", "up")
        for _ in range(architecture.blocks + 1):
            yield BlockPlan(inputs + skips.pop(), outputs, "decoder", attends=attends, joins=True)
            inputs = outputs


def preconditioning(sigma: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """c_skip, c_out, c_in and c_noise for noise levels sigma > 0 (EDM 2206.00364, table 1)."""
    total = sigma**2 + SIGMA_DATA**2
    root = total.sqrt()
    return SIGMA_DATA**2 / total, sigma * SIGMA_DATA / root, 1.0 / root, sigma.log() / 4.0


class Denoiser(nn.Module):
    """D(x; sigma), the expected clean image of one label given a noisy one.

    Images are (N, C, H, W) float32, data in [-1, 1]; sigma is (N,), above 0. `dtype` and `layout` say how the network computes;
    weights, images and the preconditioning are float32 whatever they are.
    """

    def __init__(self, architecture: GeneratorArchitecture, dropout: float = 0.0) -> None:
        super().__init__()
        self.architecture = architecture
        self.layout = torch.channels_last
        widest, first = max(architecture.channels), architecture.channels[0]
        image = architecture.image
        self.fourier = Fourier(first)
        self.noise = MPConv(first, widest, 0)
        squares = image.channels * architecture.patch**2
        self.enter = MPConv(squares + 1, first, 3)
        encoder = list(encoder_plans(architecture))
        decoder = list(decoder_plans(architecture, [first, *(plan.outputs for plan in encoder)]))
        self.joins = [plan.joins for plan in decoder]
        self.encoder = nn.ModuleList(Block(plan, widest, dropout) for plan in encoder)
        self.decoder = nn.ModuleList(Block(plan, widest, dropout) for plan in decoder)
        self.leave = MPConv(first, squares, 3)
        self.leave_gain = nn.Parameter(torch.zeros(()))

    def forward(self, x: Tensor, sigma: Tensor, beside: Tensor | None = None) -> Tensor:
        """D = c_skip x + c_out F(c_in x, c_noise) (2206.00364, eq. 7); `beside` joins the noise embedding, see `embedded`."""
        c_skip, c_out, c_in, c_noise = preconditioning(sigma)
        c_skip, c_out, c_in = (c[:, None, None, None] for c in (c_skip, c_out, c_in))
        y = self.network(c_in * x, c_noise, beside)
        return torch.addcmul(c_skip * x, c_out, y.float())

    def embedded(self, c_noise: Tensor, beside: Tensor | None = None) -> Tensor:
        """The embedding (N, E) of the noise levels, joined by mp_sum with the rows of `beside` (N, E) that are not 0."""
        embedding: Tensor = self.noise(self.fourier(c_noise))
        if beside is not None:
            length = torch.where(beside.any(dim=1, keepdim=True), math.sqrt(0.5), 1.0)
            embedding = (embedding + beside) * length
        return mp_silu(embedding)

    def network(self, x: Tensor, c_noise: Tensor, beside: Tensor | None = None) -> Tensor:
        """F: (N, C, H, W) and (N,) -> (N, C, H, W)."""
        embedding = self.embedded(c_noise, beside)
        x = self.enter(self._framed(x))
        skips = [x]
        for block in self.encoder:
            x = block(x, embedding)
            skips.append(x)
        for block, joins in zip(self.decoder, self.joins, strict=True):
            if joins:
                x = mp_cat(x, skips.pop())
            x = block(x, embedding)
        size = self.architecture.image.size
        y: Tensor = self.leave(x) * self.leave_gain
        return functional.pixel_shuffle(y, self.architecture.patch)[:, :, :size, :size]

    def _framed(self, x: Tensor) -> Tensor:
        x = torch.cat([x, torch.ones_like(x[:, :1])], dim=1)
        patch = self.architecture.patch
        missing = grid_side(self.architecture) * patch - x.shape[-1]
        x = functional.pad(x, (0, missing, 0, missing)) if missing else x
        if patch > 1:
            squares, covered = functional.pixel_unshuffle(x[:, :-1], patch), functional.avg_pool2d(x[:, -1:], patch)
            x = torch.cat([squares, covered], dim=1)
        return x.contiguous(memory_format=self.layout)

    def freeze(self) -> "Denoiser":
        """Makes the network ready for drawing: weights normalised once, no gradients. Returns itself."""
        normalise_weights(self)
        return self.eval().requires_grad_(False)
