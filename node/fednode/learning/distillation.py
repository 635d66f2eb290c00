"""The ops of FedMITR: fit a classifier, report on it, and distil an expert from classifiers."""

from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from fednode.learning import classifier as classifiers
from fednode.learning import vit, weights
from fednode.learning.audit import classifier_report, expert_membership
from fednode.learning.checkpoint import Checkpoint
from fednode.learning.dataset import LabelImages
from fednode.learning.distil import Lesson
from fednode.learning.distil import distil as distil_expert
from fednode.learning.inverted import Classifier, inverted
from fednode.learning.operations import checkpoint_of, donors_of, images_of, spec_seed
from fednode.learning.requests import AuditClassifier, Distil, FitClassifier
from fednode.learning.session import Report, Session
from fednode.learning.synthesis import draw_label
from fednode.learning.vitfit import Aids
from fednode_crypto import strict_json

Result = dict[str, Any]


def classifier(request: FitClassifier, session: Session, report: Report) -> Result:
    """Fits the classifier of the spec and writes its weights to `out`; until then its state is kept beside it."""
    spec = request.spec
    own = _own(request, session)
    checkpoint = checkpoint_of(spec, request.out, session)
    tensors = classifiers.fit(
        _train(own),
        spec.labels,
        spec.architecture,
        spec.recipe,
        spec_seed(spec, "classifier"),
        _aids("classifier", session, report, checkpoint),
    )
    weights.save(Path(request.out), tensors)
    checkpoint.remove()
    return {"images": {label: len(one.train) for label, one in own.items()}}


def audit_classifier(request: AuditClassifier, session: Session, report: Report) -> Result:
    """Reports on the classifier in `weights` to `out`."""
    spec = request.spec
    report("audit classifier", 0, 1)
    network = session.expert(request.weights, spec.weights, spec.architecture)
    found = classifier_report(network, _own(request, session), spec.labels, spec.recipe, session.device)
    Path(request.out).write_bytes(strict_json.dumps(found))
    return {"passed": found["passed"], "reasons": found["reasons"]}


def distil(request: Distil, session: Session, report: Report) -> Result:
    """Inverts the classifiers, trains the expert of the spec, writes its weights to `out`, and tells what they give away.

    Finished batches of inverted images are kept beside their classifiers, and until it ends the state of what is under way.
    """
    spec = request.spec
    own = _own(request, session) if spec.recipe.own else {}
    checkpoint, members = checkpoint_of(spec, request.out, session), _classifiers(request, session)
    found = []
    for number, one in enumerate(members, 1):
        aids = _aids(f"invert {number}/{len(members)}", session, report, checkpoint)
        found.append(inverted(one, spec.recipe.inversion, session.numerics, aids))
    drawn = _drawn(request, session, report)
    lesson = Lesson(spec.labels, [_train(own), drawn], members, spec.recipe)
    aids = _aids("train", session, report, checkpoint.of("train"))
    tensors = distil_expert(lesson, found, spec.architecture, spec_seed(spec, "distil"), aids)
    weights.save(Path(request.out), tensors)
    network = vit.load(Path(request.out), spec.architecture, session.device)
    told = expert_membership(network, own, spec.labels, session.device)
    checkpoint.remove()
    counts = {"real": sum(len(one.train) for one in own.values()), "inverted": sum(len(one.images) for one in found)}
    return {"images": counts | ({"synthetic": sum(map(len, drawn.values()))} if drawn else {}), "membership": told}


def _drawn(request: Distil, session: Session, report: Report) -> dict[str, Tensor]:
    """What the generators of the spec draw, by label; nothing without generators."""
    synthesis = request.spec.synthesis
    if synthesis is None:
        return {}
    donors = donors_of(request.spec.generators, request.generators, session)
    drawn: dict[str, Tensor] = {}
    for label, by in donors.items():
        report("draw", len(drawn), len(donors))
        drawn[label] = draw_label(by, 0, synthesis, session.numerics).images
    return drawn


def _own(request: FitClassifier | AuditClassifier | Distil, session: Session) -> dict[str, LabelImages]:
    return {label: images_of(request, session, label, digest) for label, digest in request.spec.own}


def _train(own: dict[str, LabelImages]) -> dict[str, Tensor]:
    return {label: torch.from_numpy(one.train) for label, one in own.items()}


def _aids(phase: str, session: Session, report: Report, checkpoint: Checkpoint) -> Aids:
    return Aids(lambda done, total: report(phase, done, total), session.device, checkpoint)


def _classifiers(request: Distil, session: Session) -> list[Classifier]:
    found = []
    for one in request.spec.inputs:
        file = request.classifiers[one.weights]
        network = session.expert(file.weights, one.weights, one.architecture)
        derived = Path(file.derived) if file.derived else None
        found.append(Classifier(one.weights, network, one.architecture, dict(one.labels), derived))
    return found
