"""What is known of the audits of own generators and of the own classifier, and what is on offer with a failed one or none."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fednode.core import Core
from fednode.inventory import Inventory
from fednode.lineage import Pair
from fednode.manifest import Manifest
from fednode.specs import own_digests

REPORT, PAGE = "audit.json", "audit.html"


@dataclass(frozen=True)
class OwnAudit:
    """The audit of the generator fitted to the present own images of a label; `override` is the operator's reason, if any.

    Without a label it is that of the classifier of all own labels.
    """

    label: str
    weights: str
    passed: bool
    reasons: tuple[str, ...]
    override: str | None
    folder: Path

    @property
    def name(self) -> str:
        """What it is called: its label, or `classifier`."""
        return self.label or "classifier"

    @property
    def files(self) -> dict[str, str | None]:
        """Where report and page are; None for one that is not there."""
        paths = {"report": self.folder / REPORT, "page": self.folder / PAGE}
        return {name: str(path) if path.exists() else None for name, path in paths.items()}


def own_audits(core: Core) -> list[OwnAudit]:
    """The newest audit of each own generator, by label, and of the own classifier."""
    digests, files, overrides = {own.digest for own in core.scanned or ()}, core.store.files(), core.ledger.overrides()
    found: dict[str, OwnAudit] = {}
    for job in core.ledger.jobs():
        if job.kind != "audit" or job.result is None or not own_digests(job.spec) <= digests:
            continue
        label, weights = job.spec.get("label", ""), job.spec["weights"]
        if (pair := Pair(core.me, weights)) in files:
            passed, reasons = job.result["passed"], tuple(job.result["reasons"])
            override = None if passed else overrides.get(weights)
            found[label] = OwnAudit(label, weights, passed, reasons, override, core.store.derived(pair))
    return [found[label] for label in sorted(found)]


@dataclass(frozen=True)
class OwnExpert:
    """The newest own expert that is here, by weight digest, and what was found when it was made.

    `membership`: how well its own images are told from others (None: unknown). `samples`: what the generative product says of
    each donor's samples (`label`, `donor` as digest, `asked`, `doubted`). `dropped`: how many of a donor's samples were left out.
    """

    digest: str
    membership: Any
    samples: Sequence[Mapping[str, Any]]
    dropped: Mapping[str, int]


def own_expert(core: Core) -> OwnExpert | None:
    """The newest own expert that is here."""
    files = core.store.files()
    done = [job.result for job in core.ledger.jobs() if job.kind == "expert" and job.result is not None]
    here = [made for made in done if Pair(core.me, made["digest"]) in files]
    if not here:
        return None
    made = here[-1]
    return OwnExpert(made["digest"], made.get("membership"), made.get("samples", ()), made.get("dropped", {}))


def overridden(stock: Inventory) -> list[tuple[Manifest, str]]:
    """What is on offer with a failed audit, each with the reason for which its issuer publishes it."""
    offered = sorted(stock.offered.items())
    return [
        (manifest, manifest.audit.override) for _, manifest in offered if manifest.audit and manifest.audit.override
    ]
