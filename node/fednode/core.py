"""The parts of a running node, and what can be seen of them at one moment as the plain values that plan() takes."""

import os
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from fednode import inventory, modes
from fednode.book import Book
from fednode.catalogue import SKEW_SECONDS
from fednode.config import Home, Settings
from fednode.contract import Contract
from fednode.errors import IdentityError
from fednode.evaluation import Evaluation
from fednode.grid import CELLS
from fednode.inventory import Held, Inventory, Word
from fednode.ledger import Ledger
from fednode.manifest import Kind
from fednode.modes import UNDECIDED, Choice
from fednode.peersfile import Peers
from fednode.planned import Finished, Own, OwnLabel, State
from fednode.presets import Recipes
from fednode.records import JobRecord
from fednode.scoring import cells_of, grid_of, parts_of
from fednode.store import Store
from fednode.tally import Tally, add_up
from fednode.vit_recipe import ViTRecipes
from fednode_crypto.identity import Identity, PeerId

KINDS = "kinds"  # the setting that holds which kinds were exchanged last
READY = "ready"  # that with the spec of the classifier that was handed in


@dataclass
class Core:
    """What every part of the daemon shares.

    `choice`: the kinds of artifacts that are exchanged now. `scanned`: what the own images are, None until a scan has said so.
    """

    home: Home
    settings: Settings
    identity: Identity
    peers: Peers
    recipes: Recipes
    vits: ViTRecipes
    ledger: Ledger
    store: Store
    book: Book
    choice: Choice = UNDECIDED
    scanned: tuple[OwnLabel, ...] | None = None

    @property
    def me(self) -> PeerId:
        """Our own peer id."""
        return self.identity.peer_id

    @property
    def contract(self) -> Contract:
        """What all nodes of the federation have agreed on."""
        return self.peers.contract

    @property
    def left(self) -> bool:
        """Whether we revoked ourselves, or were revoked by a quorum."""
        return self.me in self.book.tombstones

    def name_of(self, peer: PeerId) -> str:
        """The name that peers.yaml gives a peer; ours from the settings; else the id itself."""
        names = {listed.id: listed.name for listed in self.peers.peers} | {self.me: self.settings.name}
        return names.get(peer, peer)


def given(core: Core) -> frozenset[str]:
    """The own labels of whose images peers have a model. Only the operator takes one back: images that vanish are a mishap."""
    mine = [manifest for pair, manifest in core.book.word().offers().items() if pair.issuer == core.me]
    names = {name for manifest in mine if manifest.kind != "expert" and manifest.audit for name in manifest.seen()}
    return frozenset() if core.left else frozenset(names) - core.ledger.withdrawn()


def check_secret(core: Core) -> None:
    """Raise IdentityError if the secret is gone whose noise published generators carry.

    A new one would give the same images other noise, and whoever has both generators could take more than epsilon from them.
    """
    mine = [manifest for pair, manifest in core.book.word().offers().items() if pair.issuer == core.me]
    if any(manifest.dp for manifest in mine) and not os.path.lexists(core.home.secret):
        raise IdentityError(
            f"The secret {core.home.secret} is missing, and this node has published generators whose noise follows from it.",
            "Put it back from your backup; in a new home a fit of the same images spends epsilon once more.",
        )


def said(core: Core) -> Word:
    """What the statements say to us; after we left, only our own count."""
    heard = core.book.word()
    return replace(heard, good=frozenset({core.me})) if core.left else heard


def word(core: Core) -> Word:
    """The same, about what we exchange."""
    return replace(said(core), kinds=core.choice.kinds)


def choose(core: Core, waited: bool) -> None:
    """Take the kinds that should be exchanged now; `waited`: the gather deadline for first words has passed.

    After we left it stays what it was, for others no longer count, and own models stay here.
    """
    held: frozenset[Kind] = frozenset(core.ledger.get(KINDS, ()))
    if core.left and held:
        core.choice = Choice(held, "as it was before this node left")
        return
    core.choice = modes.choose(core.settings.exchange, core.book.word(), core.me, held, waited)
    if core.choice.kinds != held:
        core.ledger.set(KINDS, sorted(core.choice.kinds))


def held(core: Core) -> Held:
    """What is on the disk; own weights need no check."""
    files = core.store.files()
    checks = core.ledger.checks()
    good = {pair for pair, verdict in checks.items() if verdict.good}
    own = {pair for pair in files if pair.issuer == core.me}
    bad = frozenset(pair for pair, verdict in checks.items() if not verdict.good)
    return Held(files, frozenset(good | own), bad)


def stock(core: Core) -> Inventory:
    """The inventory at this moment."""
    return inventory.take(word(core), held(core))


@dataclass(frozen=True)
class Sight:
    """What an answer is chosen by: the inventory, the counts about its products, and the cells that are fast enough.

    `latency`: milliseconds an image of the cells that were measured here.
    """

    stock: Inventory
    tally: Tally
    fast: frozenset[str]
    latency: Mapping[str, float] = field(default_factory=dict)


def sight(core: Core) -> Sight:
    """What an answer would be chosen by at this moment."""
    now = stock(core)
    return Sight(now, tally(core, now), fast(core), core.ledger.get("latency", {}))


def tally(core: Core, now: Inventory) -> Tally:
    """The counts of all evaluations about just those artifacts that answer now."""
    parts = parts_of(now)
    about = [one for one in core.book.evaluations().values() if frozenset(one.lineage) == parts]
    labels = now.covered(core.contract.labels)
    return add_up(labels, grid_of(core.recipes), about, now.given(), cells_of(now, labels))


def fast(core: Core) -> frozenset[str]:
    """The cells whose measured latency is within the operator's limit; without a limit all are."""
    limit = core.settings.max_latency
    if limit is None:
        return frozenset(CELLS)
    return frozenset(cell for cell, spent in core.ledger.get("latency", {}).items() if spent <= limit)


def state(core: Core, waited: bool, waited_experts: bool = False) -> State:
    """All that plan() sees; `waited` and `waited_experts`: the deadlines for generators and for experts have passed."""
    own = Own(
        scan=core.scanned,
        withdrawn=core.ledger.withdrawn(),
        overrides=core.ledger.overrides(),
        shown=core.settings.experts_see == "all",
        chooses=core.settings.exchange == "auto",
        ready=core.ledger.get(READY),
        finished=finished({job.digest: job for job in core.ledger.jobs()}),
        left=core.left,
        unconfirmed=core.book.unconfirmed(),
        unreported=core.ledger.unreported(),
        evaluation=_heard(core.book.evaluations().get(core.me)),
    )
    heard = word(core)
    return State(
        me=core.me,
        contract=core.contract,
        recipes=core.recipes,
        own=own,
        word=heard,
        held=held(core),
        peers=heard.good - {core.me},
        waited=waited,
        waited_experts=waited_experts,
        vits=core.vits,
    )


def _heard(own: Evaluation | None) -> Evaluation | None:
    """Our evaluation; none if it was signed while our clock was ahead, for peers refuse that one until its time comes."""
    return None if own is not None and own.created > time.time() + SKEW_SECONDS else own


def finished(jobs: Mapping[str, JobRecord]) -> dict[str, Finished]:
    """The jobs that need not run again: those done, and those that can't succeed."""
    done = {}
    for digest, job in jobs.items():
        if job.state == "done" and job.result is not None:
            done[digest] = Finished(job.result["digest"], job.result.get("passed", True))
        elif job.state == "failed":
            done[digest] = Finished(None)
    return done
