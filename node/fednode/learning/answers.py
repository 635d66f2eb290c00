"""The ops that answer: predict and evaluate, by the product of experts, the generative product, and the product of both.

Rule: a product answers for the covered labels alone, and only if everything that it needs is there; else it is unanswerable.
"""

import base64
import binascii
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from fednode.errors import FednodeError
from fednode.grid import CELLS, PLAIN_MILLI, Cell, levels_of
from fednode.learning import dataset, evaluation, pictures
from fednode.learning.expert import logits
from fednode.learning.generative import Term, posterior
from fednode.learning.images import BadImageError, decode
from fednode.learning.product import log_probabilities, product_of_both, product_of_experts, tempered
from fednode.learning.requests import Evaluate, NamedImage, Predict, Product, Way
from fednode.learning.session import Report, Session

Result = dict[str, Any]

PARTS: tuple[Literal["experts"], Literal["generative"]] = ("experts", "generative")


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
    single = expert_logits(request, session, images)
    logs = _products(request, session, images, single, report)
    answers = {name: tempered(found, PLAIN_MILLI).numpy() for name, found in logs.items()}
    chosen = None
    if request.chosen:
        chosen = evaluation.metrics(_in_way(request.chosen, request, session, images, logs, report), targets)
    confusion = {name: evaluation.confusion(p, targets).tolist() for name, p in answers.items()}
    if request.confusion_png:
        pictures.draw_confusion(Path(request.confusion_png), confusion, request.labels)
    return {
        "images": len(images),
        "labels": list(request.labels),
        "experts": [
            {"digest": one.digest, **evaluation.metrics(torch.softmax(f.double(), 1).numpy(), targets)}
            for one, f in zip(request.experts, single, strict=True)
        ],
        "products": {name: evaluation.metrics(p, targets) for name, p in answers.items()},
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
    terms, teacher = generative_terms(request, session), levels_of(request.recipe.teacher, cell.levels)
    return log_probabilities(
        posterior(
            terms,
            images,
            len(request.labels),
            teacher,
            session.device,
            lambda done, total: report("generative", done, total),
        )
    )


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


def _products(
    request: Evaluate, session: Session, images: Tensor, single: Sequence[Tensor], report: Report
) -> dict[str, Tensor]:
    """The log probabilities of each product that can answer; `single` are the logits of each expert."""
    found = {}
    if single:
        found["experts"] = log_probabilities(product_of_experts(single))
    if request.generators:
        found["generative"] = log_answers(request, session, images, CELLS["generative"], report)
    if len(found) == len(PARTS):
        found["both"] = product_of_both(found["experts"], found["generative"])
    return found


def _in_way(
    way: Way, request: Evaluate, session: Session, images: Tensor, logs: Mapping[str, Tensor], report: Report
) -> npt.NDArray[np.float64]:
    """The probabilities (N, K) of a way to answer; what is in `logs` is not computed again."""
    found = logs.get(way.product) if way.levels == "all" else None
    if found is None:
        found = log_answers(request, session, images, Cell(way.product, way.levels), report)
    return tempered(found, way.temperature_milli).numpy()


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
