"""How a FednodeError crosses the control socket: as JSON in the status details, and back as the same class."""

import json

import grpc

from fednode import errors
from fednode.errors import FednodeError


def to_details(error: FednodeError) -> str:
    """The details text of the grpc status."""
    return json.dumps(
        {
            "class": type(error).__name__,
            "code": getattr(error, "code", ""),
            "message": error.message,
            "hint": error.hint,
        }
    )


def from_rpc(error: grpc.RpcError) -> FednodeError:
    """The error that the daemon raised, or an internal one in its place."""
    details = error.details() if isinstance(error, grpc.Call) else str(error)
    try:
        parsed = json.loads(details or "")
        kind = getattr(errors, parsed["class"])
        code = (parsed["code"],) if parsed["code"] else ()
        made = kind(*code, parsed["message"], parsed["hint"])
    except (ValueError, KeyError, TypeError, AttributeError):
        return FednodeError(f"The daemon could not answer ({details}).", "See its log.")
    return made if isinstance(made, FednodeError) else FednodeError(details or "")


def is_unreachable(error: grpc.RpcError) -> bool:
    """Whether nobody answered at all."""
    return isinstance(error, grpc.Call) and error.code() == grpc.StatusCode.UNAVAILABLE
