"""Recipes: every constant that a model depends on, as plain values whose digests go into specs.

Rule 1: whatever changes a model's bits is in its recipe or in its inputs; a clock, a count from others or a latency never is.
Rule 2: `version` rises whenever the code behind a recipe changes what comes out.
"""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from fednode.contract import Value
from fednode_crypto.digest import digest_json

Preset = Literal["nano", "xs", "s", "m", "paper"]
PLAIN = ("none", "float32")
Dtype = Literal["float32", "bfloat16"]
Solver = Literal["heun", "dpm2m"]
Width = Annotated[int, Field(ge=10, le=250)]


class Recipe(Value):
    """Base of all recipes."""

    @property
    def digest(self) -> str:
        """SHA-256 (hex) of the recipe."""
        return digest_json("fednode/recipe/v1", {"recipe": type(self).__name__, **self.model_dump(mode="json")})


class SamplerRecipe(Recipe):
    """How a generator draws: `solver` over `steps` noise levels from sigma_max to sigma_min, `batch` images at a time.

    `dtype`: what the network computes in.
    """

    version: Literal[2] = 2
    solver: Solver = "dpm2m"
    steps: Annotated[int, Field(ge=2, le=200)] = 12
    sigma_min_micro: Annotated[int, Field(ge=100, le=1_000_000)] = 2_000
    sigma_max_milli: Annotated[int, Field(ge=2_000, le=200_000)] = 80_000
    rho: Annotated[int, Field(ge=1, le=20)] = 7
    batch: Annotated[int, Field(ge=1, le=4096)] = 50
    dtype: Dtype = "float32"

    @property
    def sigma_min(self) -> float:
        """The lowest noise level above 0, in data units."""
        return self.sigma_min_micro / 1e6

    @property
    def sigma_max(self) -> float:
        """The noise level that drawing starts from, in data units."""
        return self.sigma_max_milli / 1e3

    @property
    def calls(self) -> int:
        """Calls of the network for one image."""
        return 2 * self.steps - 1 if self.solver == "heun" else self.steps


class PrivacyRecipe(Recipe):
    """Differential privacy of a fit: an image more or less changes the odds of any outcome by at most e^epsilon, but for delta.

    The gradient of an image is averaged over `draws` noise levels and clipped to `clip`. Rule 1 of `learning/privacy.py` makes
    one image the unit: a person with several images is protected less.
    """

    version: Literal[1] = 1
    epsilon_milli: Annotated[int, Field(ge=10, le=1_000_000)]
    delta_ppb: Annotated[int, Field(ge=1, le=1_000_000)] = 10_000
    clip_milli: Annotated[int, Field(ge=1, le=1_000_000)] = 1_000
    draws: Annotated[int, Field(ge=1, le=64)] = 4


class GeneratorRecipe(Recipe):
    """How a generator is fitted; budgets count images seen, so that they never depend on a clock.

    At most `images` are seen, and none of the training images more than `max_passes` times. The learning rate rises over
    `rampup_milli` thousandths of this budget, stays `lr` until `decay_milli`, and falls with the inverse square root.
    ln sigma ~ N(p_mean, p_std^2) in training; `ema_milli` is the width of the weights' average, in thousandths of the fit.

    With `ema_choices_milli` the width is the one of these whose average denoises the held-out images best, put together from
    averages of the widths `ema_tracks_milli`, which are stored at `looks` points of the fit. With `patience` a fit ends once that
    many looks in a row have not lowered the held-out loss, and the best look counts. Without held-out images neither happens.
    A held-out loss takes `held_draws` noisy images.

    With `augment`, `augment_milli` thousandths of the images are turned or mirrored, and the network is told how. `dtype` and
    `compile` are about the network's forward and backward; weights and sums stay float32.
    """

    version: Literal[2] = 2
    images: Annotated[int, Field(ge=1, le=10**9)]
    max_passes: Annotated[int, Field(ge=1, le=10**9)] = 1_000
    batch: Annotated[int, Field(ge=1, le=4096)] = 64
    lr_micro: Annotated[int, Field(ge=1, le=1_000_000)] = 10_000
    rampup_milli: Annotated[int, Field(ge=0, le=1_000)] = 40
    decay_milli: Annotated[int, Field(ge=1, le=1_000)] = 333
    p_mean_milli: Annotated[int, Field(ge=-5_000, le=5_000)] = -800
    p_std_milli: Annotated[int, Field(ge=100, le=5_000)] = 1_200
    ema_milli: Width = 100
    ema_tracks_milli: Annotated[tuple[Width, ...], Field(min_length=1, max_length=4)] = (50, 100)
    ema_choices_milli: Annotated[tuple[Width, ...], Field(max_length=16)] = ()
    looks: Annotated[int, Field(ge=1, le=100)] = 10
    patience: Annotated[int, Field(ge=0, le=100)] = 0
    held_draws: Annotated[int, Field(ge=1, le=100_000)] = 256
    dropout_milli: Annotated[int, Field(ge=0, le=900)] = 0
    augment: Literal["none", "dihedral"] = "none"
    augment_milli: Annotated[int, Field(ge=1, le=1_000)] = 500
    dtype: Dtype = "float32"
    compile: bool = False
    privacy: PrivacyRecipe | None = None

    @model_validator(mode="after")
    def _private_fits_see_nothing_else(self) -> Self:
        if self.privacy and (self.chooses or self.compile or self.dropout_milli or (self.augment, self.dtype) != PLAIN):
            raise ValueError("a private fit chooses nothing on held-out images, and is plain: float32, not augmented")
        return self

    def steps(self, count: int) -> int:
        """Optimiser steps in the budget for `count` training images, at least one."""
        return max(1, min(self.images, self.max_passes * count) // self.batch)

    @property
    def widths(self) -> tuple[float, ...]:
        """The widths of the averages that run along with a fit: one without a choice, else those that others follow from."""
        return tuple(width / 1e3 for width in (self.ema_tracks_milli if self.ema_choices_milli else (self.ema_milli,)))

    @property
    def chooses(self) -> bool:
        """Whether something is chosen on held-out images."""
        return bool(self.ema_choices_milli or self.patience)


class AuditRecipe(Recipe):
    """What a generator must pass before it is signed; docs/audit.md has the reasons for the numbers.

    Copies: each test fails a generator that copies nothing with a chance of at most `alpha_ppm`; `percentile` of the held-out
    distances, `neighbours` of the Carlini ratio. Membership: `draws` of noise at each of `levels_milli`; a generator fails if
    its area under the curve is above `auc_limit_milli` but for a chance of `auc_tail_ppm`. `manifold`: k of precision and recall.
    """

    version: Literal[2] = 2
    minimum_images: Annotated[int, Field(ge=1, le=1_000_000)] = 32
    samples: Annotated[int, Field(ge=2, le=100_000)] = 250
    sampler: SamplerRecipe = SamplerRecipe()
    features: Literal["random-conv-v1"] = "random-conv-v1"
    alpha_ppm: Annotated[int, Field(ge=1, le=100_000)] = 100
    percentile: Annotated[int, Field(ge=1, le=50)] = 1
    neighbours: Annotated[int, Field(ge=2, le=1_000)] = 10
    levels_milli: Annotated[tuple[Annotated[int, Field(ge=1, le=80_000)], ...], Field(min_length=1, max_length=20)] = (
        100,
        200,
        400,
        800,
    )
    draws: Annotated[int, Field(ge=1, le=100)] = 2
    auc_limit_milli: Annotated[int, Field(ge=500, le=999)] = 700
    auc_tail_ppm: Annotated[int, Field(ge=1, le=100_000)] = 10_000
    manifold: Annotated[int, Field(ge=1, le=100)] = 3


Mix = Literal["paper", "mixed", "projected", "synthetic"]
Augment = Literal["none", "shift", "flip", "dihedral", "colour"]


class SynthesisRecipe(Recipe):
    """How the images that an expert lacks are drawn from the donors' generators.

    Each of `pools` pools holds `samples_per_label` images of a label; every pool is drawn afresh. Donors of one label share by
    their image counts, and no donor gives more than `donor_cap_percent` of a label that has others.
    """

    version: Literal[1] = 1
    sampler: SamplerRecipe = SamplerRecipe()
    samples_per_label: Annotated[int, Field(ge=1, le=1_000_000)] = 200
    pools: Annotated[int, Field(ge=1, le=10_000)] = 1
    donor_cap_percent: Annotated[int, Field(ge=1, le=100)] = 75


class TeacherRecipe(Recipe):
    """The generative product: noise levels from sigma_min to sigma_max, equally spaced in ln sigma, and a temperature.

    Levels are asked from the middle outwards. After each, the best `keep_percent` of the labels left stay, at least two; 100
    asks all labels at all levels. `sharpness` is the unit of scores, in which a temperature of 1 is about right. The defaults are
    for 8 px.
    """

    version: Literal[2] = 2
    levels: Annotated[int, Field(ge=1, le=100)] = 8
    sigma_min_milli: Annotated[int, Field(ge=1, le=80_000)] = 110
    sigma_max_milli: Annotated[int, Field(ge=1, le=80_000)] = 930
    keep_percent: Annotated[int, Field(ge=1, le=100)] = 70
    sharpness: Annotated[int, Field(ge=1, le=10_000)] = 16
    temperature_milli: Annotated[int, Field(ge=1, le=1_000_000)] = 1_000
    dtype: Dtype = "float32"


class ExpertRecipe(Recipe):
    """How an expert is trained.

    `mix`: own labels come from own real images alone (`paper`), half from real and half from synthetic ones (`mixed`), from real
    ones that the label's generators have noised to `projection_milli` and denoised (`projected`), or, as all others do, from
    synthetic ones alone (`synthetic`).
    `targets`: a synthetic image has its donor's label (`donor`), the generative product's soft label (`teacher`), or its donor's
    label unless the generative product gives it another, and then it is left out (`agreed`). `teach_real`: real images have soft
    labels as well. Each synthetic image has a copy with noise of up to `noise_milli`, and with `mixup` one mixed with another.
    `augment`: by which policy of `learning/augment.py` images change anew at each step, moved by up to `shift` pixels; `colour`
    changes brightness and contrast by up to `jitter_milli` of the range. `dtype`: the numbers that the network computes in.
    """

    version: Literal[2] = 2
    mix: Mix = "mixed"
    targets: Literal["donor", "teacher", "agreed"] = "donor"
    teach_real: bool = False
    projection_milli: Annotated[int, Field(ge=1, le=80_000)] = 300
    noise_milli: Annotated[int, Field(ge=0, le=80_000)] = 0
    mixup: bool = False
    steps: Annotated[int, Field(ge=1, le=10_000_000)] = 100
    batch: Annotated[int, Field(ge=2, le=4096)] = 64
    lr_micro: Annotated[int, Field(ge=1, le=1_000_000)] = 10_000
    weight_decay_micro: Annotated[int, Field(ge=0, le=1_000_000)] = 10_000
    smoothing_milli: Annotated[int, Field(ge=0, le=500)] = 0
    augment: Augment = "none"
    shift: Annotated[int, Field(ge=0, le=64)] = 0
    jitter_milli: Annotated[int, Field(ge=0, le=1_000)] = 150
    dtype: Dtype = "float32"
    synthesis: SynthesisRecipe = SynthesisRecipe()
    teacher: TeacherRecipe = TeacherRecipe()
