"""A ready classifier: checked by a worker, taken into the store, and offered from then on in place of one fitted to own images.

Rule 1: it is checked as if a peer had sent it; nothing of the file is used but its numbers.
Rule 2: nobody has audited it: its manifest has no audit, and every status says so.
Rule 3: how many images it has seen is not known; it counts one for each of its labels.
"""

from collections.abc import Sequence
from typing import Any, get_args

from fednode.architecture import ViTName
from fednode.contract import label_name
from fednode.core import READY, Core
from fednode.errors import RefusedError
from fednode.planned import spec_digest
from fednode.vit_recipe import ImportRecipe
from fednode.workers import Worker

SCRATCH = "ready.part"
FEWEST_LABELS = 2
MODELS: tuple[str, ...] = get_args(ViTName)

Document = dict[str, Any]


async def take(core: Core, worker: Worker, file: str, model: str, labels: Sequence[str]) -> Document:
    """Offer the checkpoint in `file`, a timm ViT named `model` whose outputs are `labels` in order.

    Raises RefusedError, DataError, WorkerError `bad-weights` and StorageError; then nothing has changed.
    """
    named = _checked(core, model, labels)
    out = core.home.work / SCRATCH
    fields = {
        "image": core.contract.image.model_dump(mode="json"),
        "labels": list(core.contract.labels),
        "model": model,
        "named": named,
        "file": file,
        "out": str(out),
    }
    try:
        made = await worker.ask("import-classifier", fields)
        pieces = core.store.ingest(out, core.me)
    finally:
        out.unlink(missing_ok=True)
    spec = {
        "job": "import",
        "recipe": ImportRecipe.model_validate({"model": model}).model_dump(mode="json"),
        "architecture": made["architecture"],
        "labels": list(core.contract.labels),
        "seen": [label for label in core.contract.labels if label in named],
        "weights": pieces.digest,
    }
    result = {"digest": pieces.digest, "size": pieces.size, "piece_size": pieces.piece_size, "seconds": 0.0}
    with core.ledger.transaction("job"):
        core.ledger.start_job(spec_digest(spec), "import", spec)
        core.ledger.finish_job(spec_digest(spec), {**result, "numerics": dict(worker.numerics)})
        core.ledger.set(READY, spec)
    core.ledger.record_event("imported", digest=pieces.digest)
    return {"digest": pieces.digest, "model": model, "labels": spec["seen"], "audited": False}


def _checked(core: Core, model: str, labels: Sequence[str]) -> list[str]:
    """The labels in the contract's spelling, in the order of the outputs. Raises RefusedError."""
    named, known = [label_name(label) for label in labels], core.contract.labels
    if core.settings.exchange == "generators":
        raise RefusedError(
            "This node exchanges generators alone, so a classifier is no use.", "Start it with --exchange classifiers."
        )
    if model not in MODELS:
        raise RefusedError(f"There is no model {model!r} here.", f"Use one of {', '.join(MODELS)}.")
    if foreign := [label for label in named if label not in known]:
        raise RefusedError(f"{foreign[0]!r} is not a label of the contract.", f"It has {', '.join(known)}.")
    if gone := core.ledger.withdrawn().intersection(named):
        raise RefusedError(f"The label {min(gone)!r} is withdrawn, so a classifier that knows it is not offered.")
    if len(set(named)) != len(named) or len(named) < FEWEST_LABELS:
        raise RefusedError("The labels are those of the outputs, in order: at least two, and each once.")
    return named
