"""The rows of the table for one draw: from answers to probabilities, with what each variant costs.

Rule 1: whatever is chosen, is chosen on validation images: the best expert by balanced accuracy, ties by log loss, and `auto`
        by the rule of the federated evaluation.
Rule 2: seconds of a row are those of everything that it needs, generators included, each as long as its process took.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from baselines import Local, logit_ensemble

from comparison import wire
from comparison.answering import Answering
from comparison.asking import Answers, Table
from comparison.budgets import MANY_ROUNDS, Budget, variants
from comparison.making import Making
from comparison.shelf import Record
from fednode.estimate import Estimate, best_of, mean_of, wilson
from fednode.learning import evaluation
from fednode.learning.dataset import Evaluated
from fednode.learning.expert import expert_tensors
from fednode.learning.product import product_of_experts
from fednode.recipe import ExpertRecipe

MEASURES = {"accuracy": "accuracy", "auroc": "macro_auroc", "f1": "f1", "ece": "ece"}
PROX_MU = 0.1
HALF = 2  # bytes of a number on the wire
FLOOR = 1e-12

Probabilities = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Row:
    """Probabilities (P, N, K) of validation and test images, bytes by way, network calls an image, seconds, what was chosen.

    `told`: what else its maker told.
    """

    validation: Probabilities
    test: Probabilities
    bytes: dict[str, int]
    calls: float
    seconds: float
    chosen: str = ""
    told: Record = field(default_factory=dict)


@dataclass(frozen=True)
class Rows:
    """All rows of one draw by name; each is made when it is asked for."""

    making: Making
    budget: Budget

    def row(self, name: str) -> Row:
        """One row; raises FednodeError if its draw can't be made."""
        if name.startswith("product_"):
            change = variants()[name.removeprefix("product_")]
            return self._product(self.making.recipes.expert.model_copy(update=change))
        makers: dict[str, Callable[[], Row]] = {
            "pooled": self._pooled,
            "alone": lambda: self._own(softmax),
            "logit_ensemble": self._logit_ensemble,
            "fedavg": lambda: self._averaged(1, 0.0),
            "fedavg_rounds": lambda: self._averaged(self.budget.rounds, 0.0),
            "fedprox": lambda: self._averaged(self.budget.rounds, PROX_MU),
            "centralised": self._centralised,
            "experts": self._experts,
            "best_expert": self._best_expert,
            "product": lambda: self._product(self.making.recipes.expert),
            "generative": self._generative,
            "both": self._both,
            "auto": self._auto,
        }
        return makers[name]()

    # --- baselines ----------------------------------------------------------------------------------------------------

    def _pooled(self) -> Row:
        answers = self._answering.pooled()
        moved = [own.train.nbytes for node in self.making.draw.nodes for own in node.own.values()]
        return single(answers, wire.centralised(moved), 1, answers.seconds)

    def _own(self, combine: Callable[[Table], Probabilities]) -> Row:
        answers = self._answering.alone()
        return Row(combine(answers.validation), combine(answers.test), {"wire": 0}, 1, answers.seconds)

    def _logit_ensemble(self) -> Row:
        row = self._own(lambda table: logit_ensemble(torch.from_numpy(table)).numpy()[None])
        count = len(self.making.draw.nodes)
        return replace(row, bytes=wire.exchanged([self._model_bytes] * count, count), calls=count)

    def _averaged(self, rounds: int, mu: float) -> Row:
        local = Local(epochs=self.budget.epochs, mu=mu, dtype=self.making.recipes.expert.dtype)
        answers = self._answering.averaged(rounds, local)
        moved = wire.averaged(self._model_bytes, len(self.making.draw.nodes), rounds, MANY_ROUNDS)
        return single(answers, moved, 1, answers.seconds)

    # --- experts and products -----------------------------------------------------------------------------------------

    def _centralised(self) -> Row:
        records = self.making.central_expert()
        answers = self._answering.experts(records)
        return single(answers, wire.centralised(sizes(self._fits)), 1, self._spent(records, answers))

    def _experts(self) -> Row:
        records = self.making.experts(self.making.recipes.expert)
        answers = self._answering.experts(records)
        moved = wire.exchanged(sizes(self._fits), len(self.making.draw.nodes))
        return single(answers, moved, 1, self._spent(records, answers))

    def _best_expert(self) -> Row:
        row = self._experts()
        scores = [goodness(one, self.making.draw.validation) for one in row.validation]
        best = max(range(len(scores)), key=lambda at: scores[at])
        return replace(row, validation=row.validation[[best]], test=row.test[[best]], chosen=f"node {best}")

    def _product(self, recipe: ExpertRecipe) -> Row:
        records = self.making.experts(recipe)
        answers = self._answering.experts(records)
        moved = wire.exchanged(sizes(self._fits) + sizes(records), len(records))
        return Row(
            product(answers.validation),
            product(answers.test),
            moved,
            len(records),
            self._spent(records, answers),
        )

    def _generative(self) -> Row:
        answers = self._answering.generative()
        moved = wire.exchanged(sizes(self._fits), len(self.making.draw.nodes))
        return single(answers, moved, self._answering.generative_calls(), self._spent([], answers))

    def _both(self) -> Row:
        """The mean of the log probabilities of the two products."""
        one, other = self.row("product"), self.row("generative")
        return Row(
            _mean_of_logs(one.validation, other.validation),
            _mean_of_logs(one.test, other.test),
            one.bytes,
            one.calls + other.calls,
            one.seconds + other.seconds - sum(record["seconds"] for record in self._fits),
        )

    def _auto(self) -> Row:
        """What a node would answer with, by the very rule, if its federation had counted the validation images."""
        candidates = {name: self.row(name) for name in ("product", "generative", "both")}
        validation = self.making.draw.validation
        chosen = "product"
        if len(validation.targets):
            chosen = best_of({name: _counted(row.validation[0], validation) for name, row in candidates.items()})
        return replace(candidates[chosen], bytes=candidates["product"].bytes, chosen=chosen)

    @property
    def _answering(self) -> Answering:
        return Answering(self.making)

    @property
    def _fits(self) -> list[Record]:
        return [one.record for one in self.making.generators]

    @property
    def _model_bytes(self) -> int:
        """The bytes of the expert's network, as an expert's file has them but for its header."""
        return sum(HALF * math.prod(shape) for shape, _ in expert_tensors(self._answering.shape).values())

    def _spent(self, records: Sequence[Record], answers: Answers) -> float:
        return answers.seconds + sum(float(record["seconds"]) for record in [*self._fits, *records])


def measures(probabilities: Probabilities, targets: npt.NDArray[np.int64]) -> dict[str, float | None]:
    """Accuracy, AUROC, F1 and ECE of a row, each the mean over its predictors; None where one has none."""
    found: list[dict[str, Any]] = [evaluation.metrics(one, targets) for one in probabilities]
    return {name: _mean([one[key] for one in found]) for name, key in MEASURES.items()}


def _mean(values: Sequence[float | None]) -> float | None:
    numbers = [value for value in values if value is not None]
    return float(np.mean(numbers)) if numbers else None


def goodness(probabilities: Probabilities, held: Evaluated) -> tuple[float, float]:
    """Balanced accuracy and minus the log loss, by which predictors are compared; 0 for both where nothing is held out."""
    if not len(held.targets):
        return 0.0, 0.0
    right = probabilities.argmax(1) == held.targets
    recalls = [right[held.targets == label].mean() for label in np.unique(held.targets)]
    given = probabilities[np.arange(len(held.targets)), held.targets]
    return float(np.mean(recalls)), float(np.mean(np.log(np.maximum(given, FLOOR))))


def _counted(probabilities: Probabilities, held: Evaluated) -> Estimate:
    """Mean accuracy over the labels, as the federated evaluation counts it."""
    right = probabilities.argmax(1) == held.targets
    by_label = [right[held.targets == label] for label in np.unique(held.targets)]
    return mean_of([wilson(int(one.sum()), len(one)) for one in by_label])


def single(answers: Answers, moved: dict[str, int], calls: float, seconds: float) -> Row:
    """A row whose predictors answer one by one."""
    return Row(softmax(answers.validation), softmax(answers.test), moved, calls, seconds)


def softmax(table: Table) -> Probabilities:
    """Probabilities of logits."""
    return torch.softmax(torch.from_numpy(table).double(), dim=2).numpy()


def product(table: Table) -> Probabilities:
    """The product of experts with these logits, as one predictor."""
    return product_of_experts(list(torch.from_numpy(table))).numpy()[None]


def _mean_of_logs(one: Probabilities, other: Probabilities) -> Probabilities:
    logs = (np.log(np.maximum(one, FLOOR)) + np.log(np.maximum(other, FLOOR))) / 2
    return torch.softmax(torch.from_numpy(logs), dim=2).numpy()


def sizes(records: Sequence[Record]) -> list[int]:
    """The bytes of their files."""
    return [record["size"] for record in records]
