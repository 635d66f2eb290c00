"""What must go, and the word on it: erasures, what is taken back, and receipts. Pure."""

from collections.abc import Iterable, Mapping, Set

from fednode import inventory
from fednode.catalogue import Announced
from fednode.inventory import Inventory
from fednode.lineage import Lineage, Pair
from fednode.manifest import Manifest
from fednode.planned import Confirm, Publish, Spec, State
from fednode.specs import expert_spec, finished, makings
from fednode_crypto.identity import PeerId


def to_erase(state: State) -> Lineage:
    """Files that are void, bad or tainted, and own files that nothing wants: no own label, classifier or expert."""
    offered = {} if state.own.left else state.word.offers()
    lineages = _lineages(state.word.manifests.values()) | _lineages(offered.values())
    unwanted = inventory.to_erase(offered, state.held, lineages)
    theirs = frozenset(pair for pair in unwanted if pair.issuer != state.me)
    if state.own.scan is None:
        ours = unwanted - theirs
        return theirs | _tainted(state.me, ours, lineages, offered.keys()) | (ours & taken_back(state))
    ours = frozenset(pair for pair in state.held.files if pair.issuer == state.me)
    unsure = ours - _results(state, (making.spec for making in makings(state)))
    stock = inventory.take(state.word, state.held.without(theirs | unsure))
    spec = None if state.own.left else expert_spec(state, stock)
    return theirs | (unsure - _results(state, (spec,) if spec else ()))


def _lineages(manifests: Iterable[Manifest]) -> dict[Pair, Lineage]:
    """Equal specs give equal weights, so a pair can have several manifests; the one on offer is to come last."""
    return {manifest.pair: frozenset(manifest.lineage) for manifest in manifests}


def _tainted(me: PeerId, ours: Lineage, lineages: Mapping[Pair, Lineage], offered: Set[Pair]) -> Lineage:
    """Own experts that descend from something void of a peer: they go before the own images are known."""
    return frozenset(
        pair for pair in ours if any(void.issuer != me for void in lineages.get(pair, frozenset()) - offered)
    )


def _results(state: State, specs: Iterable[Spec]) -> Lineage:
    done = (finished(state, spec) for spec in specs)
    return frozenset(Pair(state.me, job.digest) for job in done if job and job.digest)


def withdrawal(state: State) -> tuple[Publish, ...]:
    """The present catalogue without what was taken back: it does not wait for images, which may never be readable again."""
    held = state.word.catalogues.get(state.me)
    if held is None:
        return ()
    back = taken_back(state)
    known = state.word.manifests
    manifests = tuple(digest for digest in held.manifests if digest not in known or known[digest].pair not in back)
    publishes, classifies, holds = (
        tuple(label for label in labels if label not in state.own.withdrawn)
        for labels in (held.publishes, held.classifies, held.holds)
    )
    job = Publish(publishes, manifests, Announced(classifies, holds, held.undecided))
    return () if job == Publish(held.publishes, held.manifests, held.announced) else (job,)


def taken_back(state: State) -> Lineage:
    """Own generators and classifiers of labels that were withdrawn, and own experts that descend from one."""
    mine = [manifest for manifest in state.word.manifests.values() if manifest.issuer == state.me]
    sources = {one.pair for one in mine if one.kind != "expert" and set(one.seen()) & state.own.withdrawn}
    return frozenset(sources | {one.pair for one in mine if sources & set(one.lineage)})


def confirmation(state: State, stock: Inventory) -> tuple[Confirm, ...]:
    """A receipt on what no receipt names yet, once the expert without it stands."""
    if not (state.own.unconfirmed or state.own.unreported):
        return ()
    rebuilt = tuple(sorted(pair.digest for pair in stock.experts if pair.issuer == state.me))
    if not rebuilt and expert_spec(state, stock) is not None:
        return ()
    return (Confirm(tuple(sorted(state.own.unconfirmed)), tuple(sorted(state.own.unreported)), rebuilt),)
