"""The benchmarks run, in a small size; what they measure is in docs/."""

import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
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


def load_benchmark(name: str) -> ModuleType:
    """A script of examples/benchmarks as a module: started in this process, it need not import torch again."""
    spec = importlib.util.spec_from_file_location(f"bench_{name}", ROOT / "examples" / "benchmarks" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def test_the_benchmark_of_the_audit_counts_what_failed_and_goes_on_where_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    script = load_benchmark("audit")
    monkeypatch.setattr(sys, "argv", ["audit.py", "--fits", "1", "--smoke", "--json", "--cache", str(tmp_path)])
    script.main()
    first = capsys.readouterr().out
    found = json.loads(first)
    assert {"pixels distance", "features visits", "loss", "sima", "any test"} <= found["tests"].keys()
    for row in found["tests"].values():
        assert {kind: cell["fits"] for kind, cell in row.items()} == {"default": 1, "over-trained": 1, "smallest": 1}
        assert all(cell["interval"][0] <= cell["share"] <= cell["interval"][1] for cell in row.values())
    kept = {path: path.stat().st_mtime_ns for path in tmp_path.iterdir()}
    assert len(kept) == 6
    script.main()
    assert capsys.readouterr().out == first
    assert {path: path.stat().st_mtime_ns for path in tmp_path.iterdir()} == kept
