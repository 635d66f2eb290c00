"""The inventory Γ: which generators and classifiers there are, by peer and label, and which experts may speak.

Rule 1: an artifact is offered when its issuer's current catalogue lists it and the issuer is in good standing; all else is void.
Rule 2: it is live when it is offered, here, and its weights were checked.
Rule 3: an expert is current when its lineage is all that is live of the kinds that it used, and its labels are theirs, which
        are all that is covered here; only current experts enter a product.
Rule 4: of the kinds that a node does not exchange nothing is offered to it.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from fednode.catalogue import Catalogue
from fednode.lineage import Lineage, Pair, descendants
from fednode.manifest import Kind, Manifest
from fednode_crypto.identity import PeerId

SOURCES: frozenset[Kind] = frozenset({"generator", "classifier"})  # what experts are made from
GENERATORS: frozenset[Kind] = frozenset({"generator"})


@dataclass(frozen=True)
class Word:
    """What the statements say: the parties in good standing (with us), their catalogues, and manifests by digest.

    `kinds` are those that experts are made from here; none while a node has not chosen.
    """

    good: frozenset[PeerId]
    catalogues: Mapping[PeerId, Catalogue]
    manifests: Mapping[str, Manifest]
    kinds: frozenset[Kind] = GENERATORS

    def offers(self) -> dict[Pair, Manifest]:
        """Every expert, and every artifact of our kinds, that a party in good standing lists now."""
        listed = (
            self.manifests[digest]
            for peer in self.good & self.catalogues.keys()
            for digest in self.catalogues[peer].manifests
            if digest in self.manifests and self.manifests[digest].issuer == peer
        )
        return {manifest.pair: manifest for manifest in listed if manifest.kind in {*self.kinds, "expert"}}


@dataclass(frozen=True)
class Held:
    """What is on this disk: complete weight files, and of those from peers the ones found good or bad."""

    files: frozenset[Pair] = frozenset()
    checked: frozenset[Pair] = frozenset()
    bad: frozenset[Pair] = frozenset()

    def without(self, erased: Lineage) -> "Held":
        """The same after `erased` is gone from the disk."""
        return replace(self, files=self.files - erased)


@dataclass(frozen=True)
class Missing:
    """What a peer will publish and is not live here: the generator of a label, or its classifier.

    With neither it has not said yet what that will be.
    """

    peer: PeerId
    label: str | None
    classifier: bool = False


@dataclass(frozen=True)
class Inventory:
    """Γ at one moment. `generators`, `classifiers` and `experts` are live; `stale` experts are listed with the reason."""

    offered: Mapping[Pair, Manifest]
    generators: Mapping[Pair, Manifest]
    experts: Mapping[Pair, Manifest]
    stale: Mapping[Pair, str] = field(default_factory=dict)
    classifiers: Mapping[Pair, Manifest] = field(default_factory=dict)

    @property
    def live(self) -> Lineage:
        """The live generators and classifiers as a lineage."""
        return frozenset(self.generators.keys() | self.classifiers.keys())

    def covered(self, labels: Iterable[str]) -> tuple[str, ...]:
        """Those of `labels`, in their order, that a live generator draws or a live classifier has seen."""
        known = _labels((*self.generators.values(), *self.classifiers.values()))
        return tuple(label for label in labels if label in known)

    def draws(self, labels: Iterable[str]) -> bool:
        """Whether a live generator draws each of `labels`."""
        return set(labels) <= _labels(self.generators.values())

    def gamma(self) -> dict[PeerId, dict[str, str]]:
        """Peer -> label -> weight digest of the live generator."""
        table: dict[PeerId, dict[str, str]] = {}
        for pair, manifest in sorted(self.generators.items()):
            table.setdefault(pair.issuer, {}).update(dict.fromkeys(manifest.names(), pair.digest))
        return table


def take(word: Word, held: Held) -> Inventory:
    """The inventory that follows from what was said and what is here."""
    offered = word.offers()
    usable = {
        pair: manifest
        for pair, manifest in offered.items()
        if pair in held.files & held.checked and pair not in held.bad
    }
    generators = {pair: manifest for pair, manifest in usable.items() if manifest.kind == "generator"}
    classifiers = {pair: manifest for pair, manifest in usable.items() if manifest.kind == "classifier"}
    experts, stale = {}, {}
    for pair, manifest in offered.items():
        if manifest.kind != "expert":
            continue
        reason = why_stale(manifest, {**generators, **classifiers}, word.good)
        if reason:
            stale[pair] = reason
        elif pair in usable:
            experts[pair] = manifest
    return Inventory(offered, generators, experts, stale, classifiers)


def why_stale(expert: Manifest, live: Mapping[Pair, Manifest], good: frozenset[PeerId]) -> str:
    """Why an expert may not speak beside these live generators and classifiers, or an empty text if it is current."""
    inputs = frozenset(expert.lineage)
    if any(pair.issuer not in good for pair in inputs):
        return "tainted: it descends from a party that is gone"
    if inputs - live.keys():
        what = "generator" if expert.architecture.family == "timm" else "generator or classifier"
        return f"stale: it used a {what} that is not live here"
    kinds = {live[pair].kind for pair in inputs}
    beside = {pair: manifest for pair, manifest in live.items() if manifest.kind in kinds}
    if left_out := beside.keys() - inputs:
        return f"stale: it was built without a {live[min(left_out)].kind} that is live here"
    if set(expert.names()) != _labels(beside.values()):
        return "wrong: it does not tell apart the labels of what it was made from"
    if set(expert.names()) != _labels(live.values()):
        return "narrow: it does not tell apart all labels that are covered here"
    return ""


def _labels(manifests: Iterable[Manifest]) -> set[str]:
    return {name for manifest in manifests for name in manifest.seen()}


def missing(word: Word, inventory: Inventory, peers: Iterable[PeerId], bad: frozenset[Pair]) -> tuple[Missing, ...]:
    """What the gather rule waits for: the peers that said nothing, and what they announce of our kinds and is not live.

    What was found bad is not waited for.
    """
    live = {**inventory.generators, **inventory.classifiers}
    there = {**live, **{pair: inventory.offered[pair] for pair in bad & inventory.offered.keys()}}
    here = {one for pair, manifest in there.items() for one in _announcements(pair.issuer, manifest)}
    waited = (one for peer in sorted(peers) for one in _awaited(peer, word.catalogues.get(peer), word.kinds))
    return tuple(one for one in waited if one not in here)


def _announcements(issuer: PeerId, manifest: Manifest) -> list[Missing]:
    """What this artifact answers for among what its issuer announced."""
    if manifest.kind == "classifier":
        return [Missing(issuer, None, classifier=True)]
    return [Missing(issuer, name) for name in manifest.names()]


def _awaited(peer: PeerId, catalogue: Catalogue | None, kinds: frozenset[Kind]) -> list[Missing]:
    """All that a peer announces of these kinds."""
    if catalogue is None or catalogue.undecided:
        return [Missing(peer, None)]
    generators = [Missing(peer, name) for name in catalogue.publishes if "generator" in kinds]
    return generators + [Missing(peer, None, classifier=True)] * bool(catalogue.classifies and "classifier" in kinds)


def to_erase(offered: Mapping[Pair, Manifest], held: Held, lineages: Mapping[Pair, Lineage]) -> frozenset[Pair]:
    """Files here that nobody stands behind any more, that were found bad, or that descend from what is void.

    `lineages` are those of all known manifests, so that an expert is found whose input was never seen here.
    """
    known = set(lineages) | {pair for inputs in lineages.values() for pair in inputs}
    void = (known | held.files) - offered.keys()
    return frozenset(held.files & (void | descendants(void, lineages) | held.bad))
