"""The values of a plan: what goes into plan(), and the jobs and erasures that come out of it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from fednode.catalogue import NOTHING_ELSE, Announced
from fednode.contract import Contract
from fednode.evaluation import Evaluation
from fednode.inventory import Held, Inventory, Missing, Word
from fednode.lineage import Pair
from fednode.manifest import Audit, LabelCount
from fednode.presets import Recipes
from fednode.vit_recipe import ClassifierRecipe, DistilRecipe, ViTRecipes
from fednode_crypto.digest import digest_json
from fednode_crypto.identity import PeerId

Spec = Mapping[str, Any]
CLASSIFIER = "of the classifier"


def spec_digest(spec: Spec) -> str:
    """SHA-256 (hex) that names the job."""
    return digest_json("fednode/spec/v1", dict(spec))


@dataclass(frozen=True)
class OwnLabel:
    """The own images of a label: how many train and are held out, the digest of them all, and of how many patients they are.

    `patients` is None if the source names none; the digest says what follows from them, so no spec has it.
    """

    label: str
    images: int
    holdout: int
    digest: str
    patients: int | None = None


@dataclass(frozen=True)
class Finished:
    """What a job left: the digest of its weights or report, and whether it passed; a job that can't succeed has none."""

    digest: str | None
    passed: bool = True


@dataclass(frozen=True)
class Own:
    """Our own side. `scan` None: the own images are not known yet. `left`: we revoked ourselves, or were revoked.

    `overrides` are the operator's reasons to publish generators, by weight digest, in spite of a failed audit. `shown`: the own
    expert sees own images, and not only what generators draw. `chooses`: what is exchanged follows from what all nodes hold.
    `ready`: the classifier that the operator handed in, which takes the place of one fitted to own images.
    """

    scan: tuple[OwnLabel, ...] | None = None
    withdrawn: frozenset[str] = frozenset()
    overrides: Mapping[str, str] = field(default_factory=dict)
    shown: bool = True
    chooses: bool = False
    ready: Spec | None = None
    finished: Mapping[str, Finished] = field(default_factory=dict)
    left: bool = False
    unconfirmed: frozenset[PeerId] = frozenset()
    unreported: frozenset[Pair] = frozenset()
    evaluation: Evaluation | None = None


VITS = ViTRecipes(classifier=ClassifierRecipe(), distil=DistilRecipe())


@dataclass(frozen=True)
class State:
    """All that plan() sees. `peers` are the listed peers in good standing.

    `word.kinds` are what this node offers and uses. `waited`: the gather deadline for these has passed; `waited_experts`: that
    for the peers' experts has.
    """

    me: PeerId
    contract: Contract
    recipes: Recipes
    own: Own
    word: Word
    held: Held
    peers: frozenset[PeerId] = frozenset()
    waited: bool = False
    waited_experts: bool = False
    vits: ViTRecipes = VITS


@dataclass(frozen=True)
class Scan:
    """Read the own images."""


@dataclass(frozen=True)
class Check:
    """Check a peer's weights before anything uses them."""

    pair: Pair


@dataclass(frozen=True)
class Fit:
    """Fit the generator of one label, or (None) the classifier of all own labels."""

    label: str | None
    spec: Spec


@dataclass(frozen=True)
class AuditJob:
    """Audit a fitted generator, or (None) the classifier."""

    label: str | None
    spec: Spec
    weights: str


@dataclass(frozen=True)
class Expert:
    """Train or distil the expert; `inputs` are the live generators and classifiers that it may use."""

    spec: Spec
    inputs: tuple[Pair, ...]


@dataclass(frozen=True)
class Sign:
    """Sign the manifest of own weights."""

    spec: Spec
    labels: tuple[LabelCount, ...]
    lineage: tuple[Pair, ...]
    weights: str
    audit: Audit | None


@dataclass(frozen=True)
class Publish:
    """Sign and list a new catalogue."""

    publishes: tuple[str, ...]
    manifests: tuple[str, ...]
    announced: Announced = NOTHING_ELSE


@dataclass(frozen=True)
class Confirm:
    """Sign a receipt on what was void and erased, now that what replaces it stands."""

    revoked: tuple[PeerId, ...]
    erased: tuple[Pair, ...]
    rebuilt: tuple[str, ...]


@dataclass(frozen=True)
class Score:
    """Score the products, whose parts are `lineage`, on own held-out images."""

    spec: Spec
    lineage: tuple[Pair, ...]


@dataclass(frozen=True)
class SignEvaluation:
    """Sign what a Score job has counted."""

    spec: Spec
    lineage: tuple[Pair, ...]


Job = Scan | Check | Fit | AuditJob | Sign | Publish | Expert | Confirm | Score | SignEvaluation


def title(job: Job) -> str:
    """The job in a few words."""
    match job:
        case Scan():
            return "scan"
        case Fit(label=label):
            return f"fit {label or CLASSIFIER}"
        case AuditJob(label=label):
            return f"audit {label or CLASSIFIER}"
        case Expert():
            return "expert"
        case Check(pair=pair):
            return f"check {pair.digest[:12]}"
    return type(job).__name__.lower()


def key(job: Job) -> str:
    """What names a job: the digest of its spec where it has one."""
    if isinstance(job, Fit | AuditJob | Expert | Score):
        return spec_digest(job.spec)
    return title(job)


@dataclass(frozen=True)
class Plan:
    """Erase first, fetch at any time, run the jobs in order.

    `missing` is what the gather rule still waits for; `lacking` are the peers whose experts scoring waits for.
    """

    jobs: tuple[Job, ...]
    erase: tuple[Pair, ...]
    fetch: tuple[Pair, ...]
    missing: tuple[Missing, ...]
    inventory: Inventory
    lacking: tuple[PeerId, ...] = ()

    @property
    def idle(self) -> bool:
        """Nothing is left to do."""
        return not (self.jobs or self.erase or self.fetch)
