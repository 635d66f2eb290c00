"""Weight files: safetensors, written with one byte form and read as if by an enemy.

Rule 1: a file is refused before memory is spent on it: header size, names, shapes, dtypes and the exact file size come first.
Rule 2: every number is finite and of a magnitude that a healthy network can have.
Rule 3: the shapes come from the architecture, built on the meta device, where it costs nothing; its size is bounded first.
"""

import math
from collections.abc import Mapping
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from fednode.architecture import GeneratorArchitecture
from fednode.errors import FednodeError
from fednode.learning.denoiser import Denoiser
from fednode_crypto import strict_json
from fednode_crypto.errors import StrictJsonError

MAX_HEADER = 1 << 20
MAX_PARAMETERS = 1 << 28
MAX_MAGNITUDE = 1e4
NAMES_OF_DTYPES = {torch.float16: "F16", torch.float32: "F32", torch.bfloat16: "BF16", torch.int64: "I64"}
FLOATS = (torch.float32, torch.float16, torch.bfloat16)

Expected = Mapping[str, tuple[tuple[int, ...], torch.dtype]]


class BadWeightsError(FednodeError):
    """A weight file is not what its architecture says, or holds numbers that no healthy network has."""


def save(path: Path, tensors: Mapping[str, Tensor]) -> None:
    """Writes `tensors` as a safetensors file. Raises BadWeightsError, and writes nothing, if a number breaks Rule 2."""
    for name, tensor in tensors.items():
        _check_values(name, tensor)
    save_file({name: tensor.contiguous() for name, tensor in tensors.items()}, path)


def check_file(path: Path, expected: Expected) -> dict[str, Tensor]:
    """The tensors of the file at `path`, which has exactly the `expected` names, shapes and dtypes and sound values.

    Raises BadWeightsError, with what is wrong.
    """
    _check_header(_read_header(path), path.stat().st_size, expected)
    return _sound(path)


def _sound(path: Path) -> dict[str, Tensor]:
    """The tensors of a file whose header was checked. Raises BadWeightsError if a number breaks Rule 2."""
    tensors: dict[str, Tensor] = load_file(path)
    for name, tensor in tensors.items():
        _check_values(name, tensor)
    return tensors


def check_floats(path: Path, shapes: Mapping[str, tuple[int, ...]]) -> dict[str, Tensor]:
    """The tensors of a file made elsewhere: as `check_file`, but of one floating type, whichever, and perhaps with metadata.

    Raises BadWeightsError, with what is wrong.
    """
    start, entries = _read_header(path)
    entries = {name: entry for name, entry in entries.items() if name != "__metadata__"}
    named = {str(entry.get("dtype")) for entry in entries.values() if isinstance(entry, dict)}
    found = [dtype for dtype in FLOATS if named == {NAMES_OF_DTYPES[dtype]}]
    if not found:
        raise BadWeightsError(f"The numbers are {', '.join(sorted(named)) or 'missing'}; F32, F16 or BF16 is expected.")
    expected = {name: (shape, found[0]) for name, shape in shapes.items()}
    _check_header((start, entries), path.stat().st_size, expected)
    return _sound(path)


def check_generator(path: Path, architecture: GeneratorArchitecture) -> dict[str, Tensor]:
    """The fp16 tensors of a generator of this architecture. Raises BadWeightsError, with what is wrong."""
    return check_file(path, generator_tensors(architecture))


def generator_tensors(architecture: GeneratorArchitecture) -> Expected:
    """Names, shapes and dtypes in a generator's file. Raises BadWeightsError if the architecture is too large."""
    with torch.device("meta"):
        tensors = Denoiser(architecture).state_dict()
    if sum(tensor.numel() for tensor in tensors.values()) > MAX_PARAMETERS:
        raise BadWeightsError(f"The architecture has more than {MAX_PARAMETERS} parameters.")
    return {name: (tuple(tensor.shape), torch.float16) for name, tensor in tensors.items()}


def _read_header(path: Path) -> tuple[int, dict[str, object]]:
    """The header of the file and its size in bytes, the length field included."""
    with path.open("rb") as stream:
        size = int.from_bytes(stream.read(8), "little")
        if size > MAX_HEADER:
            raise BadWeightsError(f"The header claims {size} bytes, and at most {MAX_HEADER} are allowed.")
        raw = stream.read(size)
    if len(raw) != size or size == 0:
        raise BadWeightsError("The file ends within its header.")
    try:
        header = strict_json.loads(raw, MAX_HEADER)
    except StrictJsonError as error:
        raise BadWeightsError(f"The header can't be read: {error}") from None
    if not isinstance(header, dict):
        raise BadWeightsError("The header is not a table of tensors.")
    return 8 + size, header


def _check_header(header: tuple[int, dict[str, object]], file_size: int, expected: Expected) -> None:
    """Names, dtypes, shapes, offsets without gaps or overlaps, and the exact size of the file."""
    start, entries = header
    if wrong := sorted(entries.keys() ^ expected.keys()):
        raise BadWeightsError(f"The tensor {wrong[0]!r} is {'unexpected' if wrong[0] in entries else 'missing'}.")
    spans = []
    for name, (shape, dtype) in expected.items():
        size = math.prod(shape) * dtype.itemsize
        spans.append(_span(name, entries[name], {"dtype": NAMES_OF_DTYPES[dtype], "shape": list(shape)}, size))
    end = 0
    for first, last in sorted(spans):
        if first != end:
            raise BadWeightsError("The tensors overlap or leave gaps.")
        end = last
    if start + end != file_size:
        raise BadWeightsError(f"The file has {file_size} bytes, and its tensors need {start + end}.")


def _span(name: str, entry: object, wanted: dict[str, object], size: int) -> tuple[int, int]:
    """The byte range of one tensor, whose entry must be as `wanted` and `size` bytes long."""
    if not isinstance(entry, dict) or entry.keys() != {"dtype", "shape", "data_offsets"}:
        raise BadWeightsError(f"The entry of {name!r} is malformed.")
    for key, value in wanted.items():
        if entry[key] != value:
            raise BadWeightsError(f"The {key} of {name!r} is {entry[key]!r} and should be {value!r}.")
    offsets = entry["data_offsets"]
    if not (isinstance(offsets, list) and len(offsets) == 2 and all(type(offset) is int for offset in offsets)):
        raise BadWeightsError(f"The offsets of {name!r} are malformed.")
    if offsets[1] - offsets[0] != size:
        raise BadWeightsError(f"The tensor {name!r} has {offsets[1] - offsets[0]} bytes and should have {size}.")
    return offsets[0], offsets[1]


def _check_values(name: str, tensor: Tensor) -> None:
    """Rule 2 for one tensor."""
    if tensor.is_floating_point() and not bool(tensor.isfinite().all()):
        raise BadWeightsError(f"The tensor {name!r} holds NaN or infinity.")
    if tensor.numel() and max(abs(float(end)) for end in tensor.aminmax()) > MAX_MAGNITUDE:
        raise BadWeightsError(f"The tensor {name!r} holds a number beyond {MAX_MAGNITUDE:g}.")
