"""What people see: progress with the time left on standard error, the table, and pictures."""

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from rich import box
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table

from comparison.making import Making
from fednode.learning import pictures
from fednode.learning.synthesis import samples

SAMPLES = 8
UNITS = (("GB", 1e9), ("MB", 1e6), ("kB", 1e3))


class Step:
    """The bar of one step; where no terminal watches, a line when it is full."""

    def __init__(self, progress: Progress, bar: TaskID, text: str, total: int) -> None:
        self._progress, self._bar, self._text, self._total = progress, bar, text, total
        self._began = time.monotonic()
        self._told = progress.console.is_terminal

    def set(self, done: float) -> None:
        """Show how much is done."""
        self._progress.update(self._bar, completed=done)
        seconds = time.monotonic() - self._began
        if done >= self._total and not self._told and seconds >= 1:
            self._told = True
            self._progress.console.print(f"{self._text}: {self._total} done in {seconds:.0f} s")


class Display:
    """Two bars: the rows of all draws, and the step that is at work."""

    def __init__(self, progress: Progress, rows: int) -> None:
        self._progress = progress
        self._rows = progress.add_task("rows", total=rows)
        self._step = progress.add_task("", total=1)
        self._name = ""

    def enter(self, name: str, method: str) -> None:
        """Say which row of which draw is at work."""
        self._name = name
        self._progress.update(self._rows, description=f"seed {name}: {method}")

    def leave(self) -> None:
        """One row more is done."""
        self._progress.advance(self._rows)

    def show(self, what: str, total: int) -> Step:
        """The bar of a step of `total` parts."""
        text = f"seed {self._name}: {what}"
        self._progress.reset(self._step, description=text, total=total)
        return Step(self._progress, self._step, text, total)


@contextmanager
def display(rows: int) -> Iterator[Display]:
    """Progress on standard error while the block runs."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.completed:.1f} of {task.total}"),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        yield Display(progress, rows)


def table(summary: Mapping[str, Any], title: str) -> Table:
    """The rows for people."""
    found = Table(title=title, box=box.SIMPLE, pad_edge=False)
    for name in ("method", "accuracy", "AUROC", "F1", "ECE", "wire", "calls", "seconds"):
        found.add_column(name, no_wrap=True)
    for method, row in summary.items():
        spread = "" if row["sd"] is None else f" ± {row['sd']:.4f}"
        measures = [_number(row[name]["mean"]) for name in ("auroc", "f1", "ece")]
        moved, calls, seconds = size(row["bytes"]["wire"]), f"{row['network_calls']:g}", f"{row['seconds']:.0f}"
        found.add_row(method, f"{row['mean']:.4f}{spread}", *measures, moved, calls, seconds)
    return found


def notes(summary: Mapping[str, Any]) -> Iterator[str]:
    """What the table has no column for."""
    if chosen := summary.get("auto", {}).get("chosen"):
        yield "auto took " + ", ".join(f"{name} (seed {seed})" for seed, name in chosen.items()) + "."
    if gap := summary.get("auto", {}).get("minus_pooled"):
        draws = gap["interval_draws"]
        over = "" if draws is None else f", {_interval(draws)} over the draws"
        yield (
            f"auto minus pooled: {100 * gap['mean']:+.2f} points; 95 % interval {_interval(gap['interval_images'])} over "
            f"{gap['images']} test images{over}."
        )
    for method, row in summary.items():
        if many := next((way for way in row["bytes"] if way.startswith("rounds_")), None):
            yield f"{many.removeprefix('rounds_')} rounds of {method} would take {size(row['bytes'][many])}."
            break


def size(count: float) -> str:
    """Bytes in the unit that leaves a small number."""
    return next((f"{count / unit:.1f} {name}" for name, unit in UNITS if count >= unit), f"{count:.0f} B")


def draw_bars(path: Path, summary: Mapping[str, Any], title: str) -> None:
    """The accuracy of each method with its deviation over the draws."""
    names = list(summary)[::-1]
    means = [summary[name]["mean"] for name in names]
    spreads = [summary[name]["sd"] or 0 for name in names]
    figure = Figure(figsize=(7, 0.35 * len(names) + 1.2))
    axis = figure.subplots()
    axis.barh(
        names,
        means,
        xerr=spreads if any(spreads) else None,
        color=["#c44e52" if name == "auto" else "#4c72b0" for name in names],
        capsize=3,
    )
    for at, mean in enumerate(means):
        axis.text(mean + spreads[at] + 0.01, at, f"{mean:.3f}", va="center", fontsize=8)
    axis.set_xlim(0, 1.12)
    axis.set_xlabel("test accuracy")
    axis.set_title(title, fontsize=9)
    figure.tight_layout()
    figure.savefig(path, dpi=120, format="png")


def draw_samples(path: Path, making: Making) -> None:
    """Real images of each label beside samples of its first donor."""
    rows = {}
    recipe = making.recipes.expert.synthesis.sampler
    real = {label: own.train for node in making.draw.nodes for label, own in node.own.items()}
    for label, donors in making.donors().items():
        drawn = samples(donors[0], range(SAMPLES), recipe, making.crew.session.numerics)
        rows[label] = (np.asarray(real[label][:SAMPLES]), drawn.numpy())
    pictures.draw_samples(path, rows)


def draw_confusion(path: Path, counts: list[list[int]], labels: Sequence[str]) -> None:
    """The confusion of `auto`, added up over the draws."""
    pictures.draw_confusion(path, {"auto": counts}, labels)


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.4f}"


def _interval(ends: Sequence[float]) -> str:
    return f"{100 * ends[0]:+.2f} to {100 * ends[1]:+.2f}"
