"""Questions that never cease: one thread for each node asks for a prediction, waits for the answer, and asks again.

Rule 1: at each node exactly one question is in flight, so an answer's time is that of the product that gave it.
Rule 2: after the leave the questions go on at full speed until each node has answered often, and then with rests, since
        questions and rebuilding share the cores.
"""

import threading
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Protocol, Self

from fednode.contract import ImageShape
from fednode.errors import FednodeError
from fednode_cli.demo.goals import Document
from fednode_crypto.identity import PeerId

REST_SECONDS = 2.0
FAILED_REST_SECONDS = 0.2
JOIN_SECONDS = 30.0


class Client(Protocol):
    """What can be asked."""

    def predict(self, images: list[tuple[str, bytes]]) -> Document:
        """The document of the verb."""


@dataclass(frozen=True)
class Answer:
    """Which node answered when (unix time, s), after how long (s), by which product, and whether it descends from the leaver."""

    node: str
    finished_at: float
    seconds: float
    product: str
    tainted: bool


class Asking:
    """While entered, asks every client about `image`; `leaver` is the one whose taint is looked for."""

    def __init__(self, clients: Mapping[str, Client], image: bytes, leaver: PeerId) -> None:
        self.answers: list[Answer] = []
        self.failures: list[str] = []
        self._image = image
        self._leaver = leaver
        self._rest = 0.0
        self._ending = threading.Event()
        self._threads = [
            threading.Thread(target=self._ask, args=(name, client), daemon=True) for name, client in clients.items()
        ]
        self._names = tuple(clients)

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ending.set()
        if kind is None:
            for thread in self._threads:
                thread.join(JOIN_SECONDS)

    def slow_down(self) -> None:
        """Rest between two questions from now on."""
        self._rest = REST_SECONDS

    def least(self, since: float) -> int:
        """How many answers each node has given at least since then (unix time, s)."""
        counts = Counter(answer.node for answer in list(self.answers) if answer.finished_at > since)
        return min(counts[name] for name in self._names)

    def _ask(self, name: str, client: Client) -> None:
        while not self._ending.is_set():
            began = time.monotonic()
            try:
                document = client.predict([("question", self._image)])
            except FednodeError as error:
                self.failures.append(f"{name}: {error}")
                self._ending.wait(FAILED_REST_SECONDS)
                continue
            tainted = any(issuer == self._leaver for issuer, _ in document["lineage"])
            self.answers.append(Answer(name, time.time(), time.monotonic() - began, document["product"], tainted))
            self._ending.wait(self._rest)


def question(image: ImageShape, seed: int) -> bytes:
    """An image file of this shape (PGM or PPM). What it shows is no matter: which product answers is."""
    kind = "P5" if image.channels == 1 else "P6"
    pixels = bytes((at * 97 + seed) % 256 for at in range(image.size * image.size * image.channels))
    return f"{kind}\n{image.size} {image.size}\n255\n".encode() + pixels
