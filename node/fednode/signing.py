"""Own manifests: what a Sign job of the plan says, with the size, numerics and time that the job that made the weights left."""

import json
import time

from pydantic import TypeAdapter

from fednode.core import Core
from fednode.manifest import Manifest, Numerics, Weights
from fednode.plan import Sign, spec_digest
from fednode.recipe import Architecture, ExpertArchitecture, GeneratorArchitecture

_ARCHITECTURE: TypeAdapter[GeneratorArchitecture | ExpertArchitecture] = TypeAdapter(Architecture)


def manifest_of(core: Core, job: Sign) -> Manifest:
    """The manifest to sign. Raises KeyError if the job that made the weights is not in the ledger."""
    made = {record.digest: record.result for record in core.ledger.jobs()}[spec_digest(job.spec)] or {}
    expert = job.spec["job"] == "expert"
    return Manifest(
        contract=core.contract.id,
        created=int(time.time()),
        issuer=core.me,
        kind="expert" if expert else "generator",
        architecture=_ARCHITECTURE.validate_json(json.dumps(job.spec["architecture"])),
        recipe=(core.recipes.expert if expert else core.recipes.generator).digest,
        labels=job.labels,
        lineage=job.lineage,
        weights=Weights(digest=job.weights, size=made["size"], piece_size=made["piece_size"]),
        numerics=Numerics(**made["numerics"]),
        audit=job.audit,
        dp=None,
    )
