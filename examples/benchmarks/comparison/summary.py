"""From the rows of all draws to one table: mean, deviation over the draws, and a paired interval of `auto` minus `pooled`."""

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.stats import t as student  # type: ignore[import-untyped]

from comparison.rows import Row, measures
from fednode.learning import evaluation
from fednode.learning.dataset import Evaluated

RESAMPLES = 4000
LEVEL = 0.95

Summary = dict[str, Any]


@dataclass
class Found:
    """Rows by method and draw, and each draw's test and validation images."""

    rows: dict[str, dict[str, Row]] = field(default_factory=dict)
    tests: dict[str, Evaluated] = field(default_factory=dict)
    held: dict[str, Evaluated] = field(default_factory=dict)


def summarise(found: Found) -> dict[str, Summary]:
    """Method -> {mean, sd, seeds, validation, auroc, f1, ece, bytes, network_calls, seconds, ...}.

    `seeds` has the accuracy of each draw by name; `sd` is the sample's deviation over the draws, None for a single one.
    `validation` is the accuracy on validation images, by which recipes may be chosen.
    """
    rows = found.rows
    summaries = {method: _summary(by_draw, found) for method, by_draw in rows.items()}
    if "auto" in rows and "pooled" in rows:
        summaries["auto"]["minus_pooled"] = minus(rows["auto"], rows["pooled"], found.tests)
    return summaries


def confusion(by_draw: Mapping[str, Row], tests: Mapping[str, Evaluated]) -> list[list[int]]:
    """The confusion of a row with one predictor, added up over its draws."""
    tables = [evaluation.confusion(row.test[0], tests[name].targets) for name, row in by_draw.items()]
    return np.sum(tables, axis=0).tolist()  # type: ignore[no-any-return]


def minus(one: Mapping[str, Row], other: Mapping[str, Row], tests: Mapping[str, Evaluated]) -> Summary:
    """The difference of two rows' accuracies, with 95 % intervals.

    One is by a bootstrap over test images, each with the mean of all draws that tested it; the other by Student's t over the
    draws (None for a single one).
    """
    by_image: dict[bytes, list[float]] = {}
    by_draw = []
    for name, test in tests.items():
        gaps = _rightness(one[name], test) - _rightness(other[name], test)
        by_draw.append(float(gaps.mean()))
        for pixels, gap in zip(test.images, gaps, strict=True):
            by_image.setdefault(hashlib.sha256(pixels.tobytes()).digest(), []).append(float(gap))
    gaps = np.array([np.mean(found) for found in by_image.values()])
    return {
        "mean": float(np.mean(by_draw)),
        "images": len(gaps),
        "interval_images": bootstrap(gaps),
        "interval_draws": student_interval(by_draw),
    }


def bootstrap(values: npt.NDArray[np.float64]) -> list[float]:
    """The 95 % percentile interval of the mean of `values` over resamples of them (Efron 1979)."""
    rng = np.random.default_rng(0)
    means = [values[rng.integers(len(values), size=len(values))].mean() for _ in range(RESAMPLES)]
    return [float(end) for end in np.quantile(means, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])]


def student_interval(values: Sequence[float]) -> list[float] | None:
    """mean +- t_(n-1) s / sqrt(n), the 95 % interval of the mean of independent normal values; None for fewer than two."""
    if len(values) < 2:
        return None
    reach = student.ppf((1 + LEVEL) / 2, len(values) - 1) * np.std(values, ddof=1) / math.sqrt(len(values))
    return [float(np.mean(values) - reach), float(np.mean(values) + reach)]


def _summary(by_draw: Mapping[str, Row], draws: Found) -> Summary:
    tests = draws.tests
    found = {name: measures(row.test, tests[name].targets) for name, row in by_draw.items()}
    accuracies = {name: one["accuracy"] for name, one in found.items()}
    summary = spread(list(accuracies.values())) | {"seeds": accuracies}
    held = [measures(row.validation, draws.held[name].targets)["accuracy"] for name, row in by_draw.items()]
    summary["validation"] = spread(held)
    for measure in ("auroc", "f1", "ece"):
        summary[measure] = spread([one[measure] for one in found.values()])
    rows = list(by_draw.values())
    summary["bytes"] = {way: round(np.mean([row.bytes[way] for row in rows])) for way in rows[0].bytes}
    summary["network_calls"] = float(np.mean([row.calls for row in rows]))
    summary["seconds"] = float(np.mean([row.seconds for row in rows]))
    if len(rows[0].test) > 1:
        summary["best_on_test"] = float(np.mean([_best(row, tests[name]) for name, row in by_draw.items()]))
    if rows[0].chosen:
        summary["chosen"] = {name: row.chosen for name, row in by_draw.items()}
    return summary


def spread(values: Sequence[float | None]) -> Summary:
    """Mean and deviation of the values that there are."""
    numbers = [value for value in values if value is not None]
    mean = float(np.mean(numbers)) if numbers else None
    return {"mean": mean, "sd": float(np.std(numbers, ddof=1)) if len(numbers) > 1 else None}


def _best(row: Row, test: Evaluated) -> float:
    """The accuracy of the predictor that happens to be best on the test images: an upper bound, never a choice."""
    return float(max((one.argmax(1) == test.targets).mean() for one in row.test))


def _rightness(row: Row, test: Evaluated) -> npt.NDArray[np.float64]:
    """The share of a row's predictors that are right about each image (N,)."""
    right: npt.NDArray[np.float64] = (row.test.argmax(2) == test.targets).mean(axis=0)
    return right
