"""The pictures of an audit's page, as PNG bytes: images side by side, histograms of scores, and a map of the features."""

import io
import math
from collections.abc import Mapping
from typing import Any

import torch
from PIL import Image
from torch import Tensor

from fednode.learning.audit.copies import Points
from fednode.learning.audit.membership import Scores

TILE = 48  # pixels that an image has at least on the page
GAP = 2
MAP_POINTS = 120  # of each kind at most
MAP_LEAST = 10  # of all kinds together: fewer make no map
TRAIN, HELDOUT, SAMPLES = "#1f77b4", "#d62728", "#7f7f7f"


def tiles(images: Tensor, columns: int) -> bytes:
    """uint8 images (N, C, H, W) in rows of `columns`, small ones enlarged without smoothing."""
    times = max(1, math.ceil(TILE / images.shape[-1]))
    large = images.repeat_interleave(times, 2).repeat_interleave(times, 3)
    count, channels, height, width = large.shape
    rows = math.ceil(count / columns)
    sheet = torch.full((channels, rows * (height + GAP), columns * (width + GAP)), 255, dtype=torch.uint8)
    for place, image in enumerate(large):
        top, left = place // columns * (height + GAP), place % columns * (width + GAP)
        sheet[:, top : top + height, left : left + width] = image
    return _png(sheet)


def histograms(scores: Mapping[str, Scores]) -> bytes:
    """For each attack the scores of training and of held-out images, as shares of their kind."""
    figure, axes = _subplots(len(scores))
    for axis, (name, one) in zip(axes, scores.items(), strict=True):
        both = torch.cat([one.members, one.others])
        bins = torch.linspace(float(both.min()), float(both.max()) + 1e-6, 25).tolist()
        for part, colour, kind in ((one.members, TRAIN, "training"), (one.others, HELDOUT, "held out")):
            shares = [1 / len(part)] * len(part)
            axis.hist(part.tolist(), bins=bins, weights=shares, color=colour, alpha=0.55, label=f"{kind} ({len(part)})")
        axis.set_title(name)
        axis.set_xlabel("score (higher looks more like a member)")
        axis.legend(fontsize=8)
    return _saved(figure)


def feature_map(points: Points) -> bytes | None:
    """t-SNE (van der Maaten and Hinton, 2008) of samples and real images, at most MAP_POINTS of each; None for too few."""
    kinds = [part[:MAP_POINTS] for part in (points.samples, points.train, points.holdout)]
    if sum(map(len, kinds)) < MAP_LEAST:
        return None
    from sklearn.manifold import TSNE  # noqa: PLC0415  (a second of CPU, and small images need no map)

    everything = torch.cat(kinds)
    perplexity = min(30.0, (len(everything) - 1) / 3)
    placed = TSNE(perplexity=perplexity, init="pca", random_state=0, max_iter=500).fit_transform(everything.numpy())
    figure, (axis,) = _subplots(1)
    start = 0
    for part, colour, kind in zip(kinds, (SAMPLES, TRAIN, HELDOUT), ("samples", "training", "held out"), strict=True):
        here = placed[start : start + len(part)]
        axis.scatter(here[:, 0], here[:, 1], s=12, color=colour, label=kind)
        start += len(part)
    axis.set_xticks([])
    axis.set_yticks([])
    axis.legend(fontsize=8)
    return _saved(figure)


def _subplots(columns: int) -> tuple[Any, list[Any]]:
    from matplotlib.figure import Figure  # noqa: PLC0415  (half a second of CPU, and most workers never draw)

    figure = Figure(figsize=(4.2 * columns, 3.0))
    return figure, list(figure.subplots(1, columns, squeeze=False)[0])


def _saved(figure: Any) -> bytes:
    stream = io.BytesIO()
    figure.tight_layout()
    figure.savefig(stream, dpi=90, format="png")
    return stream.getvalue()


def _png(sheet: Tensor) -> bytes:
    """uint8 (C, H, W) as a PNG."""
    pixels = sheet.permute(1, 2, 0).squeeze(-1).contiguous().numpy()
    stream = io.BytesIO()
    Image.fromarray(pixels).save(stream, "PNG")
    return stream.getvalue()
