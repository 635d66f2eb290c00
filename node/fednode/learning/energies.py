"""Energies: how badly each generator explains an image at each noise level, for as few network calls as are asked for.

Rule: whether generators are evaluated one by one or in one stacked forward depends on shapes alone, and both give the same
energies but for rounding. A stacked forward, which is for few pixels, stays in float32: vmap knows no autocast.
"""

import copy
from collections.abc import Sequence
from functools import lru_cache

import torch
from torch import Tensor
from torch.func import functional_call, stack_module_state, vmap

from fednode.learning.denoiser import Denoiser
from fednode.learning.sampler import Denoise

WORST = 1e12  # far above the energy of any image, and far below where float32 ends
PASS_PIXELS = 1 << 16
STACKED_PIXELS = (
    1 << 10
)  # of one generator in a forward; with more, one generator after the other is faster on CPU cores
STACKED_MEMBERS = 4  # of fewer a stacked forward costs more than one after the other
STACKED_PARAMETERS = 1 << 25
KEPT_STACKS = 2


class Stack:
    """Generators of one architecture, their weights side by side, that see their images in one forward."""

    def __init__(self, denoisers: Sequence[Denoiser]) -> None:
        self._weights = stack_module_state(list(denoisers))
        self._skeleton = copy.deepcopy(denoisers[0]).to("meta")

    def __call__(self, members: Tensor, x: Tensor, sigma: Tensor) -> Tensor:
        """D of each of `members` (M,) for the same images: (M, N, C, H, W) from x (N, C, H, W) and sigma (N,)."""
        chosen = [{name: tensor[members] for name, tensor in tensors.items()} for tensors in self._weights]

        def one(parameters: dict[str, Tensor], buffers: dict[str, Tensor]) -> Tensor:
            denoised: Tensor = functional_call(self._skeleton, (parameters, buffers), (x, sigma))
            return denoised

        denoised: Tensor = vmap(one)(*chosen)
        return denoised


@lru_cache(KEPT_STACKS)
def stack_of(denoisers: tuple[Denoiser, ...]) -> Stack:
    """The stack of these very networks, which are frozen."""
    return Stack(denoisers)


@torch.no_grad()
def energies(denoise: Denoise, x: Tensor, noise: Tensor, levels: Tensor) -> Tensor:
    """||D_c(x + s n; s) - x||^2 / s^2 for each level s: (N, L), from x (N, C, H, W) in data units and noise (N, L, C, H, W).

    Integrated over ln s this is minus the log likelihood of x, up to a constant that all generators share (2110.00473). A
    network that overflows explains nothing: its energy is WORST.
    """
    noisy, sigma = _noisy(x, noise, levels)
    size = max(1, PASS_PIXELS // (x.shape[-1] * x.shape[-2]))
    denoised = [denoise(*part) for part in zip(torch.split(noisy, size), torch.split(sigma, size), strict=True)]
    return _energies_of(torch.cat(denoised).view_as(noise) - x[:, None], levels)


def in_one_forward(denoisers: Sequence[Denoise], noise: Tensor) -> bool:
    """Whether all of `denoisers` see all levels of noise (N, L, C, H, W) in one stacked forward."""
    return len(denoisers) >= STACKED_MEMBERS and _stack(denoisers, noise[:, :, 0].numel()) is not None


def energies_of_asked(denoisers: Sequence[Denoise], asked: Tensor, x: Tensor, noise: Tensor, levels: Tensor) -> Tensor:
    """The energies (N, L, T), float64 on the CPU, of T generators for the images that `asked` (N, T) names; 1 elsewhere."""
    found = torch.ones((len(denoisers), *noise.shape[:2]), dtype=torch.float64)
    members, images = asked.any(dim=0).nonzero()[:, 0], asked.any(dim=1).nonzero()[:, 0]
    stack = _stack(denoisers, len(images) * noise[0, :, 0].numel()) if len(members) >= STACKED_MEMBERS else None
    if stack:
        seen = images.to(x.device)
        energy = _stacked(stack, members.to(x.device), x[seen], noise[seen], levels).double().cpu()
        found[members[:, None], images] = energy.where(asked[images][:, members].T[:, :, None], 1.0)
        return found.permute(1, 2, 0)
    for member in members.tolist():
        own = asked[:, member].nonzero()[:, 0]
        seen = own.to(x.device)
        found[member, own] = energies(denoisers[member], x[seen], noise[seen], levels).double().cpu()
    return found.permute(1, 2, 0)


def _noisy(x: Tensor, noise: Tensor, levels: Tensor) -> tuple[Tensor, Tensor]:
    """x + s n of all images and levels, (N L, C, H, W), and s of each, (N L,)."""
    return (x[:, None] + levels[:, None, None, None] * noise).flatten(0, 1), levels.repeat(len(x))


def _energies_of(error: Tensor, levels: Tensor) -> Tensor:
    """(..., L) from D - x, (..., L, C, H, W)."""
    energy = error.square().sum((-3, -2, -1)) / levels**2
    return energy.nan_to_num(nan=WORST, posinf=WORST).clamp_max(WORST)


@torch.no_grad()
def _stacked(stack: Stack, members: Tensor, x: Tensor, noise: Tensor, levels: Tensor) -> Tensor:
    """The energies (M, N, L) of the stack's `members` for all images."""
    denoised = stack(members, *_noisy(x, noise, levels)).reshape(len(members), *noise.shape)
    return _energies_of(denoised - x[:, None], levels)


def _stack(denoisers: Sequence[Denoise], pixels: int) -> Stack | None:
    """The stack of all, where it pays: small batches for generators of one architecture."""
    networks = tuple(one for one in denoisers if isinstance(one, Denoiser))
    if pixels > STACKED_PIXELS or len(networks) < len(denoisers):
        return None
    if any(one.architecture != networks[0].architecture for one in networks):
        return None
    parameters = sum(parameter.numel() for parameter in networks[0].parameters()) * len(networks)
    return stack_of(networks) if parameters <= STACKED_PARAMETERS else None
