"""The benchmark of the audit runs, in a small size; what it measures is in docs/audit.md."""

import importlib.util
import json
import sys
from pathlib import Path
from types import ModuleType

import pytest
from nodes import ROOT


def load_script() -> ModuleType:
    """The script as a module: started in this process, it need not import torch again."""
    path = ROOT / "examples" / "benchmarks" / "audit.py"
    spec = importlib.util.spec_from_file_location("benchmark_of_the_audit", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def test_the_benchmark_of_the_audit_counts_what_failed_and_goes_on_where_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    script = load_script()
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
