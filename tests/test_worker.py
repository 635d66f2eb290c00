"""The worker as a process: its protocol, the whole road on tiny models, equal digests, and how it ends."""

import base64
import io
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from making import identity
from pictures import fill
from PIL import Image

from fednode.architecture import ExpertArchitecture, GeneratorArchitecture
from fednode.contract import ImageShape
from fednode.evaluation import Evaluation
from fednode.grid import GridRecipe, able
from fednode.recipe import AuditRecipe, ExpertRecipe, GeneratorRecipe, SamplerRecipe, SynthesisRecipe, TeacherRecipe
from fednode_crypto.digest import sha256_hex

ROOT = Path(__file__).parents[1]
IMAGE = ImageShape(size=4, channels=1)
LABELS = ["cat", "dog", "fox"]
SAMPLER = SamplerRecipe(steps=3, batch=8)
GENERATOR = GeneratorArchitecture(image=IMAGE, channels=(8,), blocks=1).model_dump(mode="json")
FIT = GeneratorRecipe(images=96, batch=16).model_dump(mode="json")
AUDIT = AuditRecipe(minimum_images=24, samples=16, sampler=SAMPLER).model_dump(mode="json")
EXPERT = ExpertArchitecture(name="resnet10t", image=IMAGE, width=8, outputs=3).model_dump(mode="json")
SYNTHESIS = SynthesisRecipe(sampler=SAMPLER, samples_per_label=16)
RECIPE = ExpertRecipe(steps=40, batch=16, synthesis=SYNTHESIS, teacher=TeacherRecipe(levels=3)).model_dump(mode="json")

Json = dict[str, Any]


class Worker:
    """A worker process, asked one thing at a time; keeps every line that it wrote."""

    def __init__(self, role: str = "build") -> None:
        paths = os.pathsep.join(str(ROOT / name) for name in ("node", "crypto"))
        environment = {**os.environ, "PYTHONPATH": paths, "OMP_NUM_THREADS": "1"}
        command = [sys.executable, "-m", "fednode.worker", role, "--device", "cpu", "--threads", "1"]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment
        )
        self.ready = self.read()
        self.count = 0

    def read(self) -> Json:
        assert self.process.stdout
        line: Json = json.loads(self.process.stdout.readline())
        return line

    def send(self, line: bytes) -> None:
        assert self.process.stdin
        self.process.stdin.write(line + b"\n")
        self.process.stdin.flush()

    def conversation(self, op: str, **fields: Any) -> list[Json]:
        self.count += 1
        self.send(json.dumps({"id": self.count, "op": op, **fields}).encode())
        lines = [self.read()]
        while lines[-1]["event"] == "progress":
            lines.append(self.read())
        assert {line["id"] for line in lines} == {self.count}
        return lines

    def ask(self, op: str, **fields: Any) -> Json:
        answer = self.conversation(op, **fields)[-1]
        assert answer["event"] == "done", answer
        result: Json = answer["result"]
        return result

    def fail(self, op: str, **fields: Any) -> tuple[str, str]:
        answer = self.conversation(op, **fields)[-1]
        assert answer["event"] == "failed", answer
        return answer["code"], answer["message"]

    def end(self) -> tuple[int, bytes]:
        """The exit status after the end of its input, and what was left on its output."""
        assert self.process.stdin
        assert self.process.stdout
        self.process.stdin.close()
        status = self.process.wait(30)
        return status, self.process.stdout.read()


@pytest.fixture(scope="module")
def worker() -> Iterator[Worker]:
    found = Worker()
    yield found
    status, rest = found.end()
    assert (status, rest) == (0, b"")


@pytest.fixture(scope="module")
def animals(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three labels of 24 images that differ in brightness."""
    return fill(tmp_path_factory.mktemp("animals"), LABELS, 24)


def about(root: Path, keep: list[str] | None = None) -> Json:
    return {
        "data": {"source": f"folder:{root}", "labels": keep, "skip_bad": False},
        "image": IMAGE.model_dump(mode="json"),
        "labels": LABELS,
    }


def digest(path: Path) -> str:
    return sha256_hex(path.read_bytes())


def fit_all(worker: Worker, root: Path, folder: Path) -> list[Json]:
    """A generator for each label, as parts of a product."""
    parts = []
    for own in worker.ask("scan", **about(root))["labels"]:
        out = folder / own["label"]
        spec = {"job": "fit", "recipe": FIT, "architecture": GENERATOR, "label": own["label"], "images": own["digest"]}
        worker.ask("fit", **about(root), spec=spec, out=str(out))
        labels = [[own["label"], own["images"]]]
        parts.append({"digest": digest(out), "weights": str(out), "architecture": GENERATOR, "labels": labels})
    return parts


def expert_request(worker: Worker, root: Path, parts: list[Json], out: Path, derived: Path) -> Json:
    own = worker.ask("scan", **about(root, ["cat"]))["labels"]
    inputs = [{"weights": part["digest"], "labels": part["labels"], "architecture": GENERATOR} for part in parts]
    spec = {
        "job": "expert",
        "recipe": RECIPE,
        "architecture": EXPERT,
        "labels": LABELS,
        "own": [[one["label"], one["digest"]] for one in own],
        "inputs": sorted(inputs, key=lambda one: str(one["weights"])),
    }
    files = {part["digest"]: {"weights": part["weights"], "derived": str(derived / part["digest"])} for part in parts}
    return {**about(root, ["cat"]), "spec": spec, "generators": files, "out": str(out)}


@pytest.fixture(scope="module")
def generators(worker: Worker, animals: Path, tmp_path_factory: pytest.TempPathFactory) -> list[Json]:
    return fit_all(worker, animals, tmp_path_factory.mktemp("generators"))


@pytest.fixture(scope="module")
def request_for_expert(
    worker: Worker, animals: Path, generators: list[Json], tmp_path_factory: pytest.TempPathFactory
) -> Json:
    folder = tmp_path_factory.mktemp("expert")
    return expert_request(worker, animals, generators, folder / "expert", folder / "derived")


@pytest.fixture(scope="module")
def product(worker: Worker, generators: list[Json], request_for_expert: Json) -> Json:
    result = worker.ask("expert", **request_for_expert)
    assert (result["images"], result["dropped"]) == ({"real": 21, "synthetic": 48}, {})
    assert [(one["label"], one["asked"]) for one in result["samples"]] == [(label, 16) for label in LABELS]
    assert {one["donor"] for one in result["samples"]} == {part["digest"] for part in generators}
    assert 0 <= float(result["membership"]["auc"]) <= 1
    out = Path(request_for_expert["out"])
    return {
        "labels": LABELS,
        "image": IMAGE.model_dump(mode="json"),
        "experts": [{"digest": digest(out), "weights": str(out), "architecture": EXPERT}],
        "generators": generators,
        "recipe": RECIPE,
    }


def test_the_first_line_says_that_the_worker_is_ready_and_how_it_computes(worker: Worker) -> None:
    import torch  # noqa: PLC0415

    numerics = worker.ready["numerics"]
    assert worker.ready == {"event": "ready", "device": "cpu", "numerics": numerics}
    assert numerics == {
        "device": "cpu",
        "threads": 1,
        "dtype": "float32",
        "torch": torch.__version__.split("+")[0],
        "deterministic": True,
    }


def test_a_scan_counts_training_and_held_out_images(worker: Worker, animals: Path) -> None:
    found = worker.ask("scan", **about(animals))
    assert found["bad"] == []
    assert [(own["label"], own["images"], own["holdout"], own["patients"]) for own in found["labels"]] == [
        (label, 21, 3, None) for label in LABELS
    ]


def test_a_scan_sees_what_has_changed_on_disk(worker: Worker, tmp_path: Path) -> None:
    for name, value in (("a", 10), ("b", 20)):
        (tmp_path / "cat").mkdir(exist_ok=True)
        Image.new("L", (4, 4), value).save(tmp_path / "cat" / f"{name}.png")
    before = worker.ask("scan", **about(tmp_path))["labels"]
    (tmp_path / "cat" / "b.png").unlink()
    after = worker.ask("scan", **about(tmp_path))["labels"]
    assert [before[0]["images"], after[0]["images"]] == [2, 1]
    assert before[0]["digest"] != after[0]["digest"]


def test_bad_images_are_an_error_with_a_sentence_or_a_list(worker: Worker, tmp_path: Path) -> None:
    (tmp_path / "cat").mkdir()
    Image.new("L", (4, 4), 9).save(tmp_path / "cat" / "good.png")
    (tmp_path / "cat" / "bad.png").write_bytes(b"no image")
    request = about(tmp_path)
    code, message = worker.fail("scan", **request)
    assert code == "data"
    assert "cat/bad.png" in message
    request["data"]["skip_bad"] = True
    assert [bad["name"] for bad in worker.ask("scan", **request)["bad"]] == ["cat/bad.png"]


def test_a_source_is_described_without_a_contract(worker: Worker, animals: Path) -> None:
    found = worker.ask("describe", source=f"folder:{animals}")
    assert {key: found[key] for key in ("labels", "size", "channels", "bad")} == {
        "labels": LABELS,
        "size": 4,
        "channels": 1,
        "bad": [],
    }
    assert found["counts"][0] == {"label": "cat", "images": 21, "holdout": 3, "test": 24, "patients": None}


def test_progress_names_phase_count_rate_and_what_is_left(
    worker: Worker, request_for_expert: Json, tmp_path: Path
) -> None:
    lines = worker.conversation("expert", **{**request_for_expert, "out": str(tmp_path / "expert")})
    progress = [line for line in lines if line["event"] == "progress"]
    assert {line["phase"] for line in progress} == {"draw", "relabel", "train"}
    assert [line["done"] for line in progress if line["phase"] == "train"][-1] == 40
    assert set(progress[-1]) == {"id", "event", "phase", "done", "total", "rate", "eta"}


def test_a_fit_of_images_that_have_changed_is_refused(worker: Worker, animals: Path, tmp_path: Path) -> None:
    spec = {"job": "fit", "recipe": FIT, "architecture": GENERATOR, "label": "cat", "images": "0" * 64}
    code, message = worker.fail("fit", **about(animals), spec=spec, out=str(tmp_path / "out"))
    assert (code, "'cat' have changed" in message) == ("data-changed", True)
    assert not (tmp_path / "out").exists()


def test_an_audit_writes_its_report(worker: Worker, animals: Path, generators: list[Json], tmp_path: Path) -> None:
    own = worker.ask("scan", **about(animals))["labels"][0]
    spec = {
        "job": "audit",
        "recipe": AUDIT,
        "architecture": GENERATOR,
        "label": own["label"],
        "images": own["digest"],
        "weights": generators[0]["digest"],
    }
    out = tmp_path / "report.json"
    result = worker.ask("audit", **about(animals), spec=spec, weights=generators[0]["weights"], out=str(out))
    report = json.loads(out.read_text())
    assert {name: report[name] for name in result} == result
    assert out.with_suffix(".html").read_text().startswith("<!DOCTYPE html>")
    assert result["passed"] is True


def test_check_accepts_what_was_made_and_refuses_it_as_something_else(worker: Worker, product: Json) -> None:
    generator, expert = product["generators"][0], product["experts"][0]
    for kind, part in (("generator", generator), ("expert", expert)):
        assert worker.ask("check", kind=kind, architecture=part["architecture"], weights=part["weights"]) == {}
    code, _ = worker.fail("check", kind="generator", architecture=GENERATOR, weights=expert["weights"])
    assert code == "bad-weights"


def test_two_processes_make_equal_generators_and_experts_with_and_without_kept_samples(
    animals: Path, generators: list[Json], product: Json, request_for_expert: Json, tmp_path: Path
) -> None:
    other = Worker("serve")
    parts = fit_all(other, animals, tmp_path)
    assert [part["digest"] for part in parts] == [part["digest"] for part in generators]
    again = expert_request(other, animals, parts, tmp_path / "expert", tmp_path / "derived")
    assert again["spec"] == request_for_expert["spec"]
    other.ask("expert", **again)
    assert digest(tmp_path / "expert") == product["experts"][0]["digest"]
    assert len(list((tmp_path / "derived").glob("*/samples-*.safetensors"))) == 3
    other.ask("expert", **{**again, "out": str(tmp_path / "second")})
    assert digest(tmp_path / "second") == product["experts"][0]["digest"]
    assert other.end()[0] == 0


@pytest.mark.parametrize("name", ["experts", "generative", "both"])
def test_images_are_answered_and_bad_ones_named(worker: Worker, product: Json, name: str) -> None:
    buffer = io.BytesIO()
    Image.fromarray(np.full((4, 4), 220, np.uint8)).save(buffer, "PNG")
    images = [
        {"name": "bad.png", "data": base64.b64encode(b"no image").decode()},
        {"name": "fox.png", "data": base64.b64encode(buffer.getvalue()).decode()},
        {"name": "broken", "data": "#"},
    ]
    bad, fox, broken = worker.ask("predict", product=name, **product, images=images)["answers"]
    assert bad == {"name": "bad.png", "error": "the file is not an image of a known format"}
    assert set(broken) == {"name", "error"}
    assert fox["label"] == max(fox["probabilities"], key=fox["probabilities"].get)
    assert list(fox["probabilities"]) == LABELS
    assert sum(fox["probabilities"].values()) == pytest.approx(1)


def test_a_product_that_lacks_something_does_not_answer(worker: Worker, product: Json) -> None:
    image = [{"name": "a", "data": _picture(0)}]
    lacking = {**product, "generators": product["generators"][:2]}
    assert worker.fail("predict", product="generative", **lacking, images=image) == (
        "unanswerable",
        "Label 'fox' has no generator here.",
    )
    assert worker.fail("predict", product="experts", **{**product, "experts": []}, images=image)[0] == "unanswerable"
    narrower = {**product, "labels": LABELS[:2]}
    assert worker.fail("predict", product="experts", **narrower, images=image)[0] == "unanswerable"


def test_an_evaluation_measures_experts_the_products_and_what_was_chosen(
    worker: Worker, animals: Path, product: Json, tmp_path: Path
) -> None:
    data = about(animals)["data"]
    picture = tmp_path / "confusion.png"
    chosen = {"product": "both", "temperature_milli": 500}
    request = {"data": data, "contract_labels": LABELS, "confusion_png": str(picture), "chosen": chosen}
    found = worker.ask("evaluate", **product, **request)
    assert (found["images"], found["labels"], found["uncovered_images"]) == (72, LABELS, 0)
    assert set(found["products"]) == set(found["confusion"]) == {"experts", "generative", "both"}
    assert (
        found["chosen"]["accuracy"] == found["products"]["both"]["accuracy"]
    )  # a temperature changes confidence alone
    assert found["chosen"]["ece"] != found["products"]["both"]["ece"]
    assert found["products"]["generative"]["accuracy"] > 0.5  # three labels of unequal brightness
    assert [one["digest"] for one in found["experts"]] == [product["experts"][0]["digest"]]
    assert found["experts"][0]["accuracy"] == found["products"]["experts"]["accuracy"]
    assert np.array(found["confusion"]["experts"]).sum(1).tolist() == [24, 24, 24]
    assert (found["products"]["experts"]["calls"], found["products"]["generative"]["calls"]) == (1, 3 * 3)
    assert found["products"]["generative"]["latency_ms"] > 0
    assert Image.open(picture).size[0] > 100


def test_a_score_counts_the_answers_of_every_cell_to_own_held_out_images(
    worker: Worker, animals: Path, product: Json, tmp_path: Path
) -> None:
    for number in range(40):
        (tmp_path / "fox").mkdir(exist_ok=True)
        (tmp_path / "fox" / f"{number}.png").write_bytes(base64.b64decode(_picture(200 + number)))
    data = about(tmp_path)["data"]
    (fox,) = worker.ask("scan", **about(tmp_path))["labels"]
    grid = GridRecipe(teacher=TeacherRecipe(levels=3))
    spec = {
        "job": "score",
        "grid": grid.model_dump(mode="json"),
        "labels": LABELS,
        "own": [["fox", fox["digest"]]],
        "experts": [one["digest"] for one in product["experts"]],
        "generators": sorted([one["digest"], *one["labels"][0]] for one in product["generators"]),
    }
    found = worker.ask("score", **product, data=data, contract_labels=LABELS, spec=spec)
    cells = able(experts=True, generators=True, classifiers=False)
    assert [one["cell"] for one in found["scores"]] == sorted(cells)
    assert found["latency"].keys() == set(cells)
    evaluation = Evaluation.model_validate_json(
        json.dumps(
            {
                "contract": "0" * 64,
                "created": 0,
                "issuer": identity(1).peer_id,
                "grid": grid.digest,
                "labels": LABELS,
                "lineage": [[identity(1).peer_id, "0" * 64]],
                "scores": found["scores"],
            }
        )
    )
    rows = {one.cell: one.rows[0] for one in evaluation.scores}
    assert {(row.label, row.images, len(row.losses)) for row in rows.values()} == {("fox", 5, 5)}
    worker.ask("score", **product, data=None, contract_labels=LABELS, spec={**spec, "own": []})
    changed = {**spec, "own": [["fox", "0" * 64]]}
    assert worker.fail("score", **product, data=data, contract_labels=LABELS, spec=changed)[0] == "data-changed"


def test_images_of_uncovered_labels_are_counted_and_not_guessed(worker: Worker, animals: Path, product: Json) -> None:
    narrower = {**product, "labels": LABELS[:2], "experts": []}
    found = worker.ask("evaluate", **narrower, data=about(animals)["data"], contract_labels=LABELS)
    assert (found["images"], found["uncovered_images"]) == (48, 24)
    assert list(found["products"]) == ["generative"]


def test_an_evaluation_reads_its_images_anew_each_time(worker: Worker, product: Json, tmp_path: Path) -> None:
    (tmp_path / "cat").mkdir()
    for name in ("a", "b"):
        (tmp_path / "cat" / f"{name}.png").write_bytes(base64.b64decode(_picture(9)))
    request = {**product, "data": about(tmp_path)["data"], "contract_labels": LABELS}
    before = worker.ask("evaluate", **request)["images"]
    (tmp_path / "cat" / "b.png").unlink()
    assert (before, worker.ask("evaluate", **request)["images"]) == (2, 1)


def test_baselines_train_on_real_images_alone(worker: Worker, animals: Path) -> None:
    shares = [about(animals, [label])["data"] for label in LABELS]
    request = {
        "test": about(animals)["data"],
        "image": IMAGE.model_dump(mode="json"),
        "labels": LABELS,
        "recipe": RECIPE,
    }
    pooled = worker.ask("baseline", data=shares, **request)
    assert (pooled["images"], pooled["labels"]) == (63, LABELS)
    assert pooled["accuracy"] > 0.8
    alone = worker.ask("baseline", data=shares[1:2], **request)
    assert alone["labels"] == ["dog"]
    assert alone["accuracy"] == pytest.approx(1 / 3)


def test_a_picture_shows_real_beside_synthetic_images(
    worker: Worker, animals: Path, generators: list[Json], tmp_path: Path
) -> None:
    out = tmp_path / "samples.png"
    found = worker.ask("samples", **about(animals), generators=generators, recipe=RECIPE, per_label=4, out=str(out))
    assert found == {"labels": LABELS}
    assert Image.open(out).size[0] > 100


@pytest.mark.parametrize("line", [b"not json", b"[]", b'{"id": 5, "op": "dance"}', b'{"id": 5, "op": "scan"}', b"{}"])
def test_a_malformed_request_is_one_line_and_the_worker_goes_on(worker: Worker, line: bytes) -> None:
    worker.send(line)
    answer = worker.read()
    assert (answer["event"], answer["code"]) == ("failed", "internal")
    assert answer["id"] == (5 if b"5" in line else None)
    assert "\n" not in answer["message"]


def test_an_unexpected_error_has_its_traceback_on_standard_error_alone() -> None:
    other = Worker("serve")
    code, message = other.fail("check", kind="generator", architecture=GENERATOR, weights="/nowhere")
    assert code == "internal"
    assert "Traceback" not in message
    assert other.end() == (0, b"")
    assert other.process.stderr
    assert b"Traceback" in other.process.stderr.read()


def test_the_end_of_its_input_ends_a_busy_worker() -> None:
    other = Worker()
    endless = GeneratorRecipe(images=10**9, max_passes=10**9, batch=16).model_dump(mode="json")
    own = other.ask("scan", data={"source": "digits"}, image=IMAGE.model_dump(), labels=[str(n) for n in range(10)])[
        "labels"
    ][0]
    spec = {"job": "fit", "recipe": endless, "architecture": GENERATOR, "label": "0", "images": own["digest"]}
    request = {"id": 9, "op": "fit", "data": {"source": "digits"}, "image": IMAGE.model_dump(), "spec": spec}
    other.send(json.dumps({**request, "labels": [str(n) for n in range(10)], "out": "/nowhere"}).encode())
    assert other.read()["event"] == "progress"
    assert other.end()[0] == 0


def _picture(value: int) -> str:
    buffer = io.BytesIO()
    Image.new("L", (4, 4), value).save(buffer, "PNG")
    return base64.b64encode(buffer.getvalue()).decode()
