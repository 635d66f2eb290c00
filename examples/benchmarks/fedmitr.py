"""What an exchange of classifiers reaches by FedMITR, beside what else can be made of them, in one table for each partition.

    python examples/benchmarks/fedmitr.py --data SOURCE --partition dirichlet:0.1,shards:2 --seeds 0,1,2 --budget smoke|cpu|gpu

Without daemons, but by the very functions that a node's workers run. All networks but those of generators' experts are the same
ViT. The rows:

    pooled            the ViT on the real training images of all nodes in one place
    alone             the nodes' classifiers, their mean              logit_ensemble    the mean of their logits
    fedavg            the average of ViTs that started alike, after one round; fedavg_rounds, fedprox: after many
    lda_BACKBONE      discriminants on frozen features (FedCGS): pixels, an untrained ViT (random), or the classifier of the node
                      with most labels (node)
    deepinversion, dense, coboosting, fedftg        students of the classifiers by these methods
    fedmitr           an expert of a node without images by the default recipe; fedmitr_MODE_READING[_PERCENT] by another mode of
                      inversion (dense, sparse, random, rebirth), reading (none, subset, dense), and share of patches that stop
    fedmitr_experts   the experts of the nodes, which see own images too, their mean; fedmitr_product: their product
    product, generative     what an exchange of generators reaches, as in silos.py

Each row that makes images has as many calls of classifiers and as many steps of the student as `fedmitr`. Validation images,
which nodes hold out, choose; test images choose nothing. Every seed is another draw of images, partition, classifiers and
generators. What was made is kept in a cache: an interrupted run goes on where it was.
"""

import argparse
import json
import os
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # cuBLAS is deterministic only with this

import numpy as np
from comparison import arguments, summary
from comparison.crew import Crew
from comparison.draws import Cut, Task, draw, open_task
from comparison.making import Making
from comparison.rows import Row
from comparison.shelf import Shelf
from comparison.summary import Found
from comparison.views import display
from mitr import budgets, views
from mitr.budgets import VARIANT
from mitr.exchange import Exchange
from mitr.measured import KINDS, Measured
from mitr.rows import Rows
from rich.console import Console

from fednode.errors import ExitCode, FednodeError
from fednode.learning.session import make_deterministic, open_session

WIDTH = 150  # of the table in a file or a pipe
DRAWN_MODES = ("dense", "sparse", "random", "rebirth")


def main(words: Sequence[str] | None = None) -> int:
    """Run the comparison; the exit code."""
    asked = _arguments(words)
    try:
        task = open_task(asked.data, asked.labels, asked.image_size, asked.per_label, asked.test_images)
        found, measured = compare(task, asked)
        rows = {partition: summarise(one) for partition, one in found.items()}
        results: dict[str, Any] = {"data": asked.data, "budget": asked.budget, "partitions": rows}
        if asked.theory:
            results["theory"] = measured.theory()
        if asked.out:
            _write(asked.out, results, measured)
    except FednodeError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        print("Interrupted. The same command goes on from here.", file=sys.stderr)
        return ExitCode.INTERRUPTED
    if asked.json:
        print(json.dumps(results, indent=2))
    else:
        _show(results, f"{asked.data.rpartition('/')[2]}, budget {asked.budget}, draws: {len(asked.seeds)}")
    return ExitCode.OK


def compare(task: Task, asked: argparse.Namespace) -> tuple[dict[str, Found], Measured]:
    """What was found for each partition, and the first draw to measure more of. Raises FednodeError."""
    budget = _budget(asked, task)
    partitions, methods = asked.partition or budget.partitions, asked.methods or budget.methods
    make_deterministic(1)
    crew = Crew(asked.jobs, open_session(asked.device, 1), Shelf(asked.cache))
    found = {name: Found({method: {} for method in methods}) for name in partitions}
    exchanges = []
    with display(len(partitions) * len(asked.seeds) * len(methods)) as shown:
        for name in partitions:
            for seed in asked.seeds:
                made = draw(task, name, asked.nodes, Cut(seed), crew.shelf)
                making = Making(task, made, crew, budget.generators.recipes(task.image), shown.show)
                exchanges.append(Exchange(making, budget))
                found[name].tests[made.name], found[name].held[made.name] = made.test, made.validation
                for method in methods:
                    shown.enter(f"{made.name}, {name}", method)
                    found[name].rows[method][made.name] = Rows(exchanges[-1]).row(method)
                    shown.leave()
    return found, Measured(exchanges[0])


def summarise(found: Found) -> dict[str, Any]:
    """Each row's figures as in silos.py, its accuracy on validation images, what it spent, and `fedmitr` against all others."""
    rows = summary.summarise(found)
    for method, by_draw in found.rows.items():
        if spent := [row.told for row in by_draw.values() if row.told]:
            rows[method]["spent"] = {name: float(np.mean([one[name] for one in spent])) for name in spent[0]}
    if ours := found.rows.get("fedmitr"):
        others = {method: row for method, row in found.rows.items() if method != "fedmitr"}
        rows["fedmitr"]["minus"] = {method: _gap(rows, found, ours, row, method) for method, row in others.items()}
    return rows


def _gap(
    rows: dict[str, Any], found: Found, ours: dict[str, Row], others: dict[str, Row], method: str
) -> dict[str, Any]:
    """The difference to another row over images and draws, and in how many draws `fedmitr` is better."""
    pairs = [(rows["fedmitr"]["seeds"][name], rows[method]["seeds"][name]) for name in found.tests]
    wins = sum(one > other for one, other in pairs)
    return {**summary.minus(ours, others, found.tests), "wins": wins, "draws": len(pairs)}


def _budget(asked: argparse.Namespace, task: Task) -> budgets.Budget:
    found = budgets.budget_of(asked.budget, task.image)
    generators = found.generators.changed(asked.preset, asked.fit_images, None, asked.dtype)
    return replace(found, generators=generators, dtype=asked.dtype or found.dtype)


def _show(results: dict[str, Any], title: str) -> None:
    console = Console(width=None if sys.stdout.isatty() else WIDTH)
    for partition, rows in results["partitions"].items():
        console.print(views.table(rows, f"{title}, {partition}"))
        for note in views.notes(rows):
            console.print(note)
    if "theory" in results:
        console.print(views.theory_table(results["theory"]))


def _write(out: Path, results: dict[str, Any], measured: Measured) -> None:
    """results.json and the pictures."""
    out.mkdir(parents=True, exist_ok=True)
    (out / "results.json").write_text(json.dumps(results, indent=2) + "\n")
    exchange = measured.exchange
    inversion, grid = exchange.distil.inversion, exchange.architecture.grid
    recipes = {mode: inversion.model_copy(update={"mode": mode}) for mode in DRAWN_MODES}
    firsts = {mode: exchange.inverted(recipe)[0][0] for mode, recipe in recipes.items()}
    partitions = results["partitions"]
    plain = [method for method in next(iter(partitions.values())) if not VARIANT.fullmatch(method)]
    views.draw_alphas(out / "accuracy.png", partitions, plain)
    views.draw_inverted(out / "inverted.png", firsts, grid, exchange.labels)
    views.draw_tokens(out / "tokens.png", {mode: recipes[mode] for mode in ("dense", "sparse")}, grid**2)
    if "theory" in results:
        views.draw_theory(out / "theory.png", results["theory"])


def _arguments(words: Sequence[str] | None) -> argparse.Namespace:
    parser = arguments.parser(__doc__ or "")
    add = parser.add_argument
    add("--partition", type=arguments.words, help="dirichlet:ALPHA, shards:COUNT or silos, with commas (the budget's)")
    add("--budget", choices=budgets.BUDGETS, default="cpu")
    add("--methods", type=_methods, help="rows, with commas (those of the budget)")
    add("--theory", action="store_true", help=f"gradients and stability bounds of the first draw ({', '.join(KINDS)})")
    return parser.parse_args(words)


def _methods(text: str) -> list[str]:
    methods = arguments.words(text)
    if unknown := [name for name in methods if not budgets.is_method(name)]:
        raise argparse.ArgumentTypeError(f"{unknown[0]!r} is not a row; there are {', '.join(budgets.ALL)}")
    return methods


if __name__ == "__main__":
    sys.exit(main())
