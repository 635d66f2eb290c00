"""Pictures for people: confusion matrices, and real beside synthetic images. Drawn without a display."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

Images = npt.NDArray[np.uint8]


def draw_confusion(path: Path, tables: Mapping[str, list[list[int]]], labels: Sequence[str]) -> None:
    """One matrix for each product: rows are the true labels, columns the answers, shades are shares of the row."""
    side = max(4.0, 0.45 * len(labels))
    figure, axes = _subplots(1, max(1, len(tables)), figsize=(side * max(1, len(tables)), side))
    for axis, (name, table) in zip(axes[0], tables.items(), strict=False):
        counts = np.array(table)
        axis.imshow(counts / np.maximum(counts.sum(1, keepdims=True), 1), cmap="Blues", vmin=0, vmax=1)
        axis.set_title(f"{name}: {np.trace(counts)} of {counts.sum()} right")
        axis.set_xticks(range(len(labels)), labels, rotation=90)
        axis.set_yticks(range(len(labels)), labels)
        axis.set_xlabel("answer")
        axis.set_ylabel("label")
        for (row, column), count in np.ndenumerate(counts):
            if count:
                shade = "white" if count * 2 > counts[row].sum() else "black"
                axis.text(column, row, str(count), ha="center", va="center", fontsize=7, color=shade)
    figure.tight_layout()
    figure.savefig(path, dpi=120, format="png")


def draw_samples(path: Path, rows: Mapping[str, tuple[Images, Images]]) -> None:
    """For each label a row: real images on the left, synthetic ones on the right; each uint8 (N, C, H, W)."""
    figure, axes = _subplots(len(rows), 2, figsize=(10, 0.55 * len(rows) + 0.6))
    for pair, (label, both) in zip(axes, rows.items(), strict=True):
        for axis, images in zip(pair, both, strict=True):
            axis.imshow(_strip(images), cmap="gray", vmin=0, vmax=255, interpolation="nearest")
            axis.set_xticks([])
            axis.set_yticks([])
        pair[0].set_ylabel(label, rotation=0, ha="right", va="center")
    axes[0][0].set_title("real")
    axes[0][1].set_title("synthetic")
    figure.tight_layout()
    figure.savefig(path, dpi=120, format="png")


def _subplots(rows: int, columns: int, figsize: tuple[float, float]) -> tuple[Any, npt.NDArray[Any]]:
    """A figure and its axes (rows, columns), without pyplot, whose windows and global state a worker has no use for."""
    from matplotlib.figure import Figure  # noqa: PLC0415  (most workers never draw)

    figure = Figure(figsize=figsize)
    return figure, figure.subplots(rows, columns, squeeze=False)


def _strip(images: Images) -> Images:
    """Images side by side with a gap: (H, W') grey or (H, W', 3) colour."""
    padded = np.pad(images, ((0, 0), (0, 0), (0, 0), (0, 1)), constant_values=255)
    joined = padded.transpose(1, 2, 0, 3).reshape(images.shape[1], images.shape[2], -1)
    return joined[0] if len(joined) == 1 else joined.transpose(1, 2, 0)
