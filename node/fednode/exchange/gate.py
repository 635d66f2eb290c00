"""The gate: every RPC passes it, and every message of a stream.

Rule 1: who is calling is the listed peer whose key verifies the caller's leaf; nothing else says so.
Rule 2: no TLS older than 1.3.
Rule 3: GetReceipts asks `may_fetch_receipts`, everything else asks `may_call`, for the RPC and for each message.
Rule 4: a fault ends the RPC with a status, never with a traceback.
"""

import asyncio
import contextlib
import logging
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any

import grpc

from fednode.errors import FednodeError, PeerError
from fednode.exchange.desk import Desk
from fednode.exchange.faults import status_of
from fednode.exchange.limits import ExchangeLimits
from fednode.exchange.stream import Stream
from fednode.exchange.trust import Trust
from fednode.exchange.wire import lenient
from fednode_crypto.identity import PeerId

_LOG = logging.getLogger(__name__)
_RECEIPTS = "/GetReceipts"

Behaviour = Callable[[Any, Any], Awaitable[Any]]


class Gate(grpc.aio.ServerInterceptor):  # type: ignore[type-arg]
    """Gives each handler a `Stream` with its caller in place of gRPC's context."""

    def __init__(self, trust: Trust, desk: Desk, limits: ExchangeLimits) -> None:
        self._trust = trust
        self._desk = desk
        self._limits = limits
        self._open: Counter[PeerId] = Counter()

    async def intercept_service(self, continuation: Any, handler_call_details: Any) -> Any:
        """Put the gate before a handler."""
        handler = await continuation(handler_call_details)
        if handler is None:
            return None
        receipts = handler_call_details.method.endswith(_RECEIPTS)
        allowed = self._desk.may_fetch_receipts if receipts else self._desk.may_call
        return _rewrapped(handler, lambda behaviour: self._guarded(behaviour, allowed))

    def _guarded(self, behaviour: Behaviour, allowed: Callable[[PeerId], bool]) -> Behaviour:
        async def guarded(request: Any, context: Any) -> Any:
            try:
                return await self._admitted(behaviour, allowed, request, context)
            except PeerError as error:
                await _abort(context, *status_of(error))
            except FednodeError as error:
                _LOG.warning("A call has failed: %s", error)
                await _abort(context, grpc.StatusCode.INTERNAL, "internal")
            except asyncio.CancelledError:
                return None  # the caller is gone, or the server stops: nobody is there to be told
            except grpc.aio.AbortError:
                raise
            except Exception:
                _LOG.exception("A call has failed.")
                await _abort(context, grpc.StatusCode.INTERNAL, "internal")

        return guarded

    async def _admitted(
        self, behaviour: Behaviour, allowed: Callable[[PeerId], bool], request: Any, context: Any
    ) -> Any:
        caller = self._caller(context.auth_context())
        stream = Stream(context, caller, allowed)
        stream.check()
        if request is None:
            raise PeerError("protocol", "The request can't be read.")
        if self._open[caller] >= self._limits.calls_per_peer:
            raise PeerError("busy", "This peer has too many open calls.")
        self._open[caller] += 1
        try:
            return await behaviour(request, stream)
        finally:
            self._open[caller] -= 1

    def _caller(self, auth: Any) -> PeerId:
        """Rules 1 and 2. Raises PeerError `unknown-caller`."""
        leaves, versions = list(auth.get("x509_pem_cert", ())), list(auth.get("ssl_tls_version", ()))
        if versions != [b"TLSv1.3"] or len(leaves) != 1:
            raise PeerError("unknown-caller", "The connection is not TLS 1.3 with one leaf.")
        caller = self._trust.caller(leaves[0])
        if caller is None:
            raise PeerError("unknown-caller", "No listed key has signed the caller's leaf.")
        return caller


async def _abort(context: Any, code: grpc.StatusCode, details: str) -> None:
    """End the RPC with a status; if it was cut meanwhile, nobody is there to be told."""
    with contextlib.suppress(asyncio.InvalidStateError, grpc.aio.UsageError, grpc.aio.InternalError):
        await context.abort(code, details)


def _rewrapped(handler: Any, wrap: Callable[[Behaviour], Behaviour]) -> Any:
    """The same handler with its behaviour wrapped, whichever of the four kinds it is."""
    kinds = {
        (False, False): ("unary_unary", grpc.unary_unary_rpc_method_handler),
        (False, True): ("unary_stream", grpc.unary_stream_rpc_method_handler),
        (True, False): ("stream_unary", grpc.stream_unary_rpc_method_handler),
        (True, True): ("stream_stream", grpc.stream_stream_rpc_method_handler),
    }
    name, make = kinds[handler.request_streaming, handler.response_streaming]
    parse = lenient(handler.request_deserializer)
    return make(wrap(getattr(handler, name)), parse, handler.response_serializer)
