"""How anything answers the validation and the test images of a draw, and where its answers are kept.

Rule 1: an answer is a table of logits or log probabilities, float32 (P, N, K): P predictors, N images, K labels of the task.
Rule 2: a label that no generator covers has NEVER; it is never answered, and each of its images counts as an error.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from comparison.draws import Node
from comparison.making import Making
from comparison.shelf import Record, key_of
from fednode.learning import expert as experts
from fednode.learning.seeds import seed_of

NEVER = -1e4
ANSWERS_VERSION = 1

Table = npt.NDArray[np.float32]


@dataclass(frozen=True)
class Answers:
    """What P predictors say, the seconds that making the table took, and what its maker told beside it."""

    validation: Table
    test: Table
    seconds: float
    told: Record = field(default_factory=dict)


@dataclass(frozen=True)
class Asking:
    """The images of a draw, and the shelf for what is said about them."""

    making: Making

    def _seed(self, purpose: str) -> int:
        return seed_of(self.making.draw.digest, purpose)

    def _shard(self, node: Node) -> tuple[Tensor, Tensor]:
        """The node's training images and the indices of their labels."""
        images = torch.cat([torch.from_numpy(own.train) for own in node.own.values()])
        labels = self.making.task.labels
        return images, torch.tensor([labels.index(label) for label, own in node.own.items() for _ in own.train])

    def _images(self) -> Tensor:
        """All validation images, then all test images."""
        draw = self.making.draw
        return torch.from_numpy(np.concatenate([draw.validation.images, draw.test.images]))

    def _ask(self, networks: Sequence[nn.Module], labels: Sequence[str]) -> Table:
        """The logits of all networks, which tell `labels` apart."""
        images, device = self._images(), self.making.crew.session.device
        found = self._in_threads(lambda network: experts.logits(network, images, device), networks)
        return self._widened(torch.stack(list(found)), labels)

    def _widened(self, table: Tensor, labels: Sequence[str]) -> Table:
        """(P, N, labels) to (P, N, K)."""
        whole = torch.full((*table.shape[:2], len(self.making.task.labels)), NEVER)
        whole[:, :, [self.making.task.labels.index(label) for label in labels]] = table.float()
        return whole.numpy()

    def _in_threads(self, do: Callable[[Any], Any], items: Sequence[Any]) -> Iterator[Any]:
        """The results in order; each comes from one thread, so it does not depend on how many there are."""
        with ThreadPoolExecutor(self.making.crew.jobs) as pool:
            yield from pool.map(do, items)

    def _kept(self, kind: str, inputs: dict[str, Any], make: Callable[[], Table]) -> Answers:
        """What `make` gives, kept under the draw and all that it follows from."""
        return self._kept_told(kind, inputs, lambda: (make(), {}))

    def _kept_told(self, kind: str, inputs: dict[str, Any], make: Callable[[], tuple[Table, Record]]) -> Answers:
        """The same for a maker that also tells something, which is kept with the table."""
        shelf, draw = self.making.crew.shelf, self.making.draw
        about = {"version": ANSWERS_VERSION, "draw": draw.digest, "task": list(self.making.task.labels), **inputs}
        key = key_of(f"answers-{kind}", {"about": about, "numerics": self.making.crew.session.numerics})
        with shelf.lock(key):
            record = shelf.find(key)
            if record is None:
                began, (table, told) = time.monotonic(), make()
                with shelf.aside(key).open("wb") as stream:
                    np.save(stream, table)
                record = shelf.keep(key, {"seconds": time.monotonic() - began, **told})
        table = np.load(shelf.file(key), allow_pickle=False)
        held = len(draw.validation.targets)
        return Answers(table[:, :held], table[:, held:], record["seconds"], record)
