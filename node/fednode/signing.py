"""Own manifests and evaluations: what a job of the plan says, with what the job before it left in the ledger, and the time."""

import json
import time
from decimal import Decimal
from typing import Any

from pydantic import TypeAdapter

from fednode.architecture import Architecture, ExpertArchitecture, GeneratorArchitecture, ViTArchitecture
from fednode.catalogue import SKEW_SECONDS
from fednode.core import Core
from fednode.evaluation import Evaluation, Scores
from fednode.manifest import Kind, Manifest, Numerics, Privacy, Weights
from fednode.planned import Sign, SignEvaluation, Spec, spec_digest
from fednode.recipe import Recipe
from fednode.scoring import grid_of
from fednode.vit_recipe import ImportRecipe

LAST_EVALUATED = "evaluated"  # the setting with the time of our last evaluation, which no later one may share

_ARCHITECTURE: TypeAdapter[GeneratorArchitecture | ExpertArchitecture | ViTArchitecture] = TypeAdapter(Architecture)


def _privacy(job: Sign) -> Privacy | None:
    """The epsilon and delta of a private fit."""
    terms = job.spec["recipe"].get("privacy")
    if terms is None:
        return None
    return Privacy(epsilon=_decimal(terms["epsilon_milli"], 3), delta=_decimal(terms["delta_ppb"], 9))


def _decimal(number: int, places: int) -> str:
    """`number` over 10^places, without an exponent and without zeros at its end."""
    return f"{Decimal(number).scaleb(-places).normalize():f}"


def manifest_of(core: Core, job: Sign) -> Manifest:
    """The manifest to sign. Raises KeyError if the job that made the weights is not in the ledger."""
    made = _result(core, job.spec)
    kind, recipe = _kind(core, job.spec)
    return Manifest(
        contract=core.contract.id,
        created=int(time.time()),
        issuer=core.me,
        kind=kind,
        architecture=_ARCHITECTURE.validate_json(json.dumps(job.spec["architecture"])),
        recipe=recipe.digest,
        labels=job.labels,
        lineage=job.lineage,
        weights=Weights(digest=job.weights, size=made["size"], piece_size=made["piece_size"]),
        numerics=Numerics(**made["numerics"]),
        audit=job.audit,
        dp=_privacy(job),
    )


def _kind(core: Core, spec: Spec) -> tuple[Kind, Recipe]:
    """What the job of this spec makes, and how."""
    if spec["job"] == "import":
        return "classifier", ImportRecipe.model_validate(spec["recipe"])
    made: dict[str, tuple[Kind, Recipe]] = {
        "fit": ("generator", core.recipes.generator),
        "classifier": ("classifier", core.vits.classifier),
        "expert": ("expert", core.recipes.expert),
        "distil": ("expert", core.vits.distil),
    }
    return made[spec["job"]]


def evaluation_of(core: Core, job: SignEvaluation) -> Evaluation:
    """The evaluation to sign, younger than every one before that a peer can have taken: none does from far in the future.

    Raises KeyError if its job is not in the ledger.
    """
    now, last = int(time.time()), core.ledger.get(LAST_EVALUATED, 0)
    created = now if last > now + SKEW_SECONDS else max(now, last + 1)
    core.ledger.set(LAST_EVALUATED, created)
    return Evaluation(
        contract=core.contract.id,
        created=created,
        issuer=core.me,
        grid=grid_of(core.recipes).digest,
        labels=tuple(job.spec["labels"]),
        lineage=job.lineage,
        scores=tuple(Scores.model_validate_json(json.dumps(one)) for one in _result(core, job.spec)["scores"]),
    )


def _result(core: Core, spec: Spec) -> dict[str, Any]:
    found = {record.digest: record.result for record in core.ledger.jobs()}[spec_digest(spec)]
    return dict(found or {})
