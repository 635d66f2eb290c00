"""Checkpoints: the state of a fit on the disk, from which it goes on after it was killed.

Rule 1: a clock decides when a state is written, and never what is in it.
Rule 2: a checkpoint is bound to its spec and numerics; one of others, or a damaged one, is as good as none.
Rule 3: it appears complete or not at all, and a disk that is full costs the checkpoint and not the fit.
"""

import hashlib
import logging
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from fednode import disk
from fednode_crypto.digest import digest_json

FORMAT = "1"
INTERVAL_S = 30.0
SHARE = 20  # of the time between two checkpoints at most one part in so many goes into writing

log = logging.getLogger("fednode.worker")


@dataclass
class Checkpoint:
    """Where a fit keeps its state, and what binds it there."""

    path: Path
    binding: str
    interval: float = INTERVAL_S
    _due: float = field(default_factory=time.monotonic)
    _pause: float = 0.0

    def __post_init__(self) -> None:
        self._due += self.interval

    def of(self, part: str) -> "Checkpoint":
        """The checkpoint of one part of the job, in the same place, for only one part is under way at a time."""
        binding = digest_json("fednode/checkpoint-part/v1", {"binding": self.binding, "part": part})
        return Checkpoint(self.path, binding, self.interval)

    @property
    def due(self) -> bool:
        """Whether it is time to write."""
        return time.monotonic() >= self._due

    def save(self, tensors: Mapping[str, Tensor]) -> None:
        """Replace the checkpoint by this state."""
        began = time.monotonic()
        here = {name: tensor.cpu().contiguous() for name, tensor in tensors.items()}
        try:
            self._write(save(here, {"format": FORMAT, "binding": self.binding, "digest": _digest(here)}))
        except OSError as error:
            log.warning("a fit goes on without a checkpoint: %s", error)
        ended = time.monotonic()
        self._due = ended + max(self.interval, SHARE * (ended - began) if self.interval else 0.0)

    def load(self) -> dict[str, Tensor] | None:
        """The state, or None if there is no sound one of this binding."""
        try:
            with safe_open(self.path, "pt") as file:
                said = file.metadata() or {}
                tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - no mapping
        except (OSError, SafetensorError):
            return None
        sound = {"format": FORMAT, "binding": self.binding, "digest": _digest(tensors)}
        return tensors if said == sound else None

    def remove(self) -> None:
        """Forget the state."""
        for path in (self.path, self._aside):
            path.unlink(missing_ok=True)

    @property
    def _aside(self) -> Path:
        return self.path.with_name(f"{self.path.name}.new")

    def _write(self, data: bytes) -> None:
        self._aside.unlink(missing_ok=True)
        disk.write_new(self._aside, data)
        self._aside.replace(self.path)
        disk.sync(self.path.parent)


def _digest(tensors: Mapping[str, Tensor]) -> str:
    """SHA-256 (hex) over names, types, shapes and contents, in the order of names."""
    digest = hashlib.sha256()
    for name in sorted(tensors):
        tensor = tensors[name]
        digest.update(f"{name} {tensor.dtype} {list(tensor.shape)}\n".encode())
        digest.update(tensor.numpy().tobytes())
    return digest.hexdigest()
