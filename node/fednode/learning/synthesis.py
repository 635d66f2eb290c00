"""Synthesis: drawing the images that an expert lacks from the donors' generators.

Rule 1: a sample follows from its generator's digest, its label and its index; each sample knows its donor.
Rule 2: samples are kept beside the generator that drew them and go with it; kept or drawn, they are the same.
Rule 3: donors of a label share by their image counts under a cap, and ties go to the smaller digest.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from fednode.learning import derived, sampler
from fednode.learning.denoiser import Denoiser
from fednode.learning.precision import computing
from fednode.learning.seeds import seed_of
from fednode.recipe import SamplerRecipe, SynthesisRecipe
from fednode_crypto.digest import digest_json, sha256_hex
from fednode_crypto.strict_json import JSON

Numerics = Mapping[str, JSON]


@dataclass(frozen=True)
class Donor:
    """A generator that gives images of one label: its weight digest, the images it learned from, and its network.

    `derived` is the folder for what descends from this generator alone, or None where nothing is kept.
    """

    digest: str
    label: str
    count: int
    denoiser: Denoiser
    derived: Path | None = None


@dataclass(frozen=True)
class Synthetic:
    """Samples uint8 (N, C, H, W), and for each the donor's digest and the sample's index."""

    images: Tensor
    origins: list[tuple[str, int]]


def shares(counts: Sequence[int], total: int, cap_percent: int) -> list[int]:
    """`total` shared among donors in proportion to `counts`, none above `cap_percent` of it while others can give more.

    What a capped donor can't give goes to the others in proportion. With fewer donors than the cap allows for, the cap is an
    equal share. Fractions go to the largest remainders, ties to the earlier donor; a count of 0 is taken as 1.
    """
    weights = [max(count, 1) for count in counts]
    return _rounded(_capped(weights, total, max(cap_percent / 100, 1 / len(counts)) * total), total)


def _capped(weights: Sequence[int], total: float, cap: float) -> list[float]:
    """`total` in proportion to `weights`; whoever is above `cap` gets the cap, and the others share what is left alike."""
    whole = sum(weights)
    over = [total * weight / whole > cap + 1e-9 for weight in weights]
    if not any(over):
        return [total * weight / whole for weight in weights]
    others = [weight for weight, capped in zip(weights, over, strict=True) if not capped]
    rest = iter(_capped(others, total - cap * sum(over), cap) if others else ())
    return [cap if capped else next(rest) for capped in over]


def _rounded(exact: Sequence[float], total: int) -> list[int]:
    """Whole numbers that add up to `total`, by the largest remainders."""
    floors = [int(value + 1e-9) for value in exact]
    by_remainder = sorted(range(len(exact)), key=lambda i: (-round(exact[i] - floors[i], 9), i))
    for i in by_remainder[: total - sum(floors)]:
        floors[i] += 1
    return floors


def draw_label(donors: Sequence[Donor], pool: int, recipe: SynthesisRecipe, numerics: Numerics) -> Synthetic:
    """The samples of one label for one pool (from 0), donor by donor in the order of their digests.

    A donor's samples are numbered on from pool to pool, so that no pool repeats another. Donors with equal digests are one.
    """
    merged = _merge(donors)
    amounts = shares([donor.count for donor in merged], recipe.samples_per_label, recipe.donor_cap_percent)
    images: list[Tensor] = []
    origins: list[tuple[str, int]] = []
    for donor, amount in zip(merged, amounts, strict=True):
        indices = range(pool * amount, (pool + 1) * amount)
        if amount:
            images.append(samples(donor, indices, recipe.sampler, numerics))
        origins.extend((donor.digest, index) for index in indices)
    return Synthetic(torch.cat(images), origins)


def samples(donor: Donor, indices: range, recipe: SamplerRecipe, numerics: Numerics) -> Tensor:
    """The donor's samples of `indices`, uint8 (N, C, H, W): those that are kept, else drawn and then kept."""
    kept = None
    if donor.derived:
        kept = donor.derived / f"samples-{_key(donor, indices, recipe, numerics)}.safetensors"
        if found := derived.read(kept, frozenset({"images"})):
            return found["images"]
    drawn = sampler.draw(donor.denoiser, indices, lambda i: seed_of(donor.digest, "sample", donor.label, i), recipe)
    if kept:
        derived.write(kept, {"images": drawn})
    return drawn


def project(donors: Sequence[Donor], images: Tensor, pool: int, sigma: float, recipe: SynthesisRecipe) -> Tensor:
    """Real images as their label's generators would draw them: noised to `sigma` (data units), then denoised step by step.

    uint8 (N, C, H, W), N at least one. Donors share the images as they share samples; the noise follows from the donor, the pool
    and the image alone. From 2108.01073 (SDEdit), along the sampler's own levels below `sigma`.
    """
    merged = _merge(donors)
    amounts = shares([donor.count for donor in merged], len(images), recipe.donor_cap_percent)
    parts = zip(merged, torch.split(images, amounts), strict=True)
    return torch.cat([_project(donor, part, pool, sigma, recipe.sampler) for donor, part in parts if len(part)])


def _project(donor: Donor, images: Tensor, pool: int, sigma: float, recipe: SamplerRecipe) -> Tensor:
    below = sampler.noise_levels(recipe.steps, recipe.sigma_min, recipe.sigma_max, recipe.rho)
    levels = [sigma, *(level for level in below if level < sigma)]
    solve, device = sampler.SOLVERS[recipe.solver], donor.denoiser.leave_gain.device
    done = []
    for batch in torch.split(images, recipe.batch):
        noise = torch.stack([_noise_for(donor, image, pool) for image in batch])
        start = (sampler.to_data(batch) + sigma * noise) / sigma
        with computing(recipe.dtype, device):
            done.append(sampler.to_bytes(solve(donor.denoiser, start.to(device), levels)).cpu())
    return torch.cat(done)


def _noise_for(donor: Donor, image: Tensor, pool: int) -> Tensor:
    seed = seed_of(donor.digest, "projection", pool, sha256_hex(image.numpy().tobytes()))
    return torch.randn(image.shape, generator=torch.Generator().manual_seed(seed))


def _merge(donors: Sequence[Donor]) -> list[Donor]:
    """One donor for each digest, in the order of the digests, with the counts of equals added up."""
    merged: dict[str, Donor] = {}
    for donor in sorted(donors, key=lambda one: one.digest):
        before = merged.get(donor.digest)
        count = donor.count + (before.count if before else 0)
        merged[donor.digest] = Donor(donor.digest, donor.label, count, donor.denoiser, donor.derived)
    return list(merged.values())


def _key(donor: Donor, indices: range, recipe: SamplerRecipe, numerics: Numerics) -> str:
    """Everything that a range of samples follows from; the numerics are in it, for another torch may draw other bits."""
    return digest_json(
        "fednode/samples/v1",
        {
            "generator": donor.digest,
            "label": donor.label,
            "sampler": recipe.digest,
            "numerics": dict(numerics),
            "range": [indices.start, indices.stop],
        },
    )
