"""Measures of answers: accuracy, macro AUROC, macro F1, expected calibration error, and the confusion matrix.

All take probabilities (N, K) and the indices of the true labels (N,), int64.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from fednode.estimate import wilson

Probabilities = npt.NDArray[np.float64]
Targets = npt.NDArray[np.int64]

BINS = 15
LEAST = 1e-12  # a probability of 0 of the true label counts as this much


def metrics(probabilities: Probabilities, targets: Targets) -> dict[str, float | None]:
    """Accuracy, macro AUROC (None if the true labels are all one), F1 and ECE, each 0..1."""
    return {
        "accuracy": float((probabilities.argmax(1) == targets).mean()),
        "macro_auroc": macro_auroc(probabilities, targets),
        "f1": macro_f1(probabilities, targets),
        "ece": calibration_error(probabilities, targets),
    }


def product_metrics(probabilities: Probabilities, targets: Targets, labels: Sequence[str]) -> dict[str, Any]:
    """What `metrics` says, the log loss in nats, accuracy's 95 % interval, and each label's recall with its interval.

    A label without images has neither.
    """
    table = confusion(probabilities, targets)
    hits, counts = table.diagonal().tolist(), table.sum(1).tolist()
    return {
        **metrics(probabilities, targets),
        "log_loss": log_loss(probabilities, targets),
        "interval": _interval(sum(hits), sum(counts)),
        "labels": [
            {
                "label": label,
                "images": count,
                "recall": hit / count if count else None,
                "interval": _interval(hit, count) if count else None,
            }
            for label, hit, count in zip(labels, hits, counts, strict=True)
        ],
    }


def log_loss(probabilities: Probabilities, targets: Targets) -> float:
    """The mean of -ln p(true label), in nats."""
    return float(-np.log(probabilities[np.arange(len(targets)), targets].clip(LEAST)).mean())


def _interval(hits: int, count: int) -> list[float]:
    """The 95 % interval of a share, low and high."""
    share = wilson(hits, count)
    return [share.low, share.high]


def confusion(probabilities: Probabilities, targets: Targets) -> npt.NDArray[np.int64]:
    """(K, K) counts: the row is the true label, the column the answer."""
    outputs = probabilities.shape[1]
    pairs = targets * outputs + probabilities.argmax(1)
    return np.bincount(pairs, minlength=outputs**2).reshape(outputs, outputs)


def macro_auroc(probabilities: Probabilities, targets: Targets) -> float | None:
    """Mean over the labels of the chance that one of its images ranks above another image (one against the rest).

    Labels without images, or with all of them, have no such chance and are left out; None if that leaves none.
    """
    areas = []
    for label in range(probabilities.shape[1]):
        positive = targets == label
        if positive.any() and not positive.all():
            areas.append(_auroc(probabilities[:, label], positive))
    return float(np.mean(areas)) if areas else None


def macro_f1(probabilities: Probabilities, targets: Targets) -> float:
    """Mean over the labels that are true or answered at least once of F1 = 2 TP / (2 TP + FP + FN)."""
    table = confusion(probabilities, targets)
    true, answered, hits = table.sum(1), table.sum(0), table.diagonal()
    seen = (true + answered) > 0
    return float((2 * hits[seen] / (true + answered)[seen]).mean())


def calibration_error(probabilities: Probabilities, targets: Targets) -> float:
    """ECE: sum over 15 equal bins of confidence of share |accuracy - mean confidence| (Guo et al., 1706.04599)."""
    confidence = probabilities.max(1)
    right = probabilities.argmax(1) == targets
    bins = np.minimum((confidence * BINS).astype(int), BINS - 1)
    gaps = np.bincount(bins, right - confidence, BINS)
    return float(np.abs(gaps).sum() / len(targets))


def _auroc(values: npt.NDArray[np.float64], positive: npt.NDArray[np.bool_]) -> float:
    """The Mann-Whitney statistic over its maximum; ties count one half."""
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(counts) - (counts - 1) / 2)[inverse]
    n = int(positive.sum())
    return float((ranks[positive].sum() - n * (n + 1) / 2) / (n * (len(values) - n)))
