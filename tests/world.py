"""A federation in memory: nodes that do what plan() says, with digests of specs in place of weights."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from random import Random

from making import IMAGE, NOW, NUMERICS, digest, identity
from pydantic import TypeAdapter

from fednode import inventory, modes
from fednode.architecture import Architecture
from fednode.catalogue import FRESH_SECONDS, Catalogue
from fednode.config import Exchange
from fednode.contract import Contract
from fednode.evaluation import Evaluation, Row, Scores
from fednode.inventory import GENERATORS, Held, Word
from fednode.lineage import Pair
from fednode.manifest import Kind, Manifest, Weights
from fednode.plan import plan
from fednode.planned import (
    AuditJob,
    Check,
    Confirm,
    Expert,
    Finished,
    Fit,
    Job,
    Own,
    OwnLabel,
    Plan,
    Publish,
    Scan,
    Score,
    Sign,
    SignEvaluation,
    Spec,
    State,
    spec_digest,
)
from fednode.presets import Recipes
from fednode.recipe import AuditRecipe, ExpertRecipe, GeneratorRecipe
from fednode_crypto.identity import PeerId

LABELS = ("ant", "bee", "cat", "dog")
CONTRACT = Contract(federation="world", labels=LABELS, image=IMAGE)
RECIPES = Recipes(
    preset="nano",
    generator=GeneratorRecipe(images=1000),
    audit=AuditRecipe(),
    expert=ExpertRecipe(),
)
ARCHITECTURE: TypeAdapter[Architecture] = TypeAdapter(Architecture)
MADE: dict[str, Kind] = {
    "fit": "generator",
    "classifier": "classifier",
    "import": "classifier",
    "expert": "expert",
    "distil": "expert",
}
Images = Mapping[str, str]


def weights_of(spec: Spec) -> str:
    """The weight digest that a job with this spec gives, on every node."""
    return digest(f"weights of {spec_digest(spec)}")


def evaluation(me: PeerId, spec: Spec, lineage: tuple[Pair, ...]) -> Evaluation:
    """The evaluation of a node that answered everything with the first label."""
    row = Row(label=spec["labels"][0], answered=((0, 5),), losses=(0,))
    scores = (Scores(cell="experts", rows=(row,)),)
    return Evaluation(
        contract=CONTRACT.id,
        created=NOW,
        issuer=me,
        grid=digest("grid"),
        labels=tuple(spec["labels"]),
        lineage=lineage,
        scores=scores,
    )


@dataclass(frozen=True)
class Moment:
    """What a node had when it signed a receipt."""

    receipt: Confirm
    expert: frozenset[str]
    files: frozenset[Pair]
    covered: tuple[str, ...]


@dataclass
class Node:
    """One node: its own images (label -> a text that stands for them), and what it has heard, made and kept.

    An audit of a label in `failing` fails (None: of the classifier), and so does a check of weights in `spoiled`. `exchange` is
    what its operator asked for, `kinds` what it took last.
    """

    me: PeerId
    images: Images
    listed: frozenset[PeerId] = frozenset()
    exchange: Exchange = "generators"
    kinds: frozenset[Kind] = GENERATORS
    waited_words: bool = False
    ready: Spec | None = None
    failing: frozenset[str | None] = frozenset()
    withdrawn: frozenset[str] = frozenset()
    overrides: Mapping[str, str] = field(default_factory=dict)
    shown: bool = True
    suspended: frozenset[PeerId] = frozenset()
    revoked: set[PeerId] = field(default_factory=set)
    waited: bool = False
    waited_experts: bool = False
    scan: tuple[OwnLabel, ...] | None = None
    finished: dict[str, Finished] = field(default_factory=dict)
    files: set[Pair] = field(default_factory=set)
    checked: set[Pair] = field(default_factory=set)
    bad: set[Pair] = field(default_factory=set)
    spoiled: set[Pair] = field(default_factory=set)
    catalogues: dict[PeerId, Catalogue] = field(default_factory=dict)
    manifests: dict[str, Manifest] = field(default_factory=dict)
    unconfirmed: set[PeerId] = field(default_factory=set)
    unreported: set[Pair] = field(default_factory=set)
    evaluation: Evaluation | None = None
    receipts: list[Moment] = field(default_factory=list)
    log: list[Job] = field(default_factory=list)

    @property
    def left(self) -> bool:
        return self.me in self.revoked

    def word(self) -> Word:
        good = (self.listed | {self.me}) - self.revoked - self.suspended
        said = Word(
            frozenset({self.me}) if self.left else good, dict(self.catalogues), dict(self.manifests), self.kinds
        )
        if not self.left:
            self.kinds = modes.choose(self.exchange, said, self.me, self.kinds, self.waited_words).kinds
        return replace(said, kinds=self.kinds)

    def held(self) -> Held:
        own = {pair for pair in self.files if pair.issuer == self.me}
        return Held(frozenset(self.files), frozenset(self.checked | own), frozenset(self.bad))

    def state(self) -> State:
        own = Own(
            scan=self.scan,
            withdrawn=self.withdrawn,
            overrides=self.overrides,
            shown=self.shown,
            chooses=self.exchange == "auto",
            ready=self.ready,
            finished=dict(self.finished),
            left=self.left,
            unconfirmed=frozenset(self.unconfirmed),
            unreported=frozenset(self.unreported),
            evaluation=self.evaluation,
        )
        word = self.word()
        peers = word.good - {self.me}
        return State(self.me, CONTRACT, RECIPES, own, word, self.held(), peers, self.waited, self.waited_experts)

    def plan(self) -> Plan:
        return plan(self.state())

    def stock(self) -> inventory.Inventory:
        return inventory.take(self.word(), self.held())

    def product(self) -> set[str]:
        """Weight digests of the experts that may speak here."""
        return {pair.digest for pair in self.stock().experts}

    def expert(self) -> set[str]:
        """Weight digest of our own current expert."""
        return {pair.digest for pair in self.stock().experts if pair.issuer == self.me}

    def hear(self, other: "Node") -> None:
        """Take over the other's catalogue with its manifests, if it is newer."""
        said, held = other.catalogues.get(other.me), self.catalogues.get(other.me)
        if said is None or other.me in self.revoked or (held and held.sequence >= said.sequence):
            return
        self.catalogues[other.me] = said
        self.manifests |= {digest: other.manifests[digest] for digest in said.manifests}

    def hear_revocation(self, subject: PeerId) -> None:
        if subject not in self.revoked:
            self.revoked.add(subject)
            self.unconfirmed |= {subject} - {self.me}

    def step(self, others: Iterable["Node"], most: int = 1) -> bool:
        """Do what the plan says, `most` jobs of it; False if there was nothing to do."""
        todo = self.plan()
        fetched = self.fetch(todo.fetch, others)
        self.erase(todo.erase)
        for job in () if todo.erase else todo.jobs[:most]:
            self.log.append(job)
            self.run(job)
        return bool(fetched or todo.erase or todo.jobs)

    def erase(self, pairs: Iterable[Pair]) -> None:
        offered = replace(self.word(), kinds=inventory.SOURCES).offers()
        known = {manifest.pair for manifest in self.manifests.values()}
        mine = {pair.digest for pair in pairs if pair.issuer == self.me}
        self.files -= set(pairs)
        self.unreported |= {pair for pair in pairs if pair in known and pair not in offered}
        self.finished = {spec: done for spec, done in self.finished.items() if done.digest not in mine}

    def fetch(self, wanted: Iterable[Pair], others: Iterable["Node"]) -> bool:
        found = {pair for pair in wanted for other in others if pair in other.files}
        self.files |= found
        return bool(found)

    def run(self, job: Job) -> None:
        match job:
            case Scan():
                self.scan = tuple(
                    OwnLabel(label, 40, 5, digest(self.images[label])) for label in LABELS if label in self.images
                )
            case Check(pair=pair):
                (self.bad if pair in self.spoiled else self.checked).add(pair)
            case Fit(spec=spec) | Expert(spec=spec):
                self.files.add(Pair(self.me, weights_of(spec)))
                self.finished[spec_digest(spec)] = Finished(weights_of(spec))
            case AuditJob(label=label, spec=spec):
                self.finished[spec_digest(spec)] = Finished(digest("report"), label not in self.failing)
            case Sign():
                manifest = self.manifest(job)
                self.manifests[manifest.digest] = manifest
            case Publish():
                self.publish(job)
            case Confirm(revoked=revoked, erased=erased):
                covered = self.stock().covered(LABELS)
                self.receipts.append(Moment(job, frozenset(self.expert()), frozenset(self.files), covered))
                self.unconfirmed -= set(revoked)
                self.unreported -= set(erased)
            case Score(spec=spec, lineage=lineage):
                self.finished[spec_digest(spec)] = Finished(evaluation(self.me, spec, lineage).counts)
            case SignEvaluation(spec=spec, lineage=lineage):
                self.evaluation = evaluation(self.me, spec, lineage)

    def manifest(self, job: Sign) -> Manifest:
        return Manifest(
            contract=CONTRACT.id,
            created=NOW,
            issuer=self.me,
            kind=MADE[job.spec["job"]],
            architecture=ARCHITECTURE.validate_json(json.dumps(job.spec["architecture"])),
            recipe=digest("recipe"),
            labels=job.labels,
            lineage=job.lineage,
            weights=Weights(digest=job.weights, size=1, piece_size=2**20),
            numerics=NUMERICS,
            audit=job.audit,
            dp=None,
        )

    def publish(self, job: Publish) -> None:
        held = self.catalogues.get(self.me)
        self.catalogues[self.me] = Catalogue(
            contract=CONTRACT.id,
            created=NOW,
            issuer=self.me,
            sequence=held.sequence + 1 if held else 1,
            previous=held.digest if held else None,
            fresh_until=NOW + FRESH_SECONDS,
            publishes=job.publishes,
            manifests=job.manifests,
            classifies=job.announced.classifies,
            holds=job.announced.holds,
            undecided=job.announced.undecided,
        )


@dataclass
class World:
    """Several nodes; `chance` decides in which order they hear of each other and work."""

    nodes: list[Node]
    chance: Random

    @classmethod
    def of(cls, federation: Iterable[tuple[int, Images]], seed: int = 0, exchange: Exchange = "generators") -> "World":
        """The nodes with these numbers, which decide their keys, and these images; all list each other."""
        chosen = modes.KINDS.get(exchange, frozenset())
        nodes = [
            Node(identity(number).peer_id, dict(images), exchange=exchange, kinds=chosen)
            for number, images in federation
        ]
        for node in nodes:
            node.listed = frozenset(other.me for other in nodes) - {node.me}
        return cls(nodes, Random(seed))

    def wander(self, ticks: int) -> None:
        """Let anything happen, in any order, for a while."""
        for _ in range(ticks):
            node, other = self.chance.choice(self.nodes), self.chance.choice(self.nodes)
            if self.chance.random() < 0.5:
                node.hear(other)
                for subject in set(other.revoked):
                    node.hear_revocation(subject)
            else:
                node.step(self.reachable(node))

    def settle(self) -> "World":
        """Let everything happen that is left to happen."""
        for _ in range(1000):
            if not self.round():
                return self
        raise AssertionError("the federation does not come to rest")

    def round(self) -> bool:
        worked = False
        for node in self.chance.sample(self.nodes, len(self.nodes)):
            for other in self.nodes:
                node.hear(other)
                for subject in set(other.revoked):
                    node.hear_revocation(subject)
            while node.step(self.reachable(node), most=100):
                worked = True
        return worked

    def reachable(self, node: Node) -> list[Node]:
        return [other for other in self.nodes if other is not node and not other.left]

    def without(self, node: Node) -> list[Node]:
        return [other for other in self.nodes if other is not node]
