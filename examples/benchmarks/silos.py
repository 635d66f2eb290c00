"""What generators, experts and products reach beside pooled data and averaged models, in one table.

    python examples/benchmarks/silos.py --data SOURCE --partition silos|dirichlet:0.1|shards:2 --seeds 0,1,2 --budget cpu-small

Without daemons, but by the very functions that a node's workers run: each generator and expert is a worker's request. The rows:

    pooled            the expert's network on the real training images of all nodes in one place
    alone             the same network on one node's images; the mean over the nodes
    fedavg            the average of networks that each node trained on its own images, after 1 round
    fedavg_rounds     the same after many rounds                    fedprox          the same with a proximal term, mu 0.1
    logit_ensemble    the mean logits of the nodes' own networks
    centralised       one expert from all generators, of a node without images
    experts           the nodes' experts by the default recipe, their mean; best_expert is the one that validation images prefer
    product           the product of experts; product_NAME with another recipe of experts (product_paper: FederatedFactory's)
    generative        the generators themselves                     both             the product of these two products
    auto              product or generative, whichever validation images prefer

Validation images are what the nodes hold out of their training images; test images choose nothing. Every seed is another draw of
images, partition and generators. What was made is kept in a cache: an interrupted run goes on where it was.
"""

import argparse
import json
import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # cuBLAS is deterministic only with this

from comparison import arguments, budgets, summary, views
from comparison.crew import Crew
from comparison.draws import Cut, Task, draw, open_task
from comparison.making import Making
from comparison.rows import Rows
from comparison.shelf import Shelf
from comparison.summary import Found
from rich.console import Console

from fednode.errors import ExitCode, FednodeError
from fednode.learning.session import make_deterministic, open_session

WIDTH = 110  # of the table in a file or a pipe


def main(words: Sequence[str] | None = None) -> int:
    """Run the comparison; the exit code."""
    asked = _arguments(words)
    try:
        task = open_task(asked.data, asked.labels, asked.image_size, asked.per_label, asked.test_images)
        found, making = compare(task, asked)
    except FednodeError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        print("Interrupted. The same command goes on from here.", file=sys.stderr)
        return ExitCode.INTERRUPTED
    rows = summary.summarise(found)
    title = f"{asked.data.rpartition('/')[2]}, {asked.partition}, budget {asked.budget}, draws: {len(found.tests)}"
    if asked.out:
        _write(asked.out, rows, found, making, title)
    if asked.json:
        print(json.dumps(rows, indent=2))
    else:
        console = Console(width=None if sys.stdout.isatty() else WIDTH)
        console.print(views.table(rows, title))
        for note in views.notes(rows):
            console.print(note)
    return ExitCode.OK


def compare(task: Task, asked: argparse.Namespace) -> tuple[Found, Making]:
    """What was found, and the last draw. Raises FednodeError."""
    budget = budgets.BUDGETS[asked.budget].changed(asked.preset, asked.fit_images, asked.expert_steps, asked.dtype)
    budget = replace(budget.compiled() if asked.compile else budget, epsilon=asked.dp)
    methods = asked.methods or budgets.methods(budget)
    make_deterministic(1)
    crew = Crew(asked.jobs, open_session(asked.device, 1), Shelf(asked.cache))
    cuts = list(_cuts(asked))
    found = Found({method: {} for method in methods})
    with views.display(len(cuts) * len(methods)) as display:
        for cut in cuts:
            made = draw(task, asked.partition, asked.nodes, cut, crew.shelf)
            making = Making(task, made, crew, budget.recipes(task.image), display.show)
            rows = Rows(making, budget)
            found.tests[cut.name], found.held[cut.name] = made.test, made.validation
            for method in methods:
                display.enter(cut.name, method)
                found.rows[method][cut.name] = rows.row(method)
                display.leave()
    return found, making


def _cuts(asked: argparse.Namespace) -> Iterator[Cut]:
    for seed in asked.seeds:
        if asked.folds:
            yield from (Cut(seed, fold, asked.folds) for fold in range(asked.folds))
        else:
            yield Cut(seed)


def _write(out: Path, rows: dict[str, Any], found: Found, making: Making, title: str) -> None:
    """results.json and the pictures."""
    out.mkdir(parents=True, exist_ok=True)
    (out / "results.json").write_text(json.dumps(rows, indent=2) + "\n")
    views.draw_bars(out / "accuracy.png", rows, title)
    views.draw_samples(out / "samples.png", making)
    if "auto" in found.rows:
        counts = summary.confusion(found.rows["auto"], found.tests)
        views.draw_confusion(out / "confusion.png", counts, making.task.labels)


def _arguments(words: Sequence[str] | None) -> argparse.Namespace:
    parser = arguments.parser(__doc__ or "")
    add = parser.add_argument
    add("--partition", default="silos", help="silos, dirichlet:ALPHA or shards:COUNT")
    add("--folds", type=arguments.folds, default=0, help="test each image once, in so many folds (digits)")
    add("--budget", choices=budgets.BUDGETS, default="cpu-small")
    add(
        "--expert-steps",
        type=arguments.count,
        metavar="N",
        help="steps of an expert, and of the network on pooled data (the budget's)",
    )
    generators = parser.add_mutually_exclusive_group()
    generators.add_argument("--compile", action="store_true", help="compile the networks of fits; needs a C++ compiler")
    generators.add_argument(
        "--dp", type=arguments.epsilon, metavar="EPSILON", help="fit generators with differential privacy"
    )
    add("--methods", type=_methods, help="rows, with commas (those of the budget)")
    return parser.parse_args(words)


def _methods(text: str) -> list[str]:
    methods = arguments.words(text)
    if unknown := sorted(set(methods) - set(budgets.all_methods())):
        raise argparse.ArgumentTypeError(f"{unknown[0]!r} is not a row; there are {', '.join(budgets.all_methods())}")
    return methods


if __name__ == "__main__":
    sys.exit(main())
