"""One RPC as a stream of messages, the same on the calling and on the called side.

Rule 1: whether the peer may take part is asked again before and after each message, both ways.
Rule 2: waiting for the peer is bounded by `idle` seconds where one is given.
"""

import asyncio
from collections.abc import Callable
from typing import Any

import grpc
from google.protobuf.message import Message
from grpc.aio import EOF, AioRpcError  # type: ignore[attr-defined]

from fednode.errors import PeerError
from fednode.exchange.faults import fault_of, short
from fednode_crypto.identity import PeerId

_BROKEN = (asyncio.InvalidStateError, grpc.aio.UsageError, grpc.aio.InternalError)


class Stream:
    """Reads and writes of one RPC with `peer`; `raw` is gRPC's call or servicer context."""

    def __init__(self, raw: Any, peer: PeerId, allowed: Callable[[PeerId], bool], place: str = "") -> None:
        self.peer = peer
        self._raw = raw
        self._allowed = allowed
        self._place = place

    async def opened(self, idle: float) -> None:
        """Wait until the called side has taken the RPC up; only the calling side needs to. Raises PeerError."""
        await self._guarded(self._raw.initial_metadata, idle)
        if self._raw.done():
            await self.read()

    async def read(self, idle: float | None = None) -> Any:
        """The next message; None when the peer has said all. Raises PeerError (stalled, cut, protocol, not-allowed, ...)."""
        self.check()
        message = await self._guarded(self._raw.read, idle)
        if message is EOF:
            return None
        if message is None:
            raise PeerError("protocol", f"{short(self.peer)} sent bytes that are no message.")
        self.check()
        return message

    async def write(self, message: Message, idle: float | None = None) -> None:
        """Send a message; returns when it is on its way. Raises PeerError as `read` does."""
        self.check()
        await self._guarded(lambda: self._raw.write(message), idle)

    async def finish(self) -> None:
        """Say that we have said all; only the calling side has to."""
        await self._guarded(self._raw.done_writing, None)

    def cancel(self) -> None:
        """End the RPC at once; only the calling side can. Nothing happens if it has ended."""
        self._raw.cancel()

    async def abort(self, code: grpc.StatusCode, details: str = "") -> None:
        """End the RPC with a status; only the called side can."""
        await self._raw.abort(code, details)

    def check(self) -> None:
        """Raise PeerError `not-allowed` unless the peer may take part."""
        if not self._allowed(self.peer):
            raise PeerError("not-allowed", f"{short(self.peer)} takes no part here.")

    async def _guarded(self, operation: Callable[[], Any], idle: float | None) -> Any:
        try:
            async with asyncio.timeout(idle):
                return await operation()
        except TimeoutError:
            raise PeerError("stalled", f"{short(self.peer)} was silent for {idle:g} seconds.") from None
        except AioRpcError as error:
            raise fault_of(error, self.peer, self._place) from None
        except _BROKEN:
            raise self._cut() from None
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            raise self._cut() from None  # the RPC was cancelled, and not the task that waits for it

    def _cut(self) -> PeerError:
        return PeerError("cut", f"The connection to {short(self.peer)} was cut.")
