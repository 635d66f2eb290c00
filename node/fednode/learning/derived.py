"""What descends from one artifact alone and is kept beside it: tensors in files that can be made again."""

import os
import tempfile
from collections.abc import Mapping
from pathlib import Path

from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor


def read(path: Path, names: frozenset[str]) -> dict[str, Tensor] | None:
    """The tensors of these names, or None where there is no such file or it is damaged."""
    try:
        tensors: dict[str, Tensor] = load_file(path)
    except (OSError, SafetensorError):
        return None
    return tensors if tensors.keys() == names else None


def write(path: Path, tensors: Mapping[str, Tensor]) -> None:
    """Whole or not at all, also when power fails: written aside, synced, then renamed."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    handle, aside = tempfile.mkstemp(dir=path.parent, prefix=f"{path.name.split('-')[0]}-", suffix=".tmp")
    os.close(handle)
    try:
        save_file({name: tensor.contiguous() for name, tensor in tensors.items()}, aside)
        with Path(aside).open("rb") as stream:
            os.fsync(stream.fileno())
        Path(aside).replace(path)
    except BaseException:
        Path(aside).unlink(missing_ok=True)
        raise
