"""The control client: one method for each verb, plain JSON documents back, the daemon's own errors raised again."""

import json
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import grpc

from fednode.control.errors import from_rpc, is_unreachable
from fednode.control.service import MAX_REQUEST
from fednode.errors import NotRunningError
from fednode_protos import control_pb2, control_pb2_grpc

Document = dict[str, Any]


class ControlClient:
    """Talks to the daemon of the home whose control socket is `socket`. Every method raises FednodeError classes only."""

    def __init__(self, socket: Path) -> None:
        self._socket = socket
        self._channel = grpc.secure_channel(
            f"unix:{socket}",
            grpc.local_channel_credentials(grpc.LocalConnectionType.UDS),
            options=[
                ("grpc.max_receive_message_length", MAX_REQUEST),
                ("grpc.max_send_message_length", MAX_REQUEST),
                ("grpc.enable_http_proxy", 0),
            ],
        )
        self._stub = control_pb2_grpc.ControlStub(self._channel)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._channel.close()

    def status(self) -> Document:
        """What the node does, has and waits for."""
        return self._call("Status", control_pb2.StatusRequest(), 10)

    def predict(self, images: Sequence[tuple[str, bytes]], product: str = "auto") -> Document:
        """Answers for image files (name, bytes); `product` is auto, experts, generative or both."""
        request = control_pb2.PredictRequest(product=product)
        for name, data in images:
            request.images.add(name=name, data=data)
        return self._call("Predict", request)

    def evaluate(
        self, source: str, labels: Sequence[str] = (), confusion_png: str = "", skip_bad: bool = False
    ) -> Document:
        """Measures of each expert and product on the test part of a data source."""
        request = control_pb2.EvaluateRequest(
            source=source, labels=labels, confusion_png=confusion_png, skip_bad=skip_bad
        )
        return self._call("Evaluate", request)

    def evaluate_federation(self) -> Document:
        """What all nodes have counted on their own held-out images about the products that answer now."""
        return self._call("Evaluate", control_pb2.EvaluateRequest(federation=True))

    def samples(self, png: str, per_label: int = 8) -> Document:
        """Draws a picture of own real images beside synthetic ones, label by label, into the file `png`."""
        return self._call("Samples", control_pb2.SamplesRequest(png=png, per_label=per_label))

    def revoke(self, peer: str, reason: str) -> Document:
        """Votes a peer out, and suspends it here at once."""
        return self._call("Revoke", control_pb2.RevokeRequest(peer=peer, reason=reason))

    def restore(self, peer: str) -> Document:
        """Lifts our own suspension or quarantine of a peer."""
        return self._call("Restore", control_pb2.RestoreRequest(peer=peer))

    def withdraw(self, label: str) -> Document:
        """Takes an own label out of the federation."""
        return self._call("Withdraw", control_pb2.WithdrawRequest(label=label))

    def override(self, label: str, reason: str) -> Document:
        """Publishes the generator of an own label in spite of its failed audit."""
        return self._call("Override", control_pb2.OverrideRequest(label=label, reason=reason))

    def import_classifier(self, file: str, model: str, labels: Sequence[str]) -> Document:
        """Signs a ready classifier, whose outputs are `labels` in order, in place of one fitted to own images."""
        return self._call(
            "ImportClassifier", control_pb2.ImportClassifierRequest(file=file, model=model, labels=labels)
        )

    def leave(self, reason: str) -> Document:
        """Revokes ourselves: the federation unlearns us."""
        return self._call("Leave", control_pb2.LeaveRequest(reason=reason))

    def rescan(self) -> Document:
        """Reads the own images and peers.yaml again."""
        return self._call("Rescan", control_pb2.RescanRequest())

    def stop(self) -> Document:
        """Ends the daemon cleanly; returns once it has begun to stop."""
        return self._call("Stop", control_pb2.StopRequest(), 10)

    def _call(self, verb: str, request: object, timeout: float | None = None) -> Document:
        if not self._socket.exists():
            raise NotRunningError(
                "No fednode daemon runs for this home.", "Start one with `fednode start --peers peers.yaml`."
            )
        try:
            answer = getattr(self._stub, verb)(request, timeout=timeout)
        except grpc.RpcError as error:
            if is_unreachable(error):
                raise NotRunningError(
                    "No fednode daemon answers for this home.",
                    "Start one with `fednode start --peers peers.yaml`.",
                ) from error
            raise from_rpc(error) from error
        document: Document = json.loads(answer.json)
        return document
