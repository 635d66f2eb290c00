"""Estimates: shares that were counted, how sure they are, and which is the largest."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

Z = 1.959964  # of a two-sided 95 % interval


@dataclass(frozen=True)
class Estimate:
    """A share 0..1 with its 95 % interval."""

    value: float
    low: float
    high: float


def best_of(found: Mapping[str, Estimate]) -> str:
    """The name of the largest share, of at least one; of equals the first: the cheaper ones come first."""
    return max(found, key=lambda name: found[name].value)


def mean_of(found: Sequence[Estimate]) -> Estimate:
    """The mean of independent shares, at least one; its interval by MOVER from theirs (Zou & Donner 2008)."""
    mean = sum(one.value for one in found) / len(found)
    down = math.sqrt(sum((one.value - one.low) ** 2 for one in found)) / len(found)
    up = math.sqrt(sum((one.high - one.value) ** 2 for one in found)) / len(found)
    return Estimate(mean, max(mean - down, 0.0), min(mean + up, 1.0))


def wilson(hits: int, of: int) -> Estimate:
    """A share with its Wilson score interval (Wilson 1927)."""
    share, spread = hits / of, Z * Z / of
    middle = (share + spread / 2) / (1 + spread)
    half = Z / (1 + spread) * math.sqrt(share * (1 - share) / of + spread / (4 * of))
    return Estimate(share, max(middle - half, 0.0), min(middle + half, 1.0))
