"""The benchmarks run, in a small size; what they measure is in docs/."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from nodes import ROOT


def test_the_benchmark_of_recipes_measures_each_recipe() -> None:
    options = ["--seeds", "0", "--nodes", "1", "--smoke", "--json"]
    script = [sys.executable, str(ROOT / "examples" / "benchmarks" / "recipes.py"), *options]
    done = subprocess.run(script, capture_output=True, text=True, timeout=240, check=True)
    rows = json.loads(done.stdout)
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


def test_the_benchmark_of_samplers_counts_calls_and_measures_experts() -> None:
    script = [
        sys.executable,
        str(ROOT / "examples" / "benchmarks" / "samplers.py"),
        "--seeds",
        "0",
        "--smoke",
        "--json",
    ]
    done = subprocess.run(script, capture_output=True, text=True, timeout=240, check=True)
    rows = json.loads(done.stdout)
    assert {name: row["calls"] for name, row in rows.items()} == {"heun 50": 99, "heun 12": 23}
    for row in rows.values():
        assert 0 <= row["accuracy"] <= 1


@pytest.mark.parametrize("form", [["--json"], []])
def test_the_benchmark_of_generators_measures_presets_and_layouts(form: list[str], tmp_path: Path) -> None:
    (tmp_path / "other.json").write_text('{"nano": {"steps_per_second": 123.25}}')
    script = [sys.executable, str(ROOT / "examples" / "benchmarks" / "generator.py"), "--smoke", *form]
    reference = ["--reference", str(tmp_path / "other.json")]
    done = subprocess.run([*script, *reference], capture_output=True, text=True, timeout=240, check=True)
    if not form:
        assert "123.25" in done.stdout
        return
    found = json.loads(done.stdout)
    assert found["presets"]["nano"]["bytes"] == 2 * found["presets"]["nano"]["parameters"]
    assert found["presets"]["nano"]["images_per_second"] > 0
    assert found["layouts"]["float32, contiguous"]["ratio"] == 1
    assert found["reference"] == {"nano": {"steps_per_second": 123.25}}


def test_the_benchmark_of_the_generative_product_measures_pruning_and_latency() -> None:
    script = [
        sys.executable,
        str(ROOT / "examples" / "benchmarks" / "generative.py"),
        "--seeds",
        "0",
        "--smoke",
        "--json",
    ]
    done = subprocess.run(script, capture_output=True, text=True, timeout=240, check=True)
    found = json.loads(done.stdout)
    assert found["quality"].keys() == {"all", "pruned", "bfloat16"}
    assert (found["quality"]["all"]["calls"], found["quality"]["pruned"]["calls"]) == (40, 27)  # 5 + 4 + 6 times 3
    assert all(0 <= row["accuracy"] <= 1 for row in found["quality"].values())
    assert found["seconds"].keys() == {f"{way}, 1 threads" for way in ("all", "pruned", "bfloat16")}
    for row in found["latency_ms"].values():
        assert row.keys() == {"all, one by one", "pruned, one by one", "pruned, stacked"}
