"""Ready classifiers: checkpoints of timm ViTs that were made elsewhere, checked as if a peer had sent them."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from fednode.errors import DataError
from fednode.learning import vit, weights
from fednode.learning.requests import ImportClassifier
from fednode.learning.session import Report, Session
from fednode.vit_recipe import ready_architecture

Result = dict[str, Any]


def import_classifier(request: ImportClassifier, session: Session, report: Report) -> Result:
    """Writes the checkpoint in `file` to `out` as what is on the wire: fp16, with an output for each label of the contract.

    Raises DataError if there is no such file, and BadWeightsError if it is not what a ViT of this name has.
    """
    file = Path(request.file)
    if not file.is_file():
        raise DataError(f"{file} is not a file.", "Name a safetensors file.")
    given = ready_architecture(request.model, request.image, len(request.named))
    shapes = {name: shape for name, (shape, _) in vit.vit_tensors(given).items()}
    tensors = weights.check_floats(file, shapes)
    whole = ready_architecture(request.model, request.image, len(request.labels))
    for name in ("head.weight", "head.bias"):
        tensors[name] = spread(tensors[name], request.named, request.labels)
    weights.save(Path(request.out), {name: tensor.half() for name, tensor in tensors.items()})
    return {"architecture": whole.model_dump(mode="json")}


def spread(rows: Tensor, named: Sequence[str], labels: Sequence[str]) -> Tensor:
    """The rows of the labels `named`, (n, ...), among those of all `labels`, (K, ...); a label without one has zeros."""
    found = torch.zeros(len(labels), *rows.shape[1:], dtype=rows.dtype)
    found[[list(labels).index(label) for label in named]] = rows
    return found
