"""A fit under way: the loss of EDM2 (2312.02696), one step of it, and all that the next step depends on.

Rule: whatever the next step or the result depends on is in `Run.state`, so that a fit goes on after an interruption as if there
had been none.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.func import functional_call

from fednode.architecture import GeneratorArchitecture
from fednode.errors import FednodeError
from fednode.learning.denoiser import SIGMA_DATA, Denoiser
from fednode.learning.ema import PowerEma
from fednode.learning.layers import Fourier, MPConv, normalise_weights, project_gradients
from fednode.learning.precision import computing
from fednode.learning.privacy import Loss, chosen, clipped_sum, noise_multiplier, noised_mean, source_of
from fednode.learning.symmetry import Told, choose, turn
from fednode.learning.team import ALONE, Team
from fednode.recipe import GeneratorRecipe, PrivacyRecipe

UNCERTAINTY_FEATURES = 128
MOMENTS = ("step", "exp_avg", "exp_avg_sq")


class CompileError(FednodeError):
    """The network can't be compiled on this machine."""


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


def weight_of(sigma: Tensor) -> Tensor:
    """lam(sigma) = (s^2 + d^2) / (s d)^2 (2206.00364, table 1)."""
    return (sigma**2 + SIGMA_DATA**2) / (sigma * SIGMA_DATA) ** 2


def loss_of(error: Tensor, sigma: Tensor, u: Tensor) -> Tensor:
    """mean over images of lam(sigma) / exp(u) error + u (2312.02696, eq. 14 and 21).

    `error` is the mean squared error of each image, (N,) as are sigma and u. The best u at a level is ln(lam E[error]).
    """
    return (weight_of(sigma) * error / u.exp() + u).mean()


def learning_rate(step: int, steps: int, recipe: GeneratorRecipe) -> float:
    """The rate of `step` (from 0) of `steps`: a linear rise, a plateau, then the inverse square root of the images seen (eq. 67).

    The rise and the plateau are shares of the budget, so that a fit of any length ends at a rate that suits it.
    """
    budget, seen = steps * recipe.batch, step * recipe.batch
    rampup, decay = budget * recipe.rampup_milli // 1000, max(1, budget * recipe.decay_milli // 1000)
    rise = min((seen + recipe.batch) / rampup, 1.0) if rampup else 1.0
    return recipe.lr_micro / 1e6 * rise / math.sqrt(max(seen / decay, 1.0))


@dataclass(frozen=True)
class Look:
    """A fit after `step` steps: the held-out loss of its widest average, NaN without held-out images, and fp16 averages."""

    step: int
    loss: float
    averages: tuple[tuple[Tensor, ...], ...]


class Run:
    """The parts of a fit and their state; random numbers come from the global generator, which the caller seeds first."""

    def __init__(
        self,
        architecture: GeneratorArchitecture,
        recipe: GeneratorRecipe,
        device: torch.device,
        secret: bytes = b"",
        team: Team = ALONE,
    ) -> None:
        self.recipe = recipe
        self.team = team
        self.model = Denoiser(architecture, recipe.dropout_milli / 1e3).to(device)
        self.uncertainty = Uncertainty().to(device)
        self.told = Told(max(architecture.channels)).to(device) if recipe.augment == "dihedral" else None
        self.all = nn.ModuleList(part for part in (self.model, self.uncertainty, self.told) if part is not None)
        normalise_weights(self.all)
        self.parameters = list(self.all.parameters())
        self.optimiser = torch.optim.Adam(self.parameters, lr=1.0, betas=(0.9, 0.99), eps=1e-8, fused=True)
        self.averages = [PowerEma(list(self.model.parameters()), width) for width in recipe.widths]
        self.looks: list[Look] = []
        self.step = 0
        self.secret = secret
        if recipe.privacy:
            self.model.layout = torch.contiguous_format  # the only one that gradients for each image know
        if recipe.compile:
            _compile(self.model, recipe, recipe.batch // team.size)

    def advance(self, data: Tensor, rate: float) -> None:
        """One step on a random batch of `data` (N, C, H, W in data units)."""
        self.optimiser.param_groups[0]["lr"] = rate
        self.optimiser.zero_grad()
        if self.recipe.privacy:
            private_gradients(data, self, self.recipe.privacy)
        else:
            batch_loss(data, self).backward()  # type: ignore[no-untyped-call]
            self.team.average(self.parameters)
        clear_bad_gradients(self.parameters)
        project_gradients(self.all)
        self.optimiser.step()
        normalise_weights(self.all)
        for average in self.averages:
            average.update(list(self.model.parameters()))
        self.step += 1

    def look(self, loss: float) -> None:
        """Remember the averages as they are, with the held-out loss of the last."""
        kept = [tuple(tensor.detach().half().cpu() for tensor in one.averages) for one in self.averages]
        self.looks.append(Look(self.step, loss, tuple(kept)))

    @property
    def best(self) -> int:
        """The index of the look that counts: the one of the lowest loss where the recipe may stop early, else the last."""
        losses = [look.loss for look in self.looks]
        return losses.index(min(losses)) if self.recipe.patience and not math.isnan(losses[-1]) else len(losses) - 1

    @property
    def stale(self) -> bool:
        """Whether so many looks in a row have not lowered the loss that the fit is to end."""
        return bool(self.recipe.patience and self.looks) and len(self.looks) - 1 - self.best >= self.recipe.patience

    def state(self) -> dict[str, Tensor]:
        """All tensors that the rest of the fit depends on, by name; not copies."""
        tensors = {
            "rng": torch.get_rng_state(),
            "step": torch.tensor(self.step),
            "look_steps": torch.tensor([look.step for look in self.looks], dtype=torch.int64),
            "look_losses": torch.tensor([look.loss for look in self.looks], dtype=torch.float64),
        }
        if self._device.type == "cuda":
            tensors["rng_device"] = torch.cuda.get_rng_state(self._device)
        for index, parameter in enumerate(self.parameters):
            tensors[f"parameter.{index}"] = parameter.detach()
            tensors |= {f"{name}.{index}": self.optimiser.state[parameter][name] for name in MOMENTS}
        averages = {"now": [one.averages for one in self.averages]}
        averages |= {str(number): [list(one) for one in look.averages] for number, look in enumerate(self.looks)}
        for when, tracks in averages.items():
            for track, average in enumerate(tracks):
                tensors |= {f"average.{when}.{track}.{index}": tensor for index, tensor in enumerate(average)}
        return tensors

    @torch.no_grad()
    def restore(self, tensors: Mapping[str, Tensor]) -> None:
        """Go on from a state that `state` gave for the same architecture, recipe and seed."""
        self.step = int(tensors["step"])
        for index, parameter in enumerate(self.parameters):
            parameter.copy_(tensors[f"parameter.{index}"])
            self.optimiser.state[parameter] = {
                name: tensors[f"{name}.{index}"].to(self._device, copy=True) for name in MOMENTS
            }
        for track, one in enumerate(self.averages):
            one.step = self.step
            for index, tensor in enumerate(one.averages):
                tensor.copy_(tensors[f"average.now.{track}.{index}"])
        steps, losses = tensors["look_steps"].tolist(), tensors["look_losses"].tolist()
        self.looks = [
            Look(step, loss, self._averages_at(number, tensors))
            for number, (step, loss) in enumerate(zip(steps, losses, strict=True))
        ]
        torch.set_rng_state(tensors["rng"])
        if self._device.type == "cuda":
            torch.cuda.set_rng_state(tensors["rng_device"], self._device)

    def _averages_at(self, number: int, tensors: Mapping[str, Tensor]) -> tuple[tuple[Tensor, ...], ...]:
        count = len(list(self.model.parameters()))
        return tuple(
            tuple(tensors[f"average.{number}.{track}.{index}"] for index in range(count))
            for track in range(len(self.averages))
        )

    @property
    def _device(self) -> torch.device:
        return self.model.leave_gain.device


def _compile(model: Denoiser, recipe: GeneratorRecipe, batch: int) -> None:
    """Compiles the network, forward and backward. Raises CompileError if that fails, with the reason."""
    image = model.architecture.image
    x = torch.zeros(batch, image.channels, image.size, image.size, device=model.leave_gain.device)
    try:
        model.compile()
        with computing(recipe.dtype, x.device):
            denoised = model(x, torch.ones_like(x[:, 0, 0, 0]))
        denoised.sum().backward()
    except Exception as error:  # whatever a compiler, or the want of one, makes of it
        raise CompileError(
            f"The denoiser can't be compiled ({str(error).splitlines()[0][:200] or type(error).__name__}).",
            "Install a C++ compiler, or ask for a recipe without `compile`.",
        ) from error


def batch_loss(data: Tensor, run: Run) -> Tensor:
    """The loss of this process's share of one random batch of `data` (N, C, H, W in data units), at random noise levels."""
    recipe, mine = run.recipe, run.team.share(run.recipe.batch)
    chosen = torch.randint(len(data), (recipe.batch,))
    sigma = (torch.randn(recipe.batch) * recipe.p_std_milli / 1e3 + recipe.p_mean_milli / 1e3).exp()
    noise = torch.randn(recipe.batch, *data.shape[1:])[mine]
    clean, sigma, beside = data[chosen[mine].to(data.device)], sigma[mine].to(data.device), None
    if run.told is not None:
        which = choose(recipe.batch, recipe.augment_milli / 1e3)[mine].to(data.device)
        clean, beside = turn(clean, which), run.told(which)
    with computing(recipe.dtype, data.device):
        denoised = run.model(clean + sigma[:, None, None, None] * noise.to(data.device), sigma, beside)
    return loss_of((denoised - clean).square().mean((1, 2, 3)), sigma, run.uncertainty(sigma))


def private_gradients(data: Tensor, run: Run, terms: PrivacyRecipe) -> None:
    """Sets the gradients of one step of a private fit; see `learning/privacy.py`."""
    recipe, count, clip = run.recipe, len(data), terms.clip_milli / 1e3
    rate = min(1.0, recipe.batch / count)
    multiplier = noise_multiplier(terms.epsilon_milli / 1e3, terms.delta_ppb / 1e9, rate, recipe.steps(count))
    source = source_of(run.secret, run.step)
    clean = data[chosen(count, rate, source).to(data.device)]
    sigma = (torch.randn(len(clean), terms.draws) * recipe.p_std_milli / 1e3 + recipe.p_mean_milli / 1e3).exp()
    noise = torch.randn(len(clean), terms.draws, *data.shape[1:])
    named = dict(run.all.named_parameters())
    total = clipped_sum(_image_loss(run), named, clean, sigma.to(data.device), noise.to(data.device), clip)
    for name, gradient in noised_mean(total, rate * count, multiplier * clip, source).items():
        named[name].grad = gradient


def _image_loss(run: Run) -> Loss:
    """The loss of one image over its draws, as a function of the parameters of denoiser and uncertainty."""

    def loss(parameters: Mapping[str, Tensor], clean: Tensor, sigma: Tensor, noise: Tensor) -> Tensor:
        model = {name.removeprefix("0."): p for name, p in parameters.items() if name.startswith("0.")}
        uncertainty = {name.removeprefix("1."): p for name, p in parameters.items() if name.startswith("1.")}
        denoised = functional_call(run.model, model, (clean + sigma[:, None, None, None] * noise, sigma))
        error = (denoised - clean).square().mean((1, 2, 3))
        return loss_of(error, sigma, functional_call(run.uncertainty, uncertainty, (sigma,)))

    return loss


def clear_bad_gradients(parameters: list[nn.Parameter]) -> None:
    """NaN and infinite gradients become 0, so that one bad batch cannot ruin a fit (2312.02696, appendix B)."""
    for parameter in parameters:
        if parameter.grad is not None:
            torch.nan_to_num(parameter.grad, nan=0.0, posinf=0.0, neginf=0.0, out=parameter.grad)
