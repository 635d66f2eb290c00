"""The ops of FedMITR on tiny ViTs: classifiers, reports on them, experts, what is kept, and how a job goes on after a kill."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from pictures import fill
from safetensors.torch import save_file

from fednode.architecture import ViTArchitecture
from fednode.contract import ImageShape
from fednode.learning import checkpoint, dispatch, vit
from fednode.learning.session import Session, open_session
from fednode.recipe import AuditRecipe
from fednode.vit_recipe import ClassifierRecipe, DistilRecipe, InversionRecipe
from fednode_crypto.digest import sha256_hex

torch.set_num_threads(1)
SESSION = open_session("cpu", 1)
IMAGE = ImageShape(size=4, channels=1)
LABELS = ["cat", "dog", "fox"]
SHAPE = ViTArchitecture(name="vit_tiny_patch16_224", image=IMAGE, patch=1, width=16, depth=2, heads=2, outputs=3)
ARCHITECTURE = SHAPE.model_dump(mode="json")
CLASSIFIER = ClassifierRecipe(steps=60, batch=16, lr_micro=5_000)
INVERSION = InversionRecipe(steps=8, images=24, batch=12, stop_at_milli=(250, 500))
DISTIL = DistilRecipe(inversion=INVERSION, steps=40, batch=16, lr_micro=5_000)
Json = dict[str, Any]


class Killed(BaseException):
    """Ends a job as a kill would, but for the process."""


def ask(op: str, session: Session = SESSION, die_at: tuple[str, int] | None = None, **fields: Any) -> Json:
    def report(phase: str, done: int, total: int) -> None:
        if die_at and phase.startswith(die_at[0]) and done == die_at[1]:
            raise Killed

    answer = dispatch.outcome(json.dumps({"id": 1, "op": op, **fields}).encode(), session, report)
    assert answer["event"] == "done", answer
    result: Json = answer["result"]
    return result


@pytest.fixture(scope="module")
def animals(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three labels of 40 images that differ in brightness."""
    return fill(tmp_path_factory.mktemp("animals"), LABELS, 40)


def about(root: Path, keep: list[str] | None = None) -> Json:
    data = {"source": f"folder:{root}", "labels": keep, "skip_bad": False}
    return {"data": data, "image": IMAGE.model_dump(mode="json"), "labels": LABELS}


def own_of(root: Path, keep: list[str] | None = None) -> list[list[str]]:
    return [[one["label"], one["digest"]] for one in ask("scan", **about(root, keep))["labels"]]


def classifier_request(root: Path, keep: list[str], out: Path) -> Json:
    spec = {
        "job": "classifier",
        "recipe": CLASSIFIER.model_dump(mode="json"),
        "architecture": ARCHITECTURE,
        "labels": LABELS,
        "own": own_of(root, keep),
    }
    return {**about(root, keep), "spec": spec, "out": str(out)}


def fit(root: Path, keep: list[str], out: Path) -> Json:
    """A classifier of these labels as an input of an expert, with where it is."""
    counts = ask("classifier", **classifier_request(root, keep, out))["images"]
    labels = [[label, counts.get(label, 0)] for label in LABELS]
    return {"weights": sha256_hex(out.read_bytes()), "labels": labels, "architecture": ARCHITECTURE}


@pytest.fixture(scope="module")
def two(animals: Path, tmp_path_factory: pytest.TempPathFactory) -> list[tuple[Json, Path]]:
    """A classifier of cats and dogs, one of dogs and foxes, in the order of their digests, and their files."""
    root = tmp_path_factory.mktemp("two")
    files = [root / "one", root / "other"]
    found = [fit(animals, keep, out) for keep, out in zip((["cat", "dog"], ["dog", "fox"]), files, strict=True)]
    return sorted(zip(found, files, strict=True), key=lambda pair: str(pair[0]["weights"]))


def distil_request(two: list[tuple[Json, Path]], out: Path, kept: Path | None, **changes: Any) -> Json:
    recipe = DISTIL.model_copy(update=changes).model_dump(mode="json")
    inputs = [one for one, _ in two]
    spec = {"job": "distil", "recipe": recipe, "architecture": ARCHITECTURE, "labels": LABELS, "own": []}
    files = {
        one["weights"]: {"weights": str(path), "derived": str(kept / one["weights"][:8]) if kept else None}
        for one, path in two
    }
    return {
        "data": None,
        "image": IMAGE.model_dump(mode="json"),
        "labels": LABELS,
        "spec": {**spec, "inputs": inputs},
        "classifiers": files,
        "out": str(out),
    }


def test_a_classifier_tells_its_labels_apart_and_says_how_many_images_it_saw(animals: Path, tmp_path: Path) -> None:
    found = ask("classifier", **classifier_request(animals, ["cat", "fox"], tmp_path / "c"))
    assert found == {"images": {"cat": 35, "fox": 35}}
    assert ask("check", kind="classifier", architecture=ARCHITECTURE, weights=str(tmp_path / "c")) == {}
    network = vit.load(tmp_path / "c", SHAPE, torch.device("cpu"))
    flat = torch.tensor([-0.8, 0.7]).view(2, 1, 1, 1).expand(2, 1, 4, 4)
    assert network(flat).argmax(1).tolist() == [0, 2]


def test_a_report_has_a_verdict_from_all_held_out_images(
    animals: Path, two: list[tuple[Json, Path]], tmp_path: Path
) -> None:
    one, path = two[0]
    keep = [label for label, count in one["labels"] if count]
    spec = {
        "job": "audit-classifier",
        "recipe": AuditRecipe().model_dump(mode="json"),
        "architecture": ARCHITECTURE,
        "labels": LABELS,
        "own": own_of(animals, keep),
        "weights": one["weights"],
    }
    out = tmp_path / "report.json"
    found = ask("audit-classifier", **about(animals, keep), spec=spec, weights=str(path), out=str(out))
    report = json.loads(out.read_bytes())
    assert (report["images"], report["heldout"], report["passed"]) == (80, 10, found["passed"])
    assert found == {"passed": True, "reasons": []}
    assert 0 <= float(report["membership"]["loss"]["auc"]) <= 1


def test_an_expert_of_two_classifiers_answers_for_the_labels_of_both(
    two: list[tuple[Json, Path]], tmp_path: Path
) -> None:
    request = distil_request(two, tmp_path / "e", tmp_path / "kept")
    assert ask("distil", **request) == {"images": {"real": 0, "inverted": 48}, "membership": None}
    assert ask("check", kind="expert", architecture=ARCHITECTURE, weights=str(tmp_path / "e")) == {}


def test_own_images_join_and_are_reported_on(animals: Path, two: list[tuple[Json, Path]], tmp_path: Path) -> None:
    request = distil_request(two, tmp_path / "e", tmp_path / "kept") | about(animals)
    request["spec"]["own"] = own_of(animals)
    found = ask("distil", **request)
    assert found["images"] == {"real": 105, "inverted": 48}
    assert 0 <= float(found["membership"]["auc"]) <= 1
    network = vit.load(tmp_path / "e", SHAPE, torch.device("cpu"))
    flat = torch.tensor([-0.8, 0.0, 0.7]).view(3, 1, 1, 1).expand(3, 1, 4, 4)
    assert network(flat).argmax(1).tolist() == [0, 1, 2]


def test_a_label_without_images_and_classifier_is_refused(two: list[tuple[Json, Path]], tmp_path: Path) -> None:
    alone = [pair for pair in two if pair[0]["labels"][2][1] == 0]
    answer = dispatch.outcome(
        json.dumps({"id": 1, "op": "distil", **distil_request(alone, tmp_path / "e", None)}).encode(),
        SESSION,
        lambda phase, done, total: None,
    )
    assert (answer["code"], answer["message"]) == ("data", "Label 'fox' has neither own images nor a classifier.")


def test_inverted_images_are_kept_beside_their_classifier_and_serve_again(
    two: list[tuple[Json, Path]], tmp_path: Path
) -> None:
    phases: list[str] = []

    def run(out: str, kept: Path | None) -> bytes:
        request = {"id": 1, "op": "distil", **distil_request(two, tmp_path / out, kept)}
        dispatch.outcome(json.dumps(request).encode(), SESSION, lambda phase, done, total: phases.append(phase))
        return (tmp_path / out).read_bytes()

    first = run("first", tmp_path / "kept")
    assert {"invert 1/2", "invert 2/2", "train"} == set(phases)
    phases.clear()
    assert run("again", tmp_path / "kept") == first
    assert set(phases) == {"train"}
    assert run("anew", None) == first


@pytest.mark.parametrize("death", [("invert 2", 11), ("train", 17)])
def test_an_expert_killed_midway_goes_on_to_the_same_bytes(
    two: list[tuple[Json, Path]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, death: tuple[str, int]
) -> None:
    monkeypatch.setattr(checkpoint.Checkpoint, "due", property(lambda self: True))
    ask("distil", **distil_request(two, tmp_path / "whole", tmp_path / "a"))
    request = distil_request(two, tmp_path / "halved", tmp_path / "b")
    with pytest.raises(Killed):
        ask("distil", die_at=death, **request)
    told: list[tuple[str, int]] = []
    answer = dispatch.outcome(
        json.dumps({"id": 1, "op": "distil", **request}).encode(),
        SESSION,
        lambda phase, done, total: told.append((phase, done)),
    )
    assert answer["event"] == "done"
    assert told[0][0].startswith(death[0])
    assert told[0][1] == death[1] + 1
    assert (tmp_path / "halved").read_bytes() == (tmp_path / "whole").read_bytes()
    assert not list(tmp_path.glob("*.checkpoint*"))


def test_a_classifier_killed_midway_goes_on_to_the_same_bytes(
    animals: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkpoint.Checkpoint, "due", property(lambda self: True))
    ask("classifier", **classifier_request(animals, LABELS, tmp_path / "whole"))
    request = classifier_request(animals, LABELS, tmp_path / "halved")
    with pytest.raises(Killed):
        ask("classifier", die_at=("classifier", 23), **request)
    ask("classifier", **request)
    assert (tmp_path / "halved").read_bytes() == (tmp_path / "whole").read_bytes()


def spoilt(path: Path, how: str) -> dict[str, torch.Tensor]:
    tensors = vit.wire(vit.load(path, SHAPE, torch.device("cpu")))
    name = "blocks.1.attn.qkv.weight"
    tensor = tensors.pop(name)
    changed = {
        "nan": {name: torch.full_like(tensor, float("nan"))},
        "magnitude": {name: torch.full_like(tensor, 60000.0)},
        "shape": {name: tensor[:-1].contiguous()},
        "dtype": {name: tensor.float()},
        "extra": {name: tensor, "blocks.2.norm1.weight": tensor.clone()},
        "missing": {},
    }
    return tensors | changed[how]


@pytest.mark.parametrize("how", ["nan", "magnitude", "shape", "dtype", "extra", "missing"])
def test_hostile_weights_are_refused(two: list[tuple[Json, Path]], tmp_path: Path, how: str) -> None:
    save_file(spoilt(two[0][1], how), tmp_path / "w")
    request = {
        "id": 1,
        "op": "check",
        "kind": "classifier",
        "architecture": ARCHITECTURE,
        "weights": str(tmp_path / "w"),
    }
    answer = dispatch.outcome(json.dumps(request).encode(), SESSION, lambda phase, done, total: None)
    assert answer["code"] == "bad-weights"
