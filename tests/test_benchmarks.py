"""The benchmarks run, in a small size; what they measure is in docs/."""

import json
import subprocess
import sys

from nodes import ROOT


def test_the_benchmark_of_recipes_measures_each_recipe() -> None:
    script = [sys.executable, str(ROOT / "examples" / "benchmarks" / "recipes.py"), "--seeds", "0", "--smoke", "--json"]
    done = subprocess.run(script, capture_output=True, text=True, timeout=240, check=True)
    rows = json.loads(done.stdout)
    recipes = {f"{mix}, {who}'s label" for mix in ("mixed", "paper") for who in ("donor", "teacher")}
    assert rows.keys() == recipes | {"generative product"}
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
