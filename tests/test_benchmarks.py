"""The benchmarks run, in a small size and in this process, which has torch already; what they measure is in docs/."""

import importlib
import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from fednode.contract import ImageShape
from fednode.learning.denoiser import Denoiser
from fednode.presets import generator_architecture

Run = Callable[..., str]


@pytest.fixture
def run(own_numerics: None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs a script with its options: what it prints. What it changes for its process is as it was afterwards."""

    def printed(name: str, *options: str) -> str:
        monkeypatch.setattr(sys, "argv", [f"{name}.py", *options])
        importlib.import_module(name).main()
        return capsys.readouterr().out

    return printed


def test_the_benchmark_of_recipes_measures_each_recipe(run: Run) -> None:
    rows = json.loads(run("recipes", "--seeds", "0", "--nodes", "1", "--smoke", "--json"))
    assert {
        "paper",
        "mixed",
        "projected",
        "synthetic",
        "mixed, agreed",
        "mixed, teacher",
        "generative product",
    } < rows.keys()
    for row in rows.values():
        assert 0 <= row["product"] <= 1
        assert 0 <= row["ece"] <= 1


def test_the_benchmark_of_samplers_counts_calls_and_measures_experts(run: Run) -> None:
    rows = json.loads(run("samplers", "--seeds", "0", "--smoke", "--json"))
    assert {name: row["calls"] for name, row in rows.items()} == {"heun 5": 9, "dpm2m 20": 20}
    for row in rows.values():
        assert 0 <= row["accuracy"] <= 1


def test_the_benchmark_of_guidance_compares_each_weight_with_the_generator_alone(run: Run) -> None:
    rows = json.loads(run("guidance", "--seeds", "0", "--smoke", "--json"))
    assert rows.keys() == {"1", "1.3"}
    assert (rows["1"]["more"], rows["1"]["more_sd"]) == (0, 0)
    assert rows["1.3"]["more"] == pytest.approx(rows["1.3"]["accuracy"] - rows["1"]["accuracy"])


def test_guidance_carries_on_from_the_early_denoiser_through_the_late_one() -> None:
    guidance = importlib.import_module("guidance")
    architecture = generator_architecture("nano", ImageShape(size=8, channels=1))
    early, late = (Denoiser(architecture).freeze() for _ in range(2))
    late.leave_gain.fill_(0.5)
    x, sigma = torch.randn(3, 1, 8, 8), torch.full((3,), 0.7)
    for weight, expected in (
        (0.0, early(x, sigma)),
        (1.0, late(x, sigma)),
        (2.0, 2 * late(x, sigma) - early(x, sigma)),
    ):
        assert torch.allclose(guidance.Guided(early, late, weight)(x, sigma), expected, atol=1e-6)


@pytest.mark.parametrize("form", [["--json"], []])
def test_the_benchmark_of_generators_measures_presets_and_layouts(form: list[str], tmp_path: Path, run: Run) -> None:
    (tmp_path / "other.json").write_text('{"nano": {"steps_per_second": 123.25}}')
    printed = run("generator", "--smoke", *form, "--reference", str(tmp_path / "other.json"))
    if not form:
        assert "123.25" in printed
        return
    found = json.loads(printed)
    assert found["presets"]["nano"]["bytes"] == 2 * found["presets"]["nano"]["parameters"]
    assert found["presets"]["nano"]["images_per_second"] > 0
    assert found["layouts"]["float32, contiguous"]["ratio"] == 1
    assert found["reference"] == {"nano": {"steps_per_second": 123.25}}


def test_the_benchmark_of_the_generative_product_measures_pruning_and_latency(run: Run) -> None:
    found = json.loads(run("generative", "--seeds", "0", "--smoke", "--json"))
    assert found["quality"].keys() == {"all", "pruned", "bfloat16"}
    assert (found["quality"]["all"]["calls"], found["quality"]["pruned"]["calls"]) == (40, 27)  # 5 + 4 + 6 times 3
    assert all(0 <= row["accuracy"] <= 1 for row in found["quality"].values())
    assert found["seconds"].keys() == {f"{way}, 1 threads" for way in ("all", "pruned", "bfloat16")}
    for row in found["latency_ms"].values():
        assert row.keys() == {"all, one by one", "pruned, one by one", "pruned, stacked"}


def test_the_benchmark_of_inversion_times_each_mode_against_all_patches(run: Run) -> None:
    few = ["--size", "8", "--patch", "2", "--steps", "8", "--images", "2"]
    found = json.loads(run("inversion", *few, "--json"))["modes"]
    assert found.keys() == {"dense", "sparse", "random", "rebirth"}
    assert (found["dense"]["left"], found["dense"]["ratio"]) == (16, 1)
    seen = 16 + 11 + 2 * 7 + 2 * 4 + 2 * 2
    for mode in ("sparse", "random", "rebirth"):
        assert (found[mode]["left"], found[mode]["patches"]) == (2, seen)
        assert found[mode]["seconds"] > 0


def test_the_accelerator_check_runs_on_a_cpu_and_finds_equal_digests(run: Run) -> None:
    found = json.loads(run("gpu", "--smoke", "--device", "cpu"))
    assert found["numerics"]["device"] == "cpu"
    assert found["speed"]["presets"]["nano"]["steps_per_second"] > 0
    assert found["speed"]["layouts"].keys() > {"float32, contiguous", "bfloat16, channels last"}
    assert {"product", "generative"} < found["silos"].keys()
    assert found["equal"]["equal"]
    first, second = found["equal"]["runs"]
    assert first["generator"] == second["generator"]
    assert first["report"] == second["report"]


def test_a_part_of_the_accelerator_check_that_fails_says_why() -> None:
    def broken() -> dict[str, object]:
        raise RuntimeError("no kernel for this device")

    found = importlib.import_module("gpu").tried(broken)
    assert found["error"] == "RuntimeError: no kernel for this device"
    assert found["seconds"] >= 0
