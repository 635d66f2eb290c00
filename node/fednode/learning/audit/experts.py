"""Membership for experts: they are published as well, and saw own images. What is found is told and decides nothing."""

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, nn

from fednode.learning.audit.membership import Scores, judge
from fednode.learning.dataset import LabelImages
from fednode.learning.expert import logits
from fednode.recipe import AuditRecipe
from fednode_crypto.strict_json import JSON


def expert_membership(
    network: nn.Module, own: Mapping[str, LabelImages], labels: Sequence[str], device: torch.device
) -> dict[str, JSON] | None:
    """How well the cross-entropy tells own training from own held-out images (Yeom et al., 1709.01604), over all own labels.

    `own` are the images that the expert saw, `labels` its outputs in order. None if there are no images to compare.
    """

    def scores(images: Mapping[str, Tensor]) -> Tensor:
        found = [
            torch.log_softmax(logits(network, part, device).double(), 1)[:, list(labels).index(label)]
            for label, part in images.items()
            if len(part)
        ]
        return torch.cat(found) if found else torch.empty(0, dtype=torch.float64)

    members = scores({label: torch.from_numpy(one.train) for label, one in own.items()})
    others = scores({label: torch.from_numpy(one.holdout) for label, one in own.items()})
    return judge(Scores(members, others), AuditRecipe()) if len(members) and len(others) else None
