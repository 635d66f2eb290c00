"""Membership for experts and classifiers: they are published as well, and saw own images.

For an expert, what is found is told and decides nothing. A classifier is published only if it passes: Rule 1 and Rule 2 of
`examination.py` hold for it, with the cross-entropy as the one attack and no test of copies, for it draws no images.
"""

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

import torch
from torch import Tensor, nn

from fednode.learning.audit.examination import refusal
from fednode.learning.audit.membership import Scores, judge
from fednode.learning.dataset import LabelImages
from fednode.learning.expert import logits
from fednode.recipe import AuditRecipe
from fednode_crypto.strict_json import JSON

VERSION = 1


def expert_membership(
    network: nn.Module, own: Mapping[str, LabelImages], labels: Sequence[str], device: torch.device
) -> dict[str, JSON] | None:
    """How well the cross-entropy tells own training from own held-out images (Yeom et al., 1709.01604), over all own labels.

    `own` are the images that the expert saw, `labels` its outputs in order. None if there are no images to compare.
    """
    scores = _scores(network, own, labels, device)
    return judge(scores, AuditRecipe()) if len(scores.members) and len(scores.others) else None


def classifier_report(
    network: nn.Module,
    own: Mapping[str, LabelImages],
    labels: Sequence[str],
    recipe: AuditRecipe,
    device: torch.device,
) -> dict[str, Any]:
    """The report on a classifier: whether it passed, the reasons if not, how many images it saw, and its membership figures.

    `own` are the images that it saw, `labels` its outputs in order. Integers and decimal strings only, as in every report.
    """
    train, holdout = (
        torch.cat([torch.from_numpy(getattr(one, side)) for one in own.values()]) for side in ("train", "holdout")
    )
    report: dict[str, Any] = {"version": VERSION, "images": len(train) + len(holdout), "heldout": len(holdout)}
    if reason := refusal(train, holdout, recipe):
        return {**report, "passed": False, "reasons": [reason]}
    found: dict[str, Any] = judge(_scores(network, own, labels, device), recipe)
    reasons = []
    if Decimal(found["bound"]) > Decimal(found["limit"]):
        apart = f"with an area under the curve of {found['auc']}, surely above {found['bound']}"
        reasons.append(
            f"The classifier's loss tells training from held-out images {apart}; the limit is {found['limit']}."
        )
    return {**report, "passed": not reasons, "reasons": reasons, "membership": {"loss": found}}


def _scores(network: nn.Module, own: Mapping[str, LabelImages], labels: Sequence[str], device: torch.device) -> Scores:
    """The log probabilities of their own labels, of training and of held-out images."""

    def scores(images: Mapping[str, Tensor]) -> Tensor:
        found = [
            torch.log_softmax(logits(network, part, device).double(), 1)[:, list(labels).index(label)]
            for label, part in images.items()
            if len(part)
        ]
        return torch.cat(found) if found else torch.empty(0, dtype=torch.float64)

    members = scores({label: torch.from_numpy(one.train) for label, one in own.items()})
    others = scores({label: torch.from_numpy(one.holdout) for label, one in own.items()})
    return Scores(members, others)
