"""How sure a figure is: exact laws where there are any, intervals where there are none."""

import math
from collections.abc import Callable, Sequence
from decimal import Decimal
from statistics import NormalDist

from scipy.special import betaincinv

CONFIDENCE = 0.95
HALVINGS = 60

Interval = tuple[float, float]


def proportion(hits: int, trials: int, confidence: float = CONFIDENCE) -> Interval:
    """The exact two-sided interval of a share (Clopper and Pearson, 1934); (0, 1) if nothing was tried."""
    tail = (1 - confidence) / 2
    low = float(betaincinv(hits, trials - hits + 1, tail)) if hits else 0.0
    high = float(betaincinv(hits + 1, trials - hits, 1 - tail)) if hits < trials else 1.0
    return low, high


def ranks(nearer: int, samples: int, fresh: int, rank: int) -> Decimal:
    """P(at least `nearer` of the samples lie below the rank-th smallest of the fresh distances | all orders equally likely).

    That is: of the first nearer + rank - 1 in the joint order, at most rank - 1 are fresh; a tail of the hypergeometric law.
    """
    first = nearer + rank - 1
    ways = sum(math.comb(fresh, few) * math.comb(samples, first - few) for few in range(min(rank, first + 1)))
    return Decimal(ways) / Decimal(math.comb(samples + fresh, first))


def split(visits: Sequence[int], images: int, heldout: int, seen: int) -> Decimal:
    """P(`heldout` of `images`, taken at random, have at most `seen` visits | which images were visited how often).

    `visits` are those of the visited images, each at least 1. Exact: the ways to take some of the visited images with a sum of
    at most `seen`, and the others from those without a visit.
    """
    ways = {(0, 0): 1}
    for count in visits:
        for (taken, total), number in list(ways.items()):
            if taken < heldout and total + count <= seen:
                ways[taken + 1, total + count] = ways.get((taken + 1, total + count), 0) + number
    rest = images - len(visits)
    good = sum(number * math.comb(rest, heldout - taken) for (taken, _), number in ways.items())
    return Decimal(good) / Decimal(math.comb(images, heldout))


def auc_deviation(auc: float, members: int, others: int) -> float:
    """The standard error of an area under the curve that is truly `auc` (Hanley and McNeil, 1982, for exponential scores)."""
    both_members, both_others = auc / (2 - auc), 2 * auc**2 / (1 + auc)
    spread = auc * (1 - auc) + (members - 1) * (both_members - auc**2) + (others - 1) * (both_others - auc**2)
    return math.sqrt(max(spread, 0.0) / (members * others))


def auc_bound(auc: float, members: int, others: int, tail: float) -> float:
    """The lower bound of an area: the true area from which `auc` or more is found with a chance of `tail`.

    A score interval in the manner of Wilson (Newcombe, 2006): the deviation is that of the true area, so that areas of 1 from a
    handful of images have a wide interval too, where DeLong's has none. The upper bound of `auc` is 1 - auc_bound(1 - auc).
    """
    far = NormalDist().inv_cdf(1 - tail)
    return _root(lambda true: auc - true - far * auc_deviation(true, members, others), 0.0, auc)


def auc_interval(auc: float, members: int, others: int, confidence: float = CONFIDENCE) -> Interval:
    """The two-sided score interval of an area under the curve."""
    tail = (1 - confidence) / 2
    return auc_bound(auc, members, others, tail), 1 - auc_bound(1 - auc, others, members, tail)


def _root(falling: Callable[[float], float], low: float, high: float) -> float:
    """Where a falling function crosses 0 between its ends; `low` if it is below 0 from the start."""
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if falling(middle) > 0 else (low, middle)
    return low
