"""What people see of fedmitr.py: tables and pictures."""

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from comparison.views import size
from matplotlib.figure import Figure
from rich import box
from rich.table import Table

from fednode.learning.inversion import Inverted
from fednode.vit_recipe import InversionRecipe
from mitr.budgets import VARIANT
from mitr.calls import patches_left

SHOWN = 10
TINT = np.array([76, 114, 176])
GAP = ((0, 0), (0, 0), (0, 1), (0, 0))
COLUMNS = (
    "method",
    "accuracy",
    "validation",
    "AUROC",
    "ECE",
    "wire",
    "images",
    "calls",
    "tokens",
    "learned",
    "seconds",
)
UNITS = (("G", 1e9), ("M", 1e6), ("k", 1e3))


def table(summary: Mapping[str, Any], title: str) -> Table:
    """The rows of a partition; `calls` and `tokens` of classifiers, `learned`: images that went through the student."""
    found = Table(title=title, box=box.SIMPLE, pad_edge=False)
    for name in COLUMNS:
        found.add_column(name, no_wrap=True)
    for method, row in summary.items():
        spread = "" if row["sd"] is None else f" ± {row['sd']:.4f}"
        measures = [_number(row[name]["mean"]) for name in ("validation", "auroc", "ece")]
        spent = row.get("spent", {})
        amounts = [
            short(spent[name]) if name in spent else "-" for name in ("images", "calls", "tokens", "student_images")
        ]
        moved, seconds = size(row["bytes"]["wire"]), f"{row['seconds']:.0f}"
        found.add_row(method, f"{row['mean']:.4f}{spread}", *measures, moved, *amounts, seconds)
    return found


def theory_table(found: Mapping[str, Mapping[str, float]]) -> Table:
    """The theory's figures by kind of images."""
    columns = list(next(iter(found.values())))
    made = Table(title="per-image gradients of the expert, and stability bounds", box=box.SIMPLE, pad_edge=False)
    for name in ("images", *(column.replace("_", " ") for column in columns)):
        made.add_column(name, no_wrap=True)
    for kind, figures in found.items():
        made.add_row(kind, *(f"{figures[column]:.3g}" for column in columns))
    return made


def notes(summary: Mapping[str, Any]) -> Iterator[str]:
    """What `fedmitr` wins or loses against each row that is none of its variants, and what modes of inversion took."""
    for other, gap in summary.get("fedmitr", {}).get("minus", {}).items():
        if not VARIANT.fullmatch(other):
            yield f"fedmitr minus {other}: {100 * gap['mean']:+.2f} points; better in {gap['wins']} of {gap['draws']} draws."
    took = {
        found[1]: row["spent"]["inversion_seconds"]
        for name, row in summary.items()
        if (found := VARIANT.fullmatch(name)) and not found[3]
    }
    if len(took) > 1:
        yield "Inversion took " + ", ".join(f"{seconds:.1f} s ({mode})" for mode, seconds in took.items()) + "."


def short(count: float) -> str:
    """A count in the unit that leaves a small number."""
    return next((f"{count / unit:.1f} {name}" for name, unit in UNITS if count >= unit), f"{count:.0f}")


def draw_alphas(path: Path, found: Mapping[str, Mapping[str, Any]], methods: Sequence[str]) -> None:
    """Accuracy against the alpha of Dirichlet partitions, and against the labels of a node."""
    figure = Figure(figsize=(11, 5))
    axes = figure.subplots(1, 2, sharey=True)
    for axis, kind, name in zip(axes, ("dirichlet", "shards"), ("alpha", "labels a node"), strict=True):
        points = {float(match[1]): rows for part, rows in found.items() if (match := re.match(rf"{kind}:(.+)", part))}
        for number, method in enumerate(methods):
            known = [(at, points[at][method]) for at in sorted(points) if method in points[at]]
            style = {"linewidth": 2.5} if method == "fedmitr" else {"alpha": 0.8}
            axis.errorbar(
                [at for at, _ in known],
                [row["mean"] for _, row in known],
                yerr=[row["sd"] or 0 for _, row in known],
                label=method,
                marker="os^v"[number // 10 % 4],
                color=f"C{number % 10}",
                capsize=2,
                **style,
            )
        axis.set_xlabel(name)
        axis.set_ylim(0, 1.02)
    axes[0].set_xscale("log")
    axes[0].set_ylabel("test accuracy")
    axes[1].legend(fontsize=7, loc="center left", bbox_to_anchor=(1, 0.5))
    figure.tight_layout()
    figure.savefig(path, dpi=120, format="png")


def draw_inverted(path: Path, made: Mapping[str, Inverted], grid: int, labels: Sequence[str]) -> None:
    """For each mode a row of images over a row of the same ones, whose other patches are tinted."""
    figure = Figure(figsize=(SHOWN, 2.2 * len(made)))
    axes = figure.subplots(2 * len(made), 1)
    for number, (mode, found) in enumerate(made.items()):
        images = found.images[:SHOWN].permute(0, 2, 3, 1).numpy().repeat(3 // found.images.shape[1], 3)
        own = np.stack([_mask(kept, grid, images.shape[1]) for kept in found.kept[:SHOWN].numpy()])
        for axis, row in zip(
            axes[2 * number :], (images, np.where(own, images, (images + 2 * TINT) // 3)), strict=False
        ):
            axis.imshow(np.concatenate(np.pad(row, GAP, constant_values=255), 1), interpolation="nearest")
            axis.set_axis_off()
        names = ", ".join(labels[int(target)] for target in found.targets[:SHOWN])
        axes[2 * number].set_title(f"{mode}: {names}", fontsize=8, loc="left")
    figure.tight_layout()
    figure.savefig(path, dpi=120, format="png")


def draw_tokens(path: Path, recipes: Mapping[str, InversionRecipe], patches: int) -> None:
    """The patches that each step of an inversion sees."""
    figure = Figure(figsize=(6, 4))
    axis = figure.subplots()
    for name, recipe in recipes.items():
        left = patches_left(recipe, patches)
        share = sum(left[:-1]) / (patches * recipe.steps)
        axis.step(range(len(left)), left, where="post", label=f"{name}: {share:.0%} of all")
    axis.set_xlabel("step")
    axis.set_ylabel("patches seen")
    axis.set_ylim(0, patches * 1.05)
    axis.legend(fontsize=8)
    figure.tight_layout()
    figure.savefig(path, dpi=120, format="png")


def draw_theory(path: Path, found: Mapping[str, Mapping[str, float]]) -> None:
    """The theory's figures as bars, one panel for each."""
    columns = list(next(iter(found.values())))
    figure = Figure(figsize=(3 * len(columns), 3.4))
    for axis, column in zip(figure.subplots(1, len(columns), squeeze=False)[0], columns, strict=True):
        axis.bar(range(len(found)), [figures[column] for figures in found.values()])
        axis.set_xticks(range(len(found)), list(found), rotation=60, ha="right", fontsize=7)
        axis.set_title(column.replace("_", " "), fontsize=9)
    figure.tight_layout()
    figure.savefig(path, dpi=120, format="png")


def _mask(kept: npt.NDArray[np.int64], grid: int, side: int) -> npt.NDArray[np.bool_]:
    """(side, side, 1): true at the patches `kept`."""
    there = np.zeros(grid**2, dtype=bool)
    there[kept] = True
    patch = -(-side // grid)
    return np.kron(there.reshape(grid, grid), np.ones((patch, patch), dtype=bool))[:side, :side, None]


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.4f}"
