"""Weight files from an enemy are refused with a sentence, and sound ones come back as they were."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor

from fednode.architecture import GeneratorArchitecture
from fednode.contract import ImageShape
from fednode.learning import weights
from fednode.learning.denoiser import Denoiser
from fednode.learning.weights import BadWeightsError, check_file, check_generator
from fednode.presets import generator_architecture

EXPECTED: weights.Expected = {"a": ((2, 3), torch.float16), "b": ((4,), torch.float32)}


def tensors() -> dict[str, Tensor]:
    return {"a": torch.arange(6, dtype=torch.float16).reshape(2, 3), "b": torch.linspace(-1, 1, 4)}


def write(path: Path, header: dict[str, Any] | bytes, body: bytes) -> Path:
    raw = header if isinstance(header, bytes) else json.dumps(header).encode()
    path.write_bytes(len(raw).to_bytes(8, "little") + raw + body)
    return path


def sound_header() -> dict[str, Any]:
    return {
        "a": {"dtype": "F16", "shape": [2, 3], "data_offsets": [16, 28]},
        "b": {"dtype": "F32", "shape": [4], "data_offsets": [0, 16]},
    }


def test_what_was_saved_is_read_back(tmp_path: Path) -> None:
    weights.save(tmp_path / "w", tensors())
    read = check_file(tmp_path / "w", EXPECTED)
    assert read.keys() == EXPECTED.keys()
    assert all(torch.equal(read[name], tensor) for name, tensor in tensors().items())


def test_equal_tensors_give_equal_bytes_whatever_their_order(tmp_path: Path) -> None:
    weights.save(tmp_path / "one", tensors())
    weights.save(tmp_path / "two", dict(reversed(tensors().items())))
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()


def test_a_hand_made_sound_file_is_read(tmp_path: Path) -> None:
    assert check_file(write(tmp_path / "w", sound_header(), bytes(28)), EXPECTED)["a"].sum() == 0


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda t: t | {"a": t["a"] * torch.nan}, "'a' holds NaN"),
        (lambda t: t | {"b": torch.tensor([0.0, 1.0, -torch.inf, 0.0])}, "'b' holds NaN or infinity"),
        (lambda t: t | {"b": torch.tensor([0.0, 1.0, -1e5, 0.0])}, "'b' holds a number beyond"),
        (lambda t: t | {"a": t["a"].reshape(3, 2)}, "shape of 'a'"),
        (lambda t: t | {"a": t["a"].float()}, "dtype of 'a'"),
        (lambda t: t | {"b": t["b"].view(torch.int32)}, "dtype of 'b'"),
        (lambda t: t | {"c": t["b"].clone()}, "'c' is unexpected"),
        (lambda t: {"a": t["a"]}, "'b' is missing"),
    ],
)
def test_tensors_that_are_not_as_expected_are_refused(
    tmp_path: Path, change: Callable[[dict[str, Tensor]], dict[str, Tensor]], sentence: str
) -> None:
    save_file(change(tensors()), tmp_path / "w")
    with pytest.raises(BadWeightsError, match=sentence):
        check_file(tmp_path / "w", EXPECTED)


def change_entry(name: str, **fields: Any) -> dict[str, Any]:
    header = sound_header()
    header[name] |= fields
    return header


@pytest.mark.parametrize(
    ("header", "body", "sentence"),
    [
        (sound_header(), 27, "its tensors need"),
        (sound_header(), 29, "its tensors need"),
        (sound_header(), 0, "its tensors need"),
        (change_entry("a", data_offsets=[12, 24]), 28, "overlap or leave gaps"),
        (change_entry("a", data_offsets=[20, 32]), 32, "overlap or leave gaps"),
        (change_entry("a", data_offsets=[16, 30]), 30, "should have 12"),
        (change_entry("a", data_offsets=[28, 16]), 28, "should have 12"),
        (change_entry("a", data_offsets=[16]), 28, "offsets of 'a'"),
        (change_entry("a", data_offsets=[True, 13]), 28, "offsets of 'a'"),
        (change_entry("a", data_offsets="16"), 28, "offsets of 'a'"),
        (change_entry("a", shape=[2, -3]), 28, "shape of 'a'"),
        (change_entry("a", extra=1), 28, "malformed"),
        (sound_header() | {"a": 7}, 28, "malformed"),
        (sound_header() | {"__metadata__": {"format": "pt"}}, 28, "'__metadata__' is unexpected"),
        (b'{"a": 1, "a": 2}', 28, "header can't be read"),
        (b"[1, 2]", 28, "not a table"),
        (b"\x80\x04N.", 28, "header can't be read"),
        (b"", 28, "ends within its header"),
    ],
)
def test_malformed_files_are_refused(tmp_path: Path, header: dict[str, Any] | bytes, body: int, sentence: str) -> None:
    with pytest.raises(BadWeightsError, match=sentence):
        check_file(write(tmp_path / "w", header, bytes(body)), EXPECTED)


def test_a_header_beyond_the_limit_is_refused_unread(tmp_path: Path) -> None:
    (tmp_path / "w").write_bytes((2**62).to_bytes(8, "little") + b"{}")
    with pytest.raises(BadWeightsError, match="header claims"):
        check_file(tmp_path / "w", EXPECTED)


def test_a_file_that_ends_early_is_refused_at_every_length(tmp_path: Path) -> None:
    weights.save(tmp_path / "w", tensors())
    whole = (tmp_path / "w").read_bytes()
    for length in range(len(whole)):
        (tmp_path / "w").write_bytes(whole[:length])
        with pytest.raises(BadWeightsError):
            check_file(tmp_path / "w", EXPECTED)


def test_weights_that_are_not_finite_are_not_written(tmp_path: Path) -> None:
    with pytest.raises(BadWeightsError, match="NaN"):
        weights.save(tmp_path / "w", {"a": torch.tensor([torch.nan])})
    assert not (tmp_path / "w").exists()


def test_a_generator_of_its_architecture_passes_and_one_of_another_does_not(tmp_path: Path) -> None:
    image = ImageShape(size=8, channels=1)
    architecture = generator_architecture("nano", image)
    state = {name: tensor.half() for name, tensor in Denoiser(architecture).state_dict().items()}
    weights.save(tmp_path / "w", state)
    assert check_generator(tmp_path / "w", architecture).keys() == state.keys()
    with pytest.raises(BadWeightsError):
        check_generator(tmp_path / "w", generator_architecture("s", image))


def test_an_architecture_that_would_fill_the_memory_is_refused_before_it_is_built() -> None:
    giant = GeneratorArchitecture(image=ImageShape(size=1024, channels=3), channels=(512,) * 6, blocks=4)
    with pytest.raises(BadWeightsError, match="more than"):
        weights.generator_tensors(giant)
