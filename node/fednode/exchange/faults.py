"""Faults on the wire, as PeerError: what a person is told of them, and what the peer is told.

Rule 1: a peer is told a code of this fixed list, and where two nodes do not fit, the field and both values.
Rule 2: what a peer or a library says reaches a person only as one cut line, or not at all.
"""

import grpc

from fednode.errors import PeerError
from fednode.exchange.wire import printable
from fednode_crypto.identity import PeerId

_STATUS = {
    "not-allowed": grpc.StatusCode.PERMISSION_DENIED,
    "unknown-caller": grpc.StatusCode.UNAUTHENTICATED,
    "other-contract": grpc.StatusCode.FAILED_PRECONDITION,
    "other-version": grpc.StatusCode.FAILED_PRECONDITION,
    "no-hello": grpc.StatusCode.FAILED_PRECONDITION,
    "not-asked": grpc.StatusCode.FAILED_PRECONDITION,
    "not-here": grpc.StatusCode.NOT_FOUND,
    "busy": grpc.StatusCode.RESOURCE_EXHAUSTED,
    "stalled": grpc.StatusCode.DEADLINE_EXCEEDED,
    "replaced": grpc.StatusCode.ABORTED,
    "cut": grpc.StatusCode.UNAVAILABLE,
}
# Nobody did wrong, or the wrong is ours to judge: shown with the link, and not told to the desk.
NO_FAULT = frozenset({"unreachable", "refused", "barred", "cut", "replaced", "not-here", "not-allowed", "busy"})
_TELLING = ("other-contract", "other-version")

# The texts are those of gRPC's C core; tests over real sockets hold them.
_CAUSES = (
    ("Connection refused", "unreachable", "{} can't be reached: nothing listens at {}."),
    ("errors resolving", "unreachable", "{} can't be reached: the name in {} can't be resolved."),
    ("No route to host", "unreachable", "{} can't be reached: there is no route to {}."),
    ("WRONG_VERSION_NUMBER", "not-tls", "What answers for {} at {} does not speak TLS."),
    ("CERTIFICATE_VERIFY_FAILED", "not-the-peer", "Whoever answers for {} at {} does not have its key."),
    ("Verification", "not-the-peer", "Whoever answers for {} at {} does not have its key."),
    ("Socket closed", "refused", "{} at {} closed the connection: it may not list this node."),
)
_ANSWERS = {
    grpc.StatusCode.PERMISSION_DENIED: ("barred", "{} at {} does not let this node take part."),
    grpc.StatusCode.UNAUTHENTICATED: ("barred", "{} at {} does not know this node's key."),
    grpc.StatusCode.UNIMPLEMENTED: ("other-version", "{} at {} speaks another protocol."),
    grpc.StatusCode.DEADLINE_EXCEEDED: ("unreachable", "{} at {} did not answer in time."),
    grpc.StatusCode.NOT_FOUND: ("not-here", "{} at {} does not hold the artifact now."),
    grpc.StatusCode.RESOURCE_EXHAUSTED: ("busy", "{} at {} takes no more calls or data now."),
}


def short(peer: PeerId) -> str:
    """The beginning of a peer id, enough to tell it from others in a sentence."""
    return peer[:12]


def status_of(error: PeerError) -> tuple[grpc.StatusCode, str]:
    """How an RPC ends because of a peer's fault: status and details."""
    details = error.message if error.code in _TELLING else error.code
    return _STATUS.get(error.code, grpc.StatusCode.INVALID_ARGUMENT), details


def fault_of(error: grpc.aio.AioRpcError, peer: PeerId, address: str) -> PeerError:
    """The sentence for an RPC to the peer at `address` that ended with an error."""
    name, details = short(peer), error.details() or ""
    if error.code() is grpc.StatusCode.FAILED_PRECONDITION and ":" in details:
        return PeerError("other-contract", f"{name} does not fit this node: {printable(details, 300)}")
    if error.code() in _ANSWERS:
        code, sentence = _ANSWERS[error.code()]
        return PeerError(code, sentence.format(name, address))
    for text, code, sentence in _CAUSES:
        if text in details:
            return PeerError(code, sentence.format(name, address))
    return PeerError("cut", f"The connection to {name} at {address} ended ({error.code().name.lower()}).")
