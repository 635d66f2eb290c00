"""What a node makes and lists: the next step for each own label, for its expert, and for its catalogue. Pure."""

from fednode.inventory import Inventory, Missing
from fednode.lineage import Pair
from fednode.manifest import Audit, LabelCount, Manifest
from fednode.planned import AuditJob, Expert, Finished, Fit, Job, OwnLabel, Publish, Sign, Spec, State
from fednode.specs import audit_spec, expert_spec, finished, fit_spec, own_labels, seen_by_expert


def label_jobs(state: State, own: OwnLabel) -> tuple[Job, ...]:
    """The next step for an own label; none if it is signed, or can't be published."""
    fit = fit_spec(state, own)
    fitted = finished(state, fit)
    if fitted is None or (fitted.digest and Pair(state.me, fitted.digest) not in state.held.files):
        return (Fit(own.label, fit),)
    if fitted.digest is None:
        return ()
    audit = audit_spec(state, own, fitted.digest)
    audited = finished(state, audit)
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


def publication(state: State, stock: Inventory) -> tuple[Job, ...]:
    """A new catalogue, if the current one does not say what should be said."""
    publishes = tuple(sorted(own.label for own in own_labels(state) if not _hopeless(state, own)))
    manifests = tuple(sorted({manifest.digest for manifest in _publishable(state, stock)}))
    held = state.word.catalogues.get(state.me)
    if held is not None and (held.publishes, held.manifests) == (publishes, manifests):
        return ()
    return (Publish(publishes, manifests),)


def _hopeless(state: State, own: OwnLabel) -> bool:
    fitted = finished(state, fit_spec(state, own))
    if fitted is None or fitted.digest is None:
        return fitted is not None
    audited = finished(state, audit_spec(state, own, fitted.digest))
    return audited is not None and _verdict(state, fitted.digest, audited) is None


def _publishable(state: State, stock: Inventory) -> list[Manifest]:
    """Own manifests that should be listed: audited generators of own labels, and the expert if it is current."""
    found = []
    for own in own_labels(state):
        fitted = finished(state, fit_spec(state, own))
        audited = finished(state, audit_spec(state, own, fitted.digest)) if fitted and fitted.digest else None
        verdict = _verdict(state, fitted.digest, audited) if fitted and fitted.digest else None
        if fitted and fitted.digest and verdict:
            counts = (LabelCount(label=own.label, images=own.images),)
            found.append(_signed(state, Sign({}, counts, (), fitted.digest, verdict)))
    spec = expert_spec(state, stock)
    trained = finished(state, spec) if spec else None
    if spec and trained and trained.digest:
        found.append(_signed(state, _expert_signature(state, stock, spec, trained.digest)))
    return [manifest for manifest in found if manifest is not None]


def expert_jobs(state: State, stock: Inventory, missing: tuple[Missing, ...]) -> tuple[Job, ...]:
    """The next step for the own expert; none while the gather rule waits, or if it is signed."""
    spec = expert_spec(state, stock)
    if spec is None:
        return ()
    trained = finished(state, spec)
    if trained is None or (trained.digest and Pair(state.me, trained.digest) not in state.held.files):
        gathered = state.waited or not missing
        return (Expert(spec, tuple(sorted(stock.generators))),) if gathered else ()
    if trained.digest is None:
        return ()
    sign = _expert_signature(state, stock, spec, trained.digest)
    return () if _signed(state, sign) else (sign,)


def _expert_signature(state: State, stock: Inventory, spec: Spec, weights: str) -> Sign:
    own = {own.label: own.images for own in seen_by_expert(state)}
    counts = tuple(LabelCount(label=label, images=own.get(label, 0)) for label in spec["labels"])
    return Sign(spec, counts, tuple(sorted(stock.generators)), weights, None)
