"""The ops that answer: predict and evaluate, by the product of experts, the generative one, both, or the classifiers' ensemble.

Rule: a product answers for the covered labels alone, and only if everything that it needs is there; else it is unanswerable.
"""

import base64
import binascii
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from fednode.errors import FednodeError
from fednode.grid import PLAIN_MILLI, Cell, Levels, levels_of
from fednode.learning import dataset, evaluation, pictures
from fednode.learning.expert import logits
from fednode.learning.generative import Term, probabilities, score
from fednode.learning.images import BadImageError, decode
from fednode.learning.product import log_probabilities, product_of_both, product_of_experts, tempered
from fednode.learning.relabel import ensemble
from fednode.learning.requests import Evaluate, NamedImage, Predict, Product, Way
from fednode.learning.session import Report, Session

Result = dict[str, Any]
Probabilities = npt.NDArray[np.float64]

PARTS: tuple[Literal["experts"], Literal["generative"]] = ("experts", "generative")


@dataclass(frozen=True)
class Answered:
    """Log probabilities (N, K) of a product, the seconds they took, and how many times a network saw each image."""

    logs: Tensor
    seconds: float
    calls: float

    @property
    def probabilities(self) -> Probabilities:
        """As the product says, without a temperature."""
        return tempered(self.logs, PLAIN_MILLI).numpy()


class UnanswerableError(FednodeError):
    """The product that was asked for lacks something that it needs."""


def predict(request: Predict, session: Session, report: Report) -> Result:
    """For each image the likeliest label and all probabilities, or what is wrong with the image."""
    decoded = [_decode(one, request) for one in request.images]
    good = [one for one in decoded if isinstance(one, np.ndarray)]
    found: list[list[float]] = []
    if good:
        images = torch.from_numpy(np.stack(good))
        logs = log_answers(request, session, images, Cell(request.product, request.levels), report)
        found = tempered(logs, request.temperature_milli).tolist()
    probabilities = iter(found)
    return {
        "answers": [
            {"name": named.name, "error": one}
            if isinstance(one, str)
            else _answer(named.name, request.labels, next(probabilities))
            for named, one in zip(request.images, decoded, strict=True)
        ]
    }


def evaluate(request: Evaluate, session: Session, report: Report) -> Result:
    """Metrics of each expert and of each product that can answer, on the test images whose labels are covered."""
    test = dataset.load_test(request.data, request.image, request.contract_labels)
    position = np.array([_position(label, request.labels) for label in request.contract_labels])
    targets = position[test.targets]
    covered = targets >= 0
    if not covered.any():
        raise UnanswerableError("No image of the data has a covered label.")
    images, targets = torch.from_numpy(test.images[covered]), targets[covered]
    single, answers = _answered(request, session, images, report)
    chosen = None
    if request.chosen:
        chosen = evaluation.metrics(_in_way(request.chosen, request, session, images, answers, report), targets)
    confusion = {name: evaluation.confusion(one.probabilities, targets).tolist() for name, one in answers.items()}
    if request.confusion_png:
        pictures.draw_confusion(Path(request.confusion_png), confusion, request.labels)
    return {
        "images": len(images),
        "labels": list(request.labels),
        "experts": [
            {"digest": one.digest, **evaluation.metrics(torch.softmax(f.double(), 1).numpy(), targets)}
            for one, f in zip(request.experts, single, strict=True)
        ],
        "products": {
            name: {
                **evaluation.product_metrics(one.probabilities, targets, request.labels),
                "latency_ms": round(1e3 * one.seconds / len(images), 3),
                "calls": one.calls,
            }
            for name, one in answers.items()
        },
        "chosen": chosen,
        "confusion": confusion,
        "uncovered_images": int((~covered).sum()),
    }


def log_answers(request: Product, session: Session, images: Tensor, cell: Cell, report: Report) -> Tensor:
    """Log probabilities (N, K), float64, of the covered labels for uint8 images (N, C, H, W), as this cell answers.

    Raises UnanswerableError if a part of the product is missing.
    """
    if cell.product == "both":
        experts, generative = (log_answers(request, session, images, Cell(p, cell.levels), report) for p in PARTS)
        return product_of_both(experts, generative)
    if cell.product == "experts":
        if not request.experts:
            raise UnanswerableError("There is no expert to answer.")
        return log_probabilities(product_of_experts(expert_logits(request, session, images)))
    if cell.product == "ensemble":
        return _ensemble(request, session, images)
    return _generative(request, session, images, cell.levels, report)[0]


def expert_logits(request: Product, session: Session, images: Tensor) -> list[Tensor]:
    """The logits (N, K) of each expert. Raises UnanswerableError if one tells other labels apart."""
    found = []
    for one in request.experts:
        if one.architecture.outputs != len(request.labels):
            raise UnanswerableError(f"Expert {one.digest[:12]} does not cover the {len(request.labels)} labels.")
        network = session.expert(one.weights, one.digest, one.architecture)
        found.append(logits(network, images, session.device))
    return found


def generative_terms(request: Product, session: Session) -> list[Term]:
    """A term for each generator of a covered label. Raises UnanswerableError if a covered label has none."""
    terms = []
    for one in request.generators:
        label, count = one.labels[0]
        if label in request.labels:
            denoiser = session.generator(one.weights, one.digest, one.architecture)
            terms.append(Term(request.labels.index(label), count, denoiser))
    missing = set(range(len(request.labels))) - {term.label for term in terms}
    if missing:
        raise UnanswerableError(f"Label {request.labels[min(missing)]!r} has no generator here.")
    return terms


def _ensemble(request: Product, session: Session, images: Tensor) -> Tensor:
    """Log probabilities (N, K) by the logits' mean over the classifiers that have seen a label, label by label.

    Raises UnanswerableError if a covered label has none.
    """
    found, seen = [], []
    for one in request.classifiers:
        names, counts = zip(*one.labels, strict=True)
        columns = [names.index(label) for label in request.labels]
        network = session.expert(one.weights, one.digest, one.architecture)
        found.append(logits(network, images, session.device)[:, columns])
        seen.append([int(counts[column] > 0) for column in columns])
    weights = torch.tensor(seen).reshape(-1, len(request.labels))
    if missing := (weights.sum(0) == 0).nonzero().flatten().tolist():
        raise UnanswerableError(f"Label {request.labels[missing[0]]!r} has no classifier here.")
    return torch.log_softmax(ensemble(torch.stack(found).double(), weights), dim=1)


def _answered(
    request: Evaluate, session: Session, images: Tensor, report: Report
) -> tuple[list[Tensor], dict[str, Answered]]:
    """The logits of each expert, and what each product answers; models are loaded before the clock runs."""
    for one in request.experts:
        session.expert(one.weights, one.digest, one.architecture)
    began, answers = time.perf_counter(), {}
    single = expert_logits(request, session, images)
    if single:
        logs = log_probabilities(product_of_experts(single))
        answers["experts"] = Answered(logs, time.perf_counter() - began, len(single))
    if request.generators:
        generative_terms(request, session)
        began = time.perf_counter()
        logs, calls = _generative(request, session, images, "all", report)
        answers["generative"] = Answered(logs, time.perf_counter() - began, round(calls / len(images), 2))
    if len(answers) == len(PARTS):
        first, second = (answers[part] for part in PARTS)
        logs = product_of_both(first.logs, second.logs)
        answers["both"] = Answered(logs, first.seconds + second.seconds, first.calls + second.calls)
    if request.classifiers:
        _ensemble(request, session, images[:1])
        began = time.perf_counter()
        logs = _ensemble(request, session, images)
        answers["ensemble"] = Answered(logs, time.perf_counter() - began, len(request.classifiers))
    return single, answers


def _in_way(
    way: Way, request: Evaluate, session: Session, images: Tensor, answers: Mapping[str, Answered], report: Report
) -> Probabilities:
    """The probabilities (N, K) of a way to answer; what is in `answers` is not computed again."""
    known = answers.get(way.product) if way.levels == "all" else None
    logs = known.logs if known else log_answers(request, session, images, Cell(way.product, way.levels), report)
    return tempered(logs, way.temperature_milli).numpy()


def _generative(
    request: Product, session: Session, images: Tensor, levels: Levels, report: Report
) -> tuple[Tensor, int]:
    """The log probabilities (N, K) of the generative product, and the network calls of all images together."""
    terms, teacher = generative_terms(request, session), levels_of(request.recipe.teacher, levels)
    scored = score(
        terms,
        images,
        len(request.labels),
        teacher,
        session.device,
        lambda done, total: report("generative", done, total),
    )
    return log_probabilities(probabilities(scored.scores, teacher)), scored.calls


def _decode(named: NamedImage, request: Predict) -> npt.NDArray[np.uint8] | str:
    """The image, or what is wrong with it."""
    try:
        return decode(base64.b64decode(named.data, validate=True), request.image)
    except BadImageError as error:
        return str(error)
    except binascii.Error:
        return "the image's bytes were damaged on their way"


def _answer(name: str, labels: Sequence[str], probabilities: list[float]) -> Result:
    best = max(range(len(labels)), key=lambda index: probabilities[index])
    return {"name": name, "label": labels[best], "probabilities": dict(zip(labels, probabilities, strict=True))}


def _position(label: str, covered: Sequence[str]) -> int:
    return covered.index(label) if label in covered else -1
