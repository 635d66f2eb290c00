"""The ops that put a federation's results beside something: baselines on real images alone, and pictures of samples."""

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from fednode.learning import dataset, evaluation, pictures
from fednode.learning.dataset import Evaluated
from fednode.learning.expert import build, fit, logits
from fednode.learning.operations import spec_seed
from fednode.learning.requests import Baseline, Samples
from fednode.learning.session import Report, Session
from fednode.learning.synthesis import Donor, samples
from fednode.learning.training import Lesson, pools
from fednode.presets import expert_architecture

Result = dict[str, Any]


def baseline(request: Baseline, session: Session, report: Report) -> Result:
    """Metrics, over all test images, of the expert's network trained on the real training images of all `data` alone.

    A label that the data lack is never answered, so each of its test images counts as an error. With one label there is nothing
    to train: it is the answer.
    """
    own = _real_images(request)
    known = [label for label in request.labels if label in own]
    test = dataset.load_test(request.test, request.image, request.labels)
    probabilities = np.zeros((len(test.images), len(request.labels)))
    columns = [request.labels.index(label) for label in known]
    probabilities[:, columns] = _answers(request, session, known, own, test, report)
    images = sum(len(part) for part in own.values())
    return {"images": images, "labels": known, **evaluation.metrics(probabilities, test.targets)}


def samples_picture(request: Samples, session: Session, report: Report) -> Result:
    """Writes the picture of real beside synthetic images of every label that has both; the result names the labels."""
    data = dataset.load(request.data, request.image, request.labels)
    rows = {}
    for one in request.generators:
        label, count = one.labels[0]
        if label in data.labels and label not in rows:
            denoiser = session.generator(one.weights, one.digest, one.architecture)
            donor = Donor(one.digest, label, count, denoiser, None)
            sampler = request.recipe.synthesis.sampler
            drawn = samples(donor, range(request.per_label), sampler, session.numerics)
            rows[label] = (data.labels[label].train[: request.per_label], drawn.numpy())
            report("pictures", len(rows), len(request.generators))
    ordered = {label: rows[label] for label in request.labels if label in rows}
    if ordered:
        pictures.draw_samples(Path(request.out), ordered)
    return {"labels": list(ordered)}


def _real_images(request: Baseline) -> dict[str, torch.Tensor]:
    """The training images of each label over all data, each image once, in the order of the sources."""
    found: dict[str, list[npt.NDArray[np.uint8]]] = {}
    for settings in request.data:
        for label, own in dataset.load(settings, request.image, request.labels).labels.items():
            found.setdefault(label, []).append(own.train)
    return {label: torch.from_numpy(np.unique(np.concatenate(parts), axis=0)) for label, parts in found.items()}


def _answers(
    request: Baseline,
    session: Session,
    known: list[str],
    own: dict[str, torch.Tensor],
    test: Evaluated,
    report: Report,
) -> npt.NDArray[np.float64]:
    """Probabilities (N, known labels) of the trained network."""
    if len(known) == 1:
        return np.ones((len(test.images), 1))
    architecture = expert_architecture(request.image, len(known))
    tensors = fit(
        pools(Lesson(known, own, {}, request.recipe.model_copy(update={"mix": "paper"})), session, report),
        architecture,
        request.recipe,
        spec_seed(request.recipe, "baseline"),
        lambda done, total: report("train", done, total),
        session.device,
    )
    network = build(architecture)
    network.load_state_dict({name: tensor.float() for name, tensor in tensors.items()}, strict=False)
    found = logits(network.eval().to(session.device), torch.from_numpy(test.images), session.device)
    return torch.softmax(found.double(), 1).numpy()
