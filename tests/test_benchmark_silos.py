"""The comparison as a script: a small run fills every row, and what is wrong is told in a sentence."""

import json
from pathlib import Path

import pytest
from silos import main


def test_a_smoke_run_fills_every_row_and_goes_on_from_its_cache(
    tmp_path: Path, own_numerics: None, capsys: pytest.CaptureFixture[str]
) -> None:
    words = [
        "--budget",
        "smoke",
        "--labels",
        "0,1,2",
        "--test-images",
        "45",
        "--jobs",
        "1",
        "--device",
        "cpu",
        "--json",
    ]
    words += ["--cache", str(tmp_path / "cache"), "--out", str(tmp_path / "out")]
    assert main(words) == 0
    rows = json.loads(capsys.readouterr().out)
    named = (
        "pooled alone fedavg fedavg_rounds fedprox logit_ensemble centralised experts best_expert product product_paper"
    )
    assert rows.keys() == {*named.split(), "generative", "both", "auto"}
    for name, one in rows.items():
        assert 0 <= one["mean"] <= 1
        assert one["seeds"].keys() == {"0"}
        assert one["bytes"]["wire"] > 0 or name == "alone"
    assert rows["alone"]["mean"] == pytest.approx(1 / 3, abs=0.05)
    assert rows["generative"]["bytes"]["wire"] < rows["product"]["bytes"]["wire"]
    assert rows["auto"]["chosen"]["0"] in ("product", "generative", "both")
    assert {path.name for path in (tmp_path / "out").iterdir()} == {
        "results.json",
        "accuracy.png",
        "samples.png",
        "confusion.png",
    }
    assert json.loads((tmp_path / "out" / "results.json").read_text()) == rows
    made = {path: path.stat().st_mtime_ns for path in (tmp_path / "cache" / "things").iterdir()}
    assert main(words) == 0
    assert json.loads(capsys.readouterr().out) == rows
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "cache" / "things").iterdir()} == made


def test_what_is_wrong_with_the_arguments_is_told_in_a_sentence(
    tmp_path: Path, own_numerics: None, capsys: pytest.CaptureFixture[str]
) -> None:
    cache = ["--cache", str(tmp_path)]
    assert main([*cache, "--data", "npz:/nowhere.npz"]) == 5
    assert main([*cache, "--partition", "circles"]) == 5
    errors = capsys.readouterr().err
    assert "Traceback" not in errors
    assert "/nowhere.npz is not there" in errors
    assert "'circles' is not a partition" in errors
    for wrong in (["--methods", "magic"], ["--seeds", "0,0"], ["--folds", "1"], ["--jobs", "0"]):
        with pytest.raises(SystemExit) as ended:
            main([*cache, *wrong])
        assert ended.value.code == 2


def test_private_generators_are_compared_by_the_same_rows(
    tmp_path: Path, own_numerics: None, capsys: pytest.CaptureFixture[str]
) -> None:
    few = ["--budget", "smoke", "--labels", "0,1", "--test-images", "30", "--jobs", "1", "--device", "cpu", "--json"]
    few += ["--cache", str(tmp_path / "cache"), "--methods", "generative,experts"]
    rows = {}
    for name, dp in {"open": [], "private": ["--dp", "5"]}.items():
        assert main([*few, *dp]) == 0
        rows[name] = json.loads(capsys.readouterr().out)
    assert rows["open"].keys() == rows["private"].keys() == {"generative", "experts"}
    assert rows["open"]["generative"]["auroc"] != rows["private"]["generative"]["auroc"]
    made = [json.loads(path.read_text()) for path in (tmp_path / "cache" / "things").glob("expert-*.json")]
    assert [one["images"]["real"] > 0 for one in made].count(
        True
    ) == 2  # the open ones; the private ones are one and the same
    assert [one["membership"] for one in made if not one["images"]["real"]] == [None]
