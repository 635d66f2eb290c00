"""plan(): what should exist, what is missing, what must go. State in, jobs and erasures out; no IO, no clock, no torch.

Rule 1: a job is named by the digest of its spec: the same spec is the same job, everywhere and for ever.
Rule 2: specs name inputs by weight digest alone, sorted: never a peer, a manifest, an order of arrival or a time.
Rule 3: fit, audit, sign and list come in that order; a generator is live, also for its owner, only once listed.
Rule 4: the expert waits until every declared generator is here, or until the gather deadline has passed.
Rule 5: what is not wanted any more is erased before anything is built, and a receipt follows once the new expert stands.
Rule 6: scoring comes last, and nothing but the own evaluation follows from it.
"""

from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass, field, replace
from typing import Any

from fednode import inventory
from fednode.contract import Contract
from fednode.evaluation import Evaluation
from fednode.inventory import Held, Inventory, Missing, Word
from fednode.lineage import Lineage, Pair
from fednode.manifest import Audit, LabelCount, Manifest
from fednode.recipe import Recipes, expert_architecture, generator_architecture
from fednode.scoring import grid_of, lacking, parts_of, score_spec
from fednode_crypto.digest import digest_json
from fednode_crypto.identity import PeerId

Spec = Mapping[str, Any]


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
    expert sees own images, and not only what generators draw.
    """

    scan: tuple[OwnLabel, ...] | None = None
    withdrawn: frozenset[str] = frozenset()
    overrides: Mapping[str, str] = field(default_factory=dict)
    shown: bool = True
    finished: Mapping[str, Finished] = field(default_factory=dict)
    left: bool = False
    unconfirmed: frozenset[PeerId] = frozenset()
    unreported: frozenset[Pair] = frozenset()
    evaluation: Evaluation | None = None


@dataclass(frozen=True)
class State:
    """All that plan() sees. `peers` are the listed peers in good standing.

    `waited`: the gather deadline for generators has passed; `waited_experts`: that for the peers' experts has.
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


@dataclass(frozen=True)
class Scan:
    """Read the own images."""


@dataclass(frozen=True)
class Check:
    """Check a peer's weights before anything uses them."""

    pair: Pair


@dataclass(frozen=True)
class Fit:
    """Fit the generator of one label."""

    label: str
    spec: Spec


@dataclass(frozen=True)
class AuditJob:
    """Audit a fitted generator."""

    label: str
    spec: Spec
    weights: str


@dataclass(frozen=True)
class Expert:
    """Train the expert; `inputs` are the live generators it may draw from."""

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


def plan(state: State) -> Plan:
    """What must be done now so that what should exist exists, and nothing else."""
    erase = _to_erase(state)
    state = replace(state, held=state.held.without(erase))
    stock = inventory.take(state.word, state.held)
    if state.own.left:
        return Plan((), tuple(sorted(erase)), (), (), stock)
    missing = inventory.missing(state.word, stock, state.peers, state.held.bad)
    jobs = (*_checks(state, stock), *_own_jobs(state, stock, missing))
    late = lacking(stock, state.peers, state.word.catalogues.keys())
    if not erase and not jobs:
        jobs = _confirmation(state, stock) or _scoring(state, stock, missing, late)
    return Plan(jobs, tuple(sorted(erase)), _fetches(state, stock), missing, stock, late)


def _to_erase(state: State) -> Lineage:
    """Files that are void, bad or tainted, and own files that are neither a wanted generator nor the wanted expert."""
    offered = {} if state.own.left else state.word.offers()
    lineages = _lineages(state.word.manifests.values()) | _lineages(offered.values())
    unwanted = inventory.to_erase(offered, state.held, lineages)
    theirs = frozenset(pair for pair in unwanted if pair.issuer != state.me)
    if state.own.scan is None:
        ours = unwanted - theirs
        return theirs | _tainted(state.me, ours, lineages, offered.keys()) | (ours & _taken_back(state))
    ours = frozenset(pair for pair in state.held.files if pair.issuer == state.me)
    unsure = ours - _results(state, (fit_spec(state, own) for own in _own_labels(state)))
    stock = inventory.take(state.word, state.held.without(theirs | unsure))
    spec = None if state.own.left else _expert_spec(state, stock)
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
    done = (_finished(state, spec) for spec in specs)
    return frozenset(Pair(state.me, job.digest) for job in done if job and job.digest)


def _finished(state: State, spec: Spec) -> Finished | None:
    return state.own.finished.get(spec_digest(spec))


def _own_labels(state: State) -> tuple[OwnLabel, ...]:
    return tuple(own for own in state.own.scan or () if own.label not in state.own.withdrawn)


def _checks(state: State, stock: Inventory) -> tuple[Check, ...]:
    unchecked = state.held.files & stock.offered.keys() - state.held.checked - state.held.bad
    return tuple(Check(pair) for pair in sorted(unchecked))


def _fetches(state: State, stock: Inventory) -> tuple[Pair, ...]:
    """Generators on offer, and experts only while they are current, so that none crosses an edge in vain."""
    wanted = stock.offered.keys() - state.held.files - state.held.bad - stock.stale.keys()
    return tuple(sorted(pair for pair in wanted if pair.issuer != state.me))


def _own_jobs(state: State, stock: Inventory, missing: tuple[Missing, ...]) -> tuple[Job, ...]:
    if state.own.scan is None:
        return (*_withdrawal(state), Scan())
    labels = tuple(job for own in _own_labels(state) for job in _label_jobs(state, own))
    publish = _publication(state, stock)
    if labels or publish:
        return (*publish, *labels)
    return _expert_jobs(state, stock, missing)


def _withdrawal(state: State) -> tuple[Publish, ...]:
    """The present catalogue without what was taken back: it does not wait for images, which may never be readable again."""
    held = state.word.catalogues.get(state.me)
    if held is None:
        return ()
    back = _taken_back(state)
    known = state.word.manifests
    manifests = tuple(digest for digest in held.manifests if digest not in known or known[digest].pair not in back)
    publishes = tuple(label for label in held.publishes if label not in state.own.withdrawn)
    return () if (publishes, manifests) == (held.publishes, held.manifests) else (Publish(publishes, manifests),)


def _taken_back(state: State) -> Lineage:
    """Own generators of labels that were withdrawn, and own experts that descend from one."""
    mine = [manifest for manifest in state.word.manifests.values() if manifest.issuer == state.me]
    generators = {one.pair for one in mine if one.kind == "generator" and set(one.names()) & state.own.withdrawn}
    return frozenset(generators | {one.pair for one in mine if generators & set(one.lineage)})


def fit_spec(state: State, own: OwnLabel) -> Spec:
    """The spec of the generator of one own label."""
    architecture = generator_architecture(state.recipes.preset, state.contract.image)
    return {
        "job": "fit",
        "recipe": state.recipes.generator.model_dump(mode="json"),
        "architecture": architecture.model_dump(mode="json"),
        "label": own.label,
        "images": own.digest,
    }


def audit_spec(state: State, own: OwnLabel, weights: str) -> Spec:
    """The spec of the audit of a fitted generator."""
    recipe = state.recipes.audit.model_dump(mode="json")
    return {**fit_spec(state, own), "job": "audit", "recipe": recipe, "weights": weights}


def _label_jobs(state: State, own: OwnLabel) -> tuple[Job, ...]:
    """The next step for an own label; none if it is signed, or can't be published."""
    fit = fit_spec(state, own)
    fitted = _finished(state, fit)
    if fitted is None or (fitted.digest and Pair(state.me, fitted.digest) not in state.held.files):
        return (Fit(own.label, fit),)
    if fitted.digest is None:
        return ()
    audit = audit_spec(state, own, fitted.digest)
    audited = _finished(state, audit)
    if audited is None:
        return (AuditJob(own.label, audit, fitted.digest),)
    verdict = _verdict(state, fitted.digest, audited)
    if verdict is None:
        return ()
    sign = Sign(fit, (LabelCount(label=own.label, images=own.images),), (), fitted.digest, verdict)
    return () if _signed(state, sign) else (sign,)


def _verdict(state: State, weights: str, audited: Finished | None) -> Audit | None:
    """What a manifest says of the audit of these weights; None if they can't be published."""
    if audited is None or audited.digest is None:
        return None
    override = None if audited.passed else state.own.overrides.get(weights)
    if not audited.passed and override is None:
        return None
    return Audit(digest=audited.digest, passed=audited.passed, override=override)


def _signed(state: State, sign: Sign) -> Manifest | None:
    """The newest own manifest that says just what `sign` would say."""
    same = [
        manifest
        for manifest in state.word.manifests.values()
        if manifest.pair == Pair(state.me, sign.weights)
        and (manifest.labels, manifest.lineage, manifest.audit) == (sign.labels, sign.lineage, sign.audit)
    ]
    return max(same, key=lambda manifest: (manifest.created, manifest.digest), default=None)


def _publication(state: State, stock: Inventory) -> tuple[Job, ...]:
    """A new catalogue, if the current one does not say what should be said."""
    publishes = tuple(sorted(own.label for own in _own_labels(state) if not _hopeless(state, own)))
    manifests = tuple(sorted({manifest.digest for manifest in _publishable(state, stock)}))
    held = state.word.catalogues.get(state.me)
    if held is not None and (held.publishes, held.manifests) == (publishes, manifests):
        return ()
    return (Publish(publishes, manifests),)


def _hopeless(state: State, own: OwnLabel) -> bool:
    fitted = _finished(state, fit_spec(state, own))
    if fitted is None or fitted.digest is None:
        return fitted is not None
    audited = _finished(state, audit_spec(state, own, fitted.digest))
    return audited is not None and _verdict(state, fitted.digest, audited) is None


def _publishable(state: State, stock: Inventory) -> list[Manifest]:
    """Own manifests that should be listed: audited generators of own labels, and the expert if it is current."""
    found = []
    for own in _own_labels(state):
        fitted = _finished(state, fit_spec(state, own))
        audited = _finished(state, audit_spec(state, own, fitted.digest)) if fitted and fitted.digest else None
        verdict = _verdict(state, fitted.digest, audited) if fitted and fitted.digest else None
        if fitted and fitted.digest and verdict:
            counts = (LabelCount(label=own.label, images=own.images),)
            found.append(_signed(state, Sign({}, counts, (), fitted.digest, verdict)))
    spec = _expert_spec(state, stock)
    trained = _finished(state, spec) if spec else None
    if spec and trained and trained.digest:
        found.append(_signed(state, _expert_signature(state, stock, spec, trained.digest)))
    return [manifest for manifest in found if manifest is not None]


def _expert_spec(state: State, stock: Inventory) -> Spec | None:
    """The spec of the expert for what is live now; None while fewer than two labels are covered."""
    covered = stock.covered(state.contract.labels)
    if len(covered) < 2:
        return None
    inputs = [
        {
            "weights": pair.digest,
            "labels": [[count.label, count.images] for count in manifest.labels],
            "architecture": manifest.architecture.model_dump(mode="json"),
        }
        for pair, manifest in sorted(stock.generators.items(), key=lambda item: (item[0].digest, item[1].names()))
    ]
    return {
        "job": "expert",
        "recipe": state.recipes.expert.model_dump(mode="json"),
        "architecture": expert_architecture(state.contract.image, len(covered)).model_dump(mode="json"),
        "labels": list(covered),
        "own": [[own.label, own.digest] for own in _seen_by_expert(state) if own.label in covered],
        "inputs": inputs,
    }


def _seen_by_expert(state: State) -> tuple[OwnLabel, ...]:
    """Own real images, unless the operator keeps them out; none where generators are private, for the expert would not be."""
    return _own_labels(state) if state.own.shown and not state.recipes.generator.privacy else ()


def _expert_jobs(state: State, stock: Inventory, missing: tuple[Missing, ...]) -> tuple[Job, ...]:
    spec = _expert_spec(state, stock)
    if spec is None:
        return ()
    trained = _finished(state, spec)
    if trained is None or (trained.digest and Pair(state.me, trained.digest) not in state.held.files):
        gathered = state.waited or not missing
        return (Expert(spec, tuple(sorted(stock.generators))),) if gathered else ()
    if trained.digest is None:
        return ()
    sign = _expert_signature(state, stock, spec, trained.digest)
    return () if _signed(state, sign) else (sign,)


def _expert_signature(state: State, stock: Inventory, spec: Spec, weights: str) -> Sign:
    own = {own.label: own.images for own in _seen_by_expert(state)}
    counts = tuple(LabelCount(label=label, images=own.get(label, 0)) for label in spec["labels"])
    return Sign(spec, counts, tuple(sorted(stock.generators)), weights, None)


def _confirmation(state: State, stock: Inventory) -> tuple[Confirm, ...]:
    if not (state.own.unconfirmed or state.own.unreported):
        return ()
    rebuilt = tuple(sorted(pair.digest for pair in stock.experts if pair.issuer == state.me))
    if not rebuilt and _expert_spec(state, stock) is not None:
        return ()
    return (Confirm(tuple(sorted(state.own.unconfirmed)), tuple(sorted(state.own.unreported)), rebuilt),)


def _scoring(state: State, stock: Inventory, missing: tuple[Missing, ...], late: tuple[PeerId, ...]) -> tuple[Job, ...]:
    """The next step towards an evaluation of what answers now; none while that is not complete, or if it is signed."""
    labels = stock.covered(state.contract.labels)
    if len(labels) < 2 or not stock.experts:
        return ()
    if (missing and not state.waited) or (late and not state.waited_experts):
        return ()
    spec = score_spec(grid_of(state.recipes), labels, _own_labels(state), stock, state.me)
    lineage = tuple(sorted(parts_of(stock)))
    scored, signed = _finished(state, spec), state.own.evaluation
    if scored is None:
        return (Score(spec, lineage),)
    if scored.digest is None or (signed and (signed.lineage, signed.counts) == (lineage, scored.digest)):
        return ()
    return (SignEvaluation(spec, lineage),)
