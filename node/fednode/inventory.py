"""The inventory Γ: which generators there are, by peer and label, and which experts may speak.

Rule 1: an artifact is offered when its issuer's current catalogue lists it and the issuer is in good standing; all else is void.
Rule 2: it is live when it is offered, here, and its weights were checked.
Rule 3: an expert is current when its lineage equals the live generators, and its labels are theirs; only current experts
        enter a product.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from fednode.catalogue import Catalogue
from fednode.lineage import Lineage, Pair, descendants
from fednode.manifest import Manifest
from fednode_crypto.identity import PeerId


@dataclass(frozen=True)
class Word:
    """What the statements say: the parties in good standing (with us), their catalogues, and manifests by digest."""

    good: frozenset[PeerId]
    catalogues: Mapping[PeerId, Catalogue]
    manifests: Mapping[str, Manifest]

    def offers(self) -> dict[Pair, Manifest]:
        """Every artifact that a party in good standing lists now."""
        listed = (
            self.manifests[digest]
            for peer in self.good & self.catalogues.keys()
            for digest in self.catalogues[peer].manifests
            if digest in self.manifests and self.manifests[digest].issuer == peer
        )
        return {manifest.pair: manifest for manifest in listed}


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
    """A label that a peer will publish and whose generator is not live here; label None: the peer has said nothing yet."""

    peer: PeerId
    label: str | None


@dataclass(frozen=True)
class Inventory:
    """Γ at one moment. `generators` and `experts` are live; `stale` experts are listed with the reason."""

    offered: Mapping[Pair, Manifest]
    generators: Mapping[Pair, Manifest]
    experts: Mapping[Pair, Manifest]
    stale: Mapping[Pair, str] = field(default_factory=dict)

    @property
    def live(self) -> Lineage:
        """The live generators as a lineage."""
        return frozenset(self.generators)

    def covered(self, labels: Iterable[str]) -> tuple[str, ...]:
        """Those of `labels`, in their order, that a live generator draws."""
        drawn = {name for manifest in self.generators.values() for name in manifest.names()}
        return tuple(label for label in labels if label in drawn)

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
    experts, stale = {}, {}
    for pair, manifest in offered.items():
        if manifest.kind != "expert":
            continue
        reason = why_stale(manifest, generators, word.good)
        if reason:
            stale[pair] = reason
        elif pair in usable:
            experts[pair] = manifest
    return Inventory(offered, generators, experts, stale)


def why_stale(expert: Manifest, generators: Mapping[Pair, Manifest], good: frozenset[PeerId]) -> str:
    """Why an expert may not speak beside these live generators, or an empty text if it is current."""
    inputs, live = frozenset(expert.lineage), generators.keys()
    if any(pair.issuer not in good for pair in inputs):
        return "tainted: it descends from a party that is gone"
    if inputs - live:
        return "stale: it used a generator that is not live here"
    if live - inputs:
        return "stale: it was built without a generator that is live here"
    if set(expert.names()) != {name for manifest in generators.values() for name in manifest.names()}:
        return "wrong: it does not tell apart the labels of the generators that it names"
    return ""


def missing(word: Word, inventory: Inventory, peers: Iterable[PeerId], bad: frozenset[Pair]) -> tuple[Missing, ...]:
    """What the gather rule waits for: the peers that said nothing, and their declared labels without a live generator.

    A label whose generator was found bad is not waited for.
    """
    drawn = {(pair.issuer, name) for pair, manifest in inventory.generators.items() for name in manifest.names()}
    spoiled = {
        (pair.issuer, name) for pair in bad & inventory.offered.keys() for name in inventory.offered[pair].names()
    }
    waited: list[Missing] = []
    for peer in sorted(peers):
        catalogue = word.catalogues.get(peer)
        if catalogue is None:
            waited.append(Missing(peer, None))
        else:
            waited += [Missing(peer, name) for name in catalogue.publishes if (peer, name) not in drawn | spoiled]
    return tuple(waited)


def to_erase(offered: Mapping[Pair, Manifest], held: Held, lineages: Mapping[Pair, Lineage]) -> frozenset[Pair]:
    """Files here that nobody stands behind any more, that were found bad, or that descend from what is void.

    `lineages` are those of all known manifests, so that an expert is found whose input was never seen here.
    """
    known = set(lineages) | {pair for inputs in lineages.values() for pair in inputs}
    void = (known | held.files) - offered.keys()
    return frozenset(held.files & (void | descendants(void, lineages) | held.bad))
