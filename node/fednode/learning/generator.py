"""A generator: the denoiser fitted to the images of one label (EDM2, 2312.02696), saved, loaded and normalised for drawing."""

import math
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor, nn

from fednode.learning import weights
from fednode.learning.denoiser import SIGMA_DATA, Denoiser
from fednode.learning.ema import PowerEma
from fednode.learning.layers import Fourier, MPConv, normalise_weights, project_gradients
from fednode.learning.sampler import to_data
from fednode.recipe import GeneratorArchitecture, GeneratorRecipe

UNCERTAINTY_FEATURES = 128
Progress = Callable[[int, int], None]


class Uncertainty(nn.Module):
    """u(sigma), the learned log variance of the loss at a noise level; part of the fit, never of a generator (eq. 21)."""

    def __init__(self) -> None:
        super().__init__()
        self.fourier = Fourier(UNCERTAINTY_FEATURES)
        self.linear = MPConv(UNCERTAINTY_FEATURES, 1, 0)

    def forward(self, sigma: Tensor) -> Tensor:
        """(N,) -> (N,)."""
        u: Tensor = self.linear(self.fourier(sigma.log() / 4.0))
        return u[:, 0]


def loss_of(error: Tensor, sigma: Tensor, u: Tensor) -> Tensor:
    """mean over images of lam(sigma) / exp(u) error + u, lam = (s^2 + d^2) / (s d)^2 (2312.02696, eq. 14 and 21).

    `error` is the mean squared error of each image, (N,) as are sigma and u. The best u at a level is ln(lam E[error]).
    """
    lam = (sigma**2 + SIGMA_DATA**2) / (sigma * SIGMA_DATA) ** 2
    return (lam * error / u.exp() + u).mean()


def learning_rate(step: int, steps: int, recipe: GeneratorRecipe) -> float:
    """The rate of `step` (from 0) of `steps`: a linear rise, a plateau, then the inverse square root of the images seen (eq. 67).

    The rise and the plateau are shares of the budget, so that a fit of any length ends at a rate that suits it.
    """
    budget, seen = steps * recipe.batch, step * recipe.batch
    rampup, decay = budget * recipe.rampup_milli // 1000, max(1, budget * recipe.decay_milli // 1000)
    rise = min((seen + recipe.batch) / rampup, 1.0) if rampup else 1.0
    return recipe.lr_micro / 1e6 * rise / math.sqrt(max(seen / decay, 1.0))


def fit(
    images: Tensor,
    architecture: GeneratorArchitecture,
    recipe: GeneratorRecipe,
    seed: int,
    progress: Progress,
    device: torch.device,
) -> dict[str, Tensor]:
    """The generator of one label: its averaged weights as fp16 on the CPU, by name.

    `images` is uint8 (N, C, H, W), N >= 1. `progress(done, total)` is called after each step. Equal arguments give equal bits
    at equal numerics; the global random state is left as it was.
    """
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        torch.manual_seed(seed)
        model = Denoiser(architecture, recipe.dropout_milli / 1e3).to(device)
        uncertainty = Uncertainty().to(device)
        averages = _train(to_data(images).to(device), model, uncertainty, recipe, progress)
    parameters = dict(zip(dict(model.named_parameters()), averages, strict=True))
    tensors = parameters | dict(model.named_buffers())
    return {name: tensor.detach().half().cpu() for name, tensor in tensors.items()}


def _train(
    data: Tensor, model: Denoiser, uncertainty: Uncertainty, recipe: GeneratorRecipe, progress: Progress
) -> list[Tensor]:
    """Runs the budget and returns the averages of the model's parameters, in their order."""
    both = nn.ModuleList([model, uncertainty])
    parameters = list(both.parameters())
    normalise_weights(both)
    optimiser = torch.optim.Adam(parameters, lr=1.0, betas=(0.9, 0.99), eps=1e-8, fused=True)
    ema = PowerEma(list(model.parameters()), recipe.ema_milli / 1e3)
    steps = recipe.steps(len(data))
    for step in range(steps):
        optimiser.param_groups[0]["lr"] = learning_rate(step, steps, recipe)
        optimiser.zero_grad()
        batch_loss(data, model, uncertainty, recipe).backward()  # type: ignore[no-untyped-call]
        clear_bad_gradients(parameters)
        project_gradients(both)
        optimiser.step()
        normalise_weights(both)
        ema.update(list(model.parameters()))
        progress(step + 1, steps)
    return ema.averages


def batch_loss(data: Tensor, model: Denoiser, uncertainty: Uncertainty, recipe: GeneratorRecipe) -> Tensor:
    """The loss of one random batch of `data` (N, C, H, W in data units), at random noise levels."""
    chosen = torch.randint(len(data), (recipe.batch,))
    sigma = (torch.randn(recipe.batch) * recipe.p_std_milli / 1e3 + recipe.p_mean_milli / 1e3).exp()
    noise = torch.randn(recipe.batch, *data.shape[1:])
    clean, sigma = data[chosen.to(data.device)], sigma.to(data.device)
    denoised = model(clean + sigma[:, None, None, None] * noise.to(data.device), sigma)
    return loss_of((denoised - clean).square().mean((1, 2, 3)), sigma, uncertainty(sigma))


def clear_bad_gradients(parameters: list[nn.Parameter]) -> None:
    """NaN and infinite gradients become 0, so that one bad batch cannot ruin a fit (2312.02696, appendix B)."""
    for parameter in parameters:
        if parameter.grad is not None:
            torch.nan_to_num(parameter.grad, nan=0.0, posinf=0.0, neginf=0.0, out=parameter.grad)


def save(path: Path, tensors: dict[str, Tensor]) -> None:
    """Writes the weights of a generator as a safetensors file. Raises BadWeightsError if one is not finite."""
    weights.save(path, tensors)


def load(path: Path, architecture: GeneratorArchitecture, device: torch.device) -> Denoiser:
    """The frozen denoiser in the file at `path`, checked before use. Raises BadWeightsError."""
    tensors = weights.check_generator(path, architecture)
    model = Denoiser(architecture)
    model.load_state_dict({name: tensor.float() for name, tensor in tensors.items()})
    return model.to(device).freeze()
