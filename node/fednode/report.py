"""The status document: what a node does, has and waits for. Its fields are described in docs/json.md."""

import time
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from fednode import core as cores
from fednode.answers import way_of
from fednode.audits import OwnAudit, overridden, own_audits, own_expert
from fednode.core import Core, Sight
from fednode.desk import NodeDesk
from fednode.exchange.exchange import Link
from fednode.inventory import SOURCES, Inventory, Missing
from fednode.jobs import Jobs
from fednode.lineage import Pair
from fednode.manifest import Manifest
from fednode.peersfile import Peer
from fednode.planned import AuditJob, Expert, Fit, Plan, Scan, Score, SignEvaluation, key
from fednode.revocation import Receipt, quorum_size
from fednode.roster import Standing
from fednode_crypto.identity import PeerId

Document = dict[str, Any]


@dataclass
class View:
    """What a report is made from."""

    core: Core
    plan: Plan | None
    jobs: Jobs
    links: Mapping[PeerId, Link]
    desk: NodeDesk
    listen: str
    workers: Mapping[str, str]
    trouble: str


def report(view: View) -> Document:
    """The whole status document."""
    core, sight = view.core, cores.sight(view.core)
    stock = sight.stock
    covered = stock.covered(core.contract.labels)
    return {
        "name": core.settings.name,
        "peer_id": core.me,
        "phase": phase(view),
        "listen": view.listen,
        "federation": core.contract.federation,
        "contract": core.contract.id,
        "labels": list(core.contract.labels),
        "data": _data(core),
        "jobs": [view.jobs.progress] if view.jobs.progress else [],
        "waiting": _waiting(view),
        "exchange": _exchange(core),
        "gamma": {core.name_of(peer): labels for peer, labels in stock.gamma().items()},
        "classifiers": [_classifier(core, pair, manifest) for pair, manifest in sorted(stock.classifiers.items())],
        "peers": [_peer(view, peer, view.plan.missing if view.plan else ()) for peer in core.peers.peers],
        "product": _product(core, sight),
        "evaluation": _evaluation(view, sight),
        "uncovered": [label for label in core.contract.labels if label not in covered],
        "withdrawn": sorted(core.ledger.withdrawn()),
        "failed": _failed(view.jobs),
        "audits": [_audit(found) for found in own_audits(core)],
        "expert": _own_expert(core, stock),
        "overridden": _overridden(core, stock),
        "revocations": [_revocation(core, subject) for subject in _subjects(core)],
        "withdrawals": _withdrawals(core),
        "erased": Counter({erasure.pair: erasure.kind for erasure in core.ledger.erasures()}.values()),
        "bytes": _bytes(core),
        "seconds": {name: round(spent, 3) for name, spent in sorted(view.jobs.seconds.items())},
        "last_error": _last_error(view),
        "workers": dict(view.workers),
    }


def phase(view: View) -> str:
    """One word for what the node does now."""
    if view.core.left:
        return "left"
    if view.plan is None:
        return "starting"
    running = view.jobs.progress
    kinds: dict[type, str] = {Scan: "scanning", Fit: "fitting", AuditJob: "auditing", Expert: "training"}
    blocked = view.jobs.blocked()
    for job in view.plan.jobs:
        if type(job) in kinds and (running or not blocked):
            return kinds[type(job)]
    if blocked:
        return "blocked"
    if view.plan.fetch:
        return "fetching"
    current = any(pair.issuer == view.core.me for pair in view.plan.inventory.experts)
    return "gathering" if view.plan.missing and not current else "ready"


def _data(core: Core) -> Document | None:
    if core.settings.data is None:
        return None
    found = core.ledger.scan() or {"bad": []}
    labels = [
        {"label": own.label, "images": own.images, "holdout": own.holdout, "patients": own.patients}
        for own in core.scanned or ()
    ]
    return {"source": core.settings.data, "labels": labels, "bad": found["bad"]}


def _exchange(core: Core) -> Document:
    return {"asked": core.settings.exchange, "kinds": sorted(core.choice.kinds), "why": core.choice.why}


def _classifier(core: Core, pair: Pair, manifest: Manifest) -> Document:
    return {
        "peer": core.name_of(pair.issuer),
        "digest": pair.digest,
        "labels": {count.label: count.images for count in manifest.labels if count.images},
        "audited": manifest.audit is not None,
    }


def _waiting(view: View) -> list[str]:
    if view.plan is None or view.core.left:
        return []
    sentences = [_missing_sentence(view, item) for item in view.plan.missing]
    return sentences + [f"weights {pair.digest[:12]} of {view.core.name_of(pair.issuer)}" for pair in view.plan.fetch]


def _missing_sentence(view: View, item: Missing) -> str:
    name = view.core.name_of(item.peer)
    link = view.links.get(item.peer)
    far = "" if link is not None and link.connected else ", which is not connected"
    if item.classifier:
        return f"the classifier of {name}{far}"
    if item.label is None:
        spoken = item.peer in view.core.book.word().catalogues
        return f"{name} to choose what it exchanges{far}" if spoken else f"a first word from {name}{far}"
    return f"the generator of {item.label} from {name}{far}"


def _peer(view: View, peer: Peer, missing: Iterable[Missing]) -> Document:
    core, link = view.core, view.links.get(peer.id)
    standing = core.book.standing(peer.id)
    connected = link is not None and link.connected
    catalogue = core.book.word().catalogues.get(peer.id)
    return {
        "name": peer.name,
        "id": peer.id,
        "address": peer.address,
        "standing": str(Standing.PRESENT if connected and standing is Standing.LISTED else standing),
        "connected": connected,
        "last_contact": (link.last_contact or None) if link else None,
        "skew": link.skew if link else None,
        "reason": view.desk.last_fault.get(peer.id) or (link.last_error if link and not connected else None),
        "publishes": list(catalogue.publishes) if catalogue else [],
        "classifies": list(catalogue.classifies) if catalogue else [],
        "missing": [item.label for item in missing if item.peer == peer.id and item.label is not None],
    }


def _product(core: Core, sight: Sight) -> Document:
    stock = sight.stock

    def named(pair: Pair) -> Document:
        return {"peer": core.name_of(pair.issuer), "digest": pair.digest}

    return {
        "default": way_of(sight).product,
        "experts": [named(pair) for pair in sorted(stock.experts)],
        "stale": [{**named(pair), "reason": reason} for pair, reason in sorted(stock.stale.items())],
    }


def _evaluation(view: View, sight: Sight) -> Document:
    """Whose counts about what answers now are here, whose expert scoring waits for, and the way that they speak for."""
    way, tally = way_of(sight), sight.tally
    accuracy = tally.accuracy(way.cell) if tally.scorers and way.cell in tally.cells else None
    return {
        "nodes": sorted(view.core.name_of(peer) for peer in tally.issuers),
        "lacking": sorted(view.core.name_of(peer) for peer in (view.plan.lacking if view.plan else ())),
        "scoring": _is_scoring(view),
        "images": tally.images,
        "labels": len(tally.scorers),
        "product": way.product,
        **way.document(),
        "accuracy": accuracy and {"value": accuracy.value, "low": accuracy.low, "high": accuracy.high},
    }


def _is_scoring(view: View) -> bool:
    """Whether an evaluation of our own is on its way; one that failed is tried again later, and nobody waits for that."""
    jobs = view.plan.jobs if view.plan else ()
    return any(isinstance(job, Score | SignEvaluation) and key(job) not in view.jobs.failures for job in jobs)


def _failed(jobs: Jobs) -> list[Document]:
    now = time.monotonic()
    return [
        {
            "job": failure.job,
            "code": failure.code,
            "reason": failure.reason,
            "retry_in": None if failure.given_up(now) else round(max(0.0, failure.not_before - now)),
        }
        for failure in jobs.failures.values()
    ] + [
        {"job": job, "code": "data", "reason": reason, "retry_in": None}
        for job, reason in sorted(jobs.hopeless().items())
    ]


def _audit(found: OwnAudit) -> Document:
    return {
        "label": found.name,
        "digest": found.weights,
        "passed": found.passed,
        "reasons": list(found.reasons),
        "override": found.override,
        **found.files,
    }


def _own_expert(core: Core, stock: Inventory) -> Document | None:
    found = own_expert(core)
    if found is None:
        return None
    peers: dict[str, set[str]] = {}
    for pair in stock.generators:
        peers.setdefault(pair.digest, set()).add(core.name_of(pair.issuer))
    samples = [
        {
            "label": one["label"],
            "peers": sorted(peers.get(one["donor"], ())),
            "digest": one["donor"],
            "asked": one["asked"],
            "doubted": one["doubted"],
            "dropped": found.dropped.get(one["donor"], 0),
        }
        for one in found.samples
    ]
    return {"digest": found.digest, "membership": found.membership, "samples": samples}


def _overridden(core: Core, stock: Inventory) -> list[Document]:
    return [
        {
            "peer": core.name_of(manifest.issuer),
            "label": manifest.names()[0] if manifest.kind == "generator" else "",
            "digest": manifest.weights.digest,
            "reason": reason,
        }
        for manifest, reason in overridden(stock)
    ]


def _subjects(core: Core) -> list[PeerId]:
    return sorted(peer for peer in core.book.roster.known if core.book.votes(peer))


def _revocation(core: Core, subject: PeerId) -> Document:
    confirmed = {receipt.issuer for receipt in core.book.receipts() if subject in receipt.revoked}
    others = core.book.roster.members - core.book.tombstones - {subject}
    return {
        "subject": subject,
        "name": core.name_of(subject),
        "binding": subject in core.book.tombstones,
        "votes": len(core.book.votes(subject)),
        "needed": quorum_size(core.contract.quorum, len(others)),
        "confirmed": sorted(core.name_of(peer) for peer in confirmed),
        "waiting": sorted(core.name_of(peer) for peer in others - confirmed),
    }


def _withdrawals(core: Core) -> list[Document]:
    """Own generators and classifiers that were erased here, and which peers' receipts name them."""
    erased = {erasure.pair for erasure in core.ledger.erasures() if erasure.kind in SOURCES}
    erased -= core.book.word().offers().keys()  # the same images give the same weights once more
    others = core.book.good() - {core.me}
    return [_withdrawal(core, pair, others, core.book.receipts()) for pair in sorted(erased) if pair.issuer == core.me]


def _withdrawal(core: Core, pair: Pair, others: frozenset[PeerId], receipts: Iterable[Receipt]) -> Document:
    confirmed = {receipt.issuer for receipt in receipts if pair in receipt.erased} & others
    return {
        "digest": pair.digest,
        "confirmed": sorted(core.name_of(peer) for peer in confirmed),
        "waiting": sorted(core.name_of(peer) for peer in others - confirmed),
    }


def _bytes(core: Core) -> Document:
    totals: Document = {"sent": {}, "received": {}}
    for (direction, kind), size in core.ledger.byte_counts().items():
        totals[direction][kind] = size
    return totals


def _last_error(view: View) -> str | None:
    reasons = [failure.reason for failure in view.jobs.failures.values()]
    return next(
        (text for text in (*reasons, view.trouble, view.desk.trouble, *view.jobs.hopeless().values()) if text), None
    )
