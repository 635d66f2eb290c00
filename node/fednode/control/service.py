"""The control server: a Unix socket with mode 0600, one handler for each verb, injected by the daemon."""

import json
import logging
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

import grpc

from fednode.control.errors import to_details
from fednode.errors import FednodeError
from fednode_protos import control_pb2, control_pb2_grpc

MAX_REQUEST = 256 * 1024 * 1024

Document = Mapping[str, Any]
Handler = Callable[[Any], Awaitable[Document]]
VERBS = (
    "Status",
    "Predict",
    "Evaluate",
    "Samples",
    "Revoke",
    "Restore",
    "Withdraw",
    "Override",
    "ImportClassifier",
    "Leave",
    "Rescan",
    "Stop",
)

log = logging.getLogger("fednode.control")


class ControlServer:
    """Serves the control verbs on `socket`; `handlers` has one coroutine for each name in VERBS."""

    def __init__(self, socket: Path, handlers: Mapping[str, Handler]) -> None:
        self._socket = socket
        self._server = grpc.aio.server(options=[("grpc.max_receive_message_length", MAX_REQUEST)])
        service = type(
            "Control", (control_pb2_grpc.ControlServicer,), {verb: _method(handlers[verb]) for verb in VERBS}
        )
        control_pb2_grpc.add_ControlServicer_to_server(service(), self._server)

    async def start(self) -> None:
        """Listen; a socket file left by a killed daemon is replaced (the home's lock says that none is running)."""
        self._socket.unlink(missing_ok=True)
        credentials = grpc.local_server_credentials(grpc.LocalConnectionType.UDS)
        self._server.add_secure_port(f"unix:{self._socket}", credentials)
        await self._server.start()
        self._socket.chmod(0o600)

    async def stop(self, grace: float) -> None:
        """End after at most `grace` seconds and remove the socket."""
        await self._server.stop(grace)
        self._socket.unlink(missing_ok=True)


def _method(handler: Handler) -> Callable[..., Awaitable[control_pb2.Document]]:
    async def method(
        _service: object, request: Any, context: grpc.aio.ServicerContext[Any, Any]
    ) -> control_pb2.Document:
        try:
            document = await handler(request)
        except FednodeError as error:
            await context.abort(grpc.StatusCode.FAILED_PRECONDITION, to_details(error))
        except Exception:
            log.exception("a control request failed")
            await context.abort(
                grpc.StatusCode.INTERNAL,
                to_details(FednodeError("The daemon met an internal error.", "See its log.")),
            )
        return control_pb2.Document(json=json.dumps(document).encode())

    return method
