"""The verbs of the control service, as functions of a running daemon's parts: documents in, documents out."""

import base64
import contextlib
import time
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from fednode import core as cores
from fednode import federated
from fednode.answers import Answers
from fednode.audits import own_audits
from fednode.book import News
from fednode.contract import label_name
from fednode.control.service import Handler
from fednode.core import Core
from fednode.errors import DataError, FednodeError, RefusedError
from fednode.revocation import quorum_size
from fednode.statement import MAX_REASON
from fednode_crypto.errors import PeerIdError
from fednode_crypto.identity import PeerId, parse_peer_id

Document = dict[str, Any]


class Running(Protocol):
    """What the verbs need of the daemon."""

    core: Core
    answers: Answers

    def broadcast(self, news: News) -> list[str]:
        """Tell all connected peers at once; the names of those."""

    async def import_classifier(self, file: str, model: str, labels: Sequence[str]) -> Document:
        """Check a ready classifier, and offer it from now on."""

    async def settle(self) -> None:
        """Plan again, and do at once what needs no worker."""

    def status(self) -> Document:
        """The status document."""

    async def reload(self) -> None:
        """Read peers.yaml and the own images again."""

    def stop(self) -> None:
        """Begin to stop."""


class Verbs:
    """One coroutine for each verb of the control service."""

    def __init__(self, daemon: Running) -> None:
        self._daemon = daemon
        self._core = daemon.core

    def handlers(self) -> Mapping[str, Handler]:
        """The coroutines by the names of the RPCs."""
        named: Mapping[str, Handler] = {
            "Status": self.status,
            "Predict": self.predict,
            "Evaluate": self.evaluate,
            "Samples": self.samples,
            "Revoke": self.revoke,
            "Restore": self.restore,
            "Withdraw": self.withdraw,
            "Override": self.override,
            "ImportClassifier": self.import_classifier,
            "Leave": self.leave,
            "Rescan": self.rescan,
            "Stop": self.stop,
        }
        return named

    async def status(self, request: Any) -> Document:
        """What the node does, has and waits for."""
        return self._daemon.status()

    async def predict(self, request: Any) -> Document:
        """Answers for the images of the request."""
        images = [{"name": image.name, "data": base64.b64encode(image.data).decode()} for image in request.images]
        return await self._daemon.answers.predict(images, request.product or "auto")

    async def evaluate(self, request: Any) -> Document:
        """Measures of every product on a data source, or what all nodes have counted on their own held-out images."""
        if request.federation:
            return federated.document(self._core)
        data = {"source": request.source, "labels": list(request.labels) or None, "skip_bad": request.skip_bad}
        result = await self._daemon.answers.evaluate({"data": data, "confusion_png": request.confusion_png or None})
        for expert in result["experts"]:
            expert["peer"] = self._core.name_of(expert["issuer"])
        return result

    async def samples(self, request: Any) -> Document:
        """A picture of what the generators draw, beside own images."""
        settings = self._core.settings
        if settings.data is None:
            raise DataError("This node has no images of its own to draw beside the synthetic ones.")
        labels = list(settings.labels) if settings.labels else None
        data = {"source": settings.data, "labels": labels, "skip_bad": settings.skip_bad}
        return await self._daemon.answers.samples(
            {"data": data, "out": request.png, "per_label": request.per_label or 8}
        )

    async def revoke(self, request: Any) -> Document:
        """Vote a peer out, and suspend it here at once."""
        self._check_member()
        peer = self._peer(request.peer)
        if peer == self._core.me:
            raise RefusedError("A node does not revoke itself.", "Run `fednode leave` to leave the federation.")
        await self._announce(self._core.book.revoke(self._core.identity, peer, request.reason))
        others = self._core.book.roster.members - self._core.book.tombstones - {peer}
        return {
            "subject": peer,
            "name": self._core.name_of(peer),
            "binding": peer in self._core.book.tombstones,
            "votes": len(self._core.book.votes(peer)),
            "needed": quorum_size(self._core.contract.quorum, len(others)),
            "suspended": peer in self._core.book.suspended,
        }

    async def restore(self, request: Any) -> Document:
        """Lift our own suspension or quarantine of a peer."""
        peer = self._peer(request.peer)
        self._core.book.restore(peer)
        await self._daemon.settle()
        return {
            "subject": peer,
            "name": self._core.name_of(peer),
            "standing": str(self._core.book.standing(peer)),
            "vote_stands": self._core.me in self._core.book.votes(peer),
        }

    async def withdraw(self, request: Any) -> Document:
        """Take an own label out of the federation."""
        self._check_member()
        label = label_name(request.label)
        if label in self._core.ledger.withdrawn():
            raise RefusedError(f"The label {label!r} is withdrawn already.")
        ready = (self._core.ledger.get(cores.READY) or {"seen": ()})["seen"]
        own = {found.label for found in self._core.scanned or ()} | cores.given(self._core) | set(ready)
        if label not in own and self._core.scanned is None:
            raise RefusedError("The own images are still being read, so their labels are not known.", "Try again soon.")
        if label not in own:
            raise RefusedError(f"This node has no label {label!r}.", f"It has {', '.join(sorted(own)) or 'none'}.")
        gone = self._own_digest(label)
        self._core.ledger.withdraw(label)
        if self._core.scanned is None:  # the images of this label may be what was missing
            with contextlib.suppress(FednodeError):
                await self._daemon.reload()
        await self._daemon.settle()
        return {"label": label, "digest": gone}

    async def override(self, request: Any) -> Document:
        """Publish the generator of an own label, or the classifier, in spite of its failed audit; all peers see the reason."""
        self._check_member()
        label, reason = label_name(request.label), request.reason.strip()
        found = {audit.name: audit for audit in own_audits(self._core)}.get(label)
        if found is None or found.passed or label in self._core.ledger.withdrawn():
            raise RefusedError(f"Nothing of {label!r} is held back by its audit.", "See `fednode audit`.")
        if found.override is not None:
            raise RefusedError(f"The audit of {label!r} is overridden already: {found.override}")
        if not 1 <= len(reason) <= MAX_REASON:
            raise RefusedError(
                f"An override needs a reason of 1 to {MAX_REASON} characters.", "Give one with --reason."
            )
        self._core.ledger.override(found.weights, reason)
        self._core.ledger.record_event("overridden", label=label, digest=found.weights)
        await self._daemon.settle()
        return {"label": label, "digest": found.weights, "reasons": list(found.reasons), "override": reason}

    async def import_classifier(self, request: Any) -> Document:
        """Offer a ready classifier in place of one fitted to own images."""
        self._check_member()
        document = await self._daemon.import_classifier(request.file, request.model, request.labels)
        await self._daemon.settle()
        return document

    async def leave(self, request: Any) -> Document:
        """Revoke ourselves: the federation unlearns us."""
        self._check_member()
        signed_at = time.time()
        reason = request.reason or "leaves"
        news = self._core.book.revoke(self._core.identity, self._core.me, reason)
        return {"signed_at": signed_at, "told": await self._announce(news)}

    async def rescan(self, request: Any) -> Document:
        """Read the own images and peers.yaml again."""
        await self._daemon.reload()
        return {"rescanning": True}

    async def stop(self, request: Any) -> Document:
        """Begin to stop."""
        self._daemon.stop()
        return {"stopping": True}

    def _check_member(self) -> None:
        if self._core.left:
            raise RefusedError("This node has left the federation already.")

    async def _announce(self, news: News) -> list[str]:
        told = self._daemon.broadcast(news)
        await self._daemon.settle()
        return told

    def _own_digest(self, label: str) -> str | None:
        offered = self._core.book.word().offers()
        mine = (
            pair.digest
            for pair, manifest in offered.items()
            if pair.issuer == self._core.me and manifest.kind != "expert" and label in manifest.seen()
        )
        return next(mine, None)

    def _peer(self, text: str) -> PeerId:
        by_name = {peer.name: peer.id for peer in self._core.peers.peers}
        if text in by_name:
            return by_name[text]
        try:
            return parse_peer_id(text)
        except PeerIdError:
            known = ", ".join(sorted(by_name)) or "nobody"
            raise RefusedError(f"No peer {text!r} is listed here.", f"Listed are {known}.") from None
