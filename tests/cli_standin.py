"""A stand-in for `fednode.daemon` in its own process: real lock, real control socket, no learning.

STANDIN_FAIL makes it refuse to start; STANDIN_SLOW_STATUS makes the first answers say that it is starting.
"""

import asyncio
import os
from collections.abc import Mapping
from typing import Any

from cli_documents import status_document


def run(home: Any, settings: Any) -> int:
    """What `fednode start` calls: blocks until a `stop` comes in."""
    from fednode.config import Lock  # noqa: PLC0415 - imported where a daemon is really run
    from fednode.errors import AddressError  # noqa: PLC0415

    if "STANDIN_FAIL" in os.environ:
        print("2026-01-01 INFO fednode: about to listen")
        raise AddressError("Port 7777 is in use.", "Choose another with --listen.")
    with Lock(home):
        asyncio.run(_serve(home, settings))
    return 0


async def _serve(home: Any, settings: Any) -> None:
    from fednode.control.service import VERBS, ControlServer  # noqa: PLC0415

    stopped = asyncio.Event()
    waits = int(os.environ.get("STANDIN_SLOW_STATUS", "0"))

    async def status(_request: Any) -> Mapping[str, Any]:
        nonlocal waits
        waits -= 1
        return status_document(name=settings.name, phase="starting" if waits >= 0 else "ready")

    async def predict(request: Any) -> Mapping[str, Any]:
        answers = [{"name": image.name, "label": "nevus", "probabilities": {"nevus": 1.0}} for image in request.images]
        return {"answers": answers, "product": "experts", "experts": 1, "lineage": [], "uncovered": []}

    async def rescan(_request: Any) -> Mapping[str, Any]:
        (home.work / "rescanning").touch()
        await asyncio.sleep(60)
        return {"rescanning": True}

    async def stop(_request: Any) -> Mapping[str, Any]:
        stopped.set()
        return {"stopping": True}

    handlers = {**dict.fromkeys(VERBS, status), "Predict": predict, "Rescan": rescan, "Stop": stop}
    server = ControlServer(home.control_socket, handlers)
    await server.start()
    await stopped.wait()
    await server.stop(0.5)
