"""What a node makes and lists: the next step for each own artifact, for its expert, and for its catalogue. Pure."""

from fednode.catalogue import Announced
from fednode.inventory import Inventory, Missing
from fednode.lineage import Pair
from fednode.manifest import Audit, LabelCount, Manifest
from fednode.planned import AuditJob, Expert, Finished, Fit, Job, Publish, Sign, Spec, State
from fednode.specs import Making, audit_spec, expert_spec, finished, makings, own_labels, seen_labels


def next_step(state: State, making: Making) -> tuple[Job, ...]:
    """The next step for an own generator or classifier; none if it is signed, or can't be published."""
    if making.ready:
        return _signing(state, making)
    fitted = finished(state, making.spec)
    if fitted is None or (fitted.digest and Pair(state.me, fitted.digest) not in state.held.files):
        return (Fit(making.label, making.spec),)
    if fitted.digest is None:
        return ()
    audit = audit_spec(state, making.spec, fitted.digest)
    audited = finished(state, audit)
    if audited is None:
        return (AuditJob(making.label, audit, fitted.digest),)
    return _signing(state, making)


def publication(state: State, stock: Inventory) -> tuple[Publish, ...]:
    """A new catalogue, if the current one does not say what should be said."""
    hoped = [making for making in makings(state) if not _hopeless(state, making)]
    publishes = tuple(sorted(making.label for making in hoped if making.label))
    classifies = tuple(sorted(label for making in hoped if not making.label for label in making.seen))
    holds = tuple(sorted(own.label for own in own_labels(state))) if state.own.chooses else ()
    manifests = tuple(sorted({manifest.digest for manifest in _publishable(state, stock)}))
    job = Publish(publishes, manifests, Announced(classifies, holds, undecided=not state.word.kinds))
    held = state.word.catalogues.get(state.me)
    return () if held and job == Publish(held.publishes, held.manifests, held.announced) else (job,)


def expert_jobs(state: State, stock: Inventory, missing: tuple[Missing, ...]) -> tuple[Job, ...]:
    """The next step for the own expert; none while the gather rule waits, or if it is signed."""
    spec = expert_spec(state, stock)
    if spec is None:
        return ()
    trained = finished(state, spec)
    if trained is None or (trained.digest and Pair(state.me, trained.digest) not in state.held.files):
        gathered = state.waited or not missing
        return (Expert(spec, tuple(sorted(stock.live))),) if gathered else ()
    if trained.digest is None:
        return ()
    sign = _expert_signature(state, stock, spec, trained.digest)
    return () if _signed(state, sign) else (sign,)


def _signing(state: State, making: Making) -> tuple[Sign, ...]:
    sign = _signature(state, making)
    return () if sign is None or _signed(state, sign) else (sign,)


def _signature(state: State, making: Making) -> Sign | None:
    """What the manifest of an own artifact has to say; None while it is not audited, or if it can't be published.

    What was handed in is not audited, and its manifest says so.
    """
    fitted = finished(state, making.spec)
    if fitted is None or fitted.digest is None:
        return None
    if making.ready:
        here = Pair(state.me, fitted.digest) in state.held.files
        return Sign(making.spec, making.counts, (), fitted.digest, None) if here else None
    verdict = _verdict(state, fitted.digest, finished(state, audit_spec(state, making.spec, fitted.digest)))
    return Sign(making.spec, making.counts, (), fitted.digest, verdict) if verdict else None


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


def _hopeless(state: State, making: Making) -> bool:
    """Whether it can't be published as it is."""
    if making.ready:
        return _signature(state, making) is None
    fitted = finished(state, making.spec)
    if fitted is None or fitted.digest is None:
        return fitted is not None
    return finished(state, audit_spec(state, making.spec, fitted.digest)) is not None and not _signature(state, making)


def _publishable(state: State, stock: Inventory) -> list[Manifest]:
    """Own manifests that should be listed: audited generators and classifiers, and the expert if it is current."""
    signs = [sign for making in makings(state) if (sign := _signature(state, making))]
    spec = expert_spec(state, stock)
    trained = finished(state, spec) if spec else None
    if spec and trained and trained.digest:
        signs.append(_expert_signature(state, stock, spec, trained.digest))
    found = [_signed(state, sign) for sign in signs]
    return [manifest for manifest in found if manifest is not None]


def _expert_signature(state: State, stock: Inventory, spec: Spec, weights: str) -> Sign:
    seen = seen_labels(spec)
    own = {own.label: own.images for own in own_labels(state) if own.label in seen}
    counts = tuple(LabelCount(label=label, images=own.get(label, 0)) for label in spec["labels"])
    return Sign(spec, counts, tuple(sorted(stock.live)), weights, None)
