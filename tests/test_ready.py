"""Ready classifiers: a checkpoint of a timm ViT becomes what is on the wire, or is refused with what is wrong."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from making import digest
from safetensors.torch import save_file
from test_plan import TWO, count
from world import CONTRACT, LABELS, Node, World

from fednode.architecture import ViTArchitecture
from fednode.contract import ImageShape
from fednode.learning import dispatch, vit
from fednode.learning.ready import spread
from fednode.learning.session import open_session
from fednode.lineage import Pair
from fednode.planned import Finished, Fit, spec_digest
from fednode.vit_recipe import ready_architecture

IMAGE = ImageShape(size=4, channels=1)
SESSION = open_session("cpu", 1)
TINY = "vit_tiny_patch16_224"
NAMED = ["fox", "cat"]


@pytest.fixture(scope="module")
def checkpoint() -> dict[str, torch.Tensor]:
    """timm's own tensors of a ViT with two outputs, as someone would save them."""
    torch.manual_seed(0)
    return vit.build(ready_architecture(TINY, IMAGE, 2)).state_dict()


def ask(file: Path, out: Path, **changes: Any) -> dict[str, Any]:
    request = {
        "id": 1,
        "op": "import-classifier",
        "image": IMAGE.model_dump(mode="json"),
        "labels": ["cat", "dog", "fox"],
    }
    told = {**request, "model": TINY, "named": NAMED, "file": str(file), "out": str(out), **changes}
    return dispatch.outcome(json.dumps(told).encode(), SESSION, lambda phase, done, total: None)


def test_an_architecture_has_the_sizes_of_its_name_and_our_patches() -> None:
    found = ready_architecture("deit_small_patch16_224", ImageShape(size=224, channels=3), 7)
    assert (found.patch, found.width, found.depth, found.heads, found.outputs) == (16, 384, 12, 6, 7)
    assert ready_architecture(TINY, ImageShape(size=32, channels=3), 2).patch == 4


def test_rows_go_to_their_labels_and_the_others_are_zero() -> None:
    rows = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
    assert spread(rows, ["fox", "cat"], ["cat", "dog", "fox"]).tolist() == [[3, 4], [0, 0], [1, 2]]


def test_a_checkpoint_answers_as_before_for_its_labels(checkpoint: dict[str, torch.Tensor], tmp_path: Path) -> None:
    save_file(checkpoint, tmp_path / "file", metadata={"format": "pt"})
    done = ask(tmp_path / "file", tmp_path / "out")
    assert done["event"] == "done", done
    shape = ViTArchitecture.model_validate_json(json.dumps(done["result"]["architecture"]))
    assert (shape.name, shape.outputs, shape.patch) == (TINY, 3, 2)
    network = vit.load(tmp_path / "out", shape, torch.device("cpu"))
    theirs = vit.build(ready_architecture(TINY, IMAGE, 2)).eval()
    theirs.load_state_dict(checkpoint)
    images = torch.linspace(-1, 1, 32).view(2, 1, 4, 4)
    torch.testing.assert_close(network(images)[:, [2, 0]], theirs(images), atol=2e-2, rtol=0)
    assert network(images)[:, 1].tolist() == [0, 0]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"extra": torch.zeros(1)}, "'extra' is unexpected"),
        ({"head.bias": torch.zeros(3)}, "The shape of 'head.bias'"),
        ({"head.bias": torch.tensor([0.0, float("nan")])}, "NaN or infinity"),
        ({"head.bias": torch.zeros(2, dtype=torch.float16)}, "The numbers are F16, F32"),
    ],
    ids=["names", "shapes", "values", "dtypes"],
)
def test_a_file_that_is_not_this_network_is_refused(
    change: dict[str, torch.Tensor], message: str, checkpoint: dict[str, torch.Tensor], tmp_path: Path
) -> None:
    save_file({**checkpoint, **change}, tmp_path / "file")
    failed = ask(tmp_path / "file", tmp_path / "out")
    assert failed["code"] == "bad-weights"
    assert message in failed["message"]
    assert not (tmp_path / "out").exists()


def test_what_is_no_file_or_no_safetensors_is_said(tmp_path: Path) -> None:
    assert ask(tmp_path / "none", tmp_path / "out")["code"] == "data"
    (tmp_path / "file").write_bytes(b"PK\x03\x04 a pickle")
    assert ask(tmp_path / "file", tmp_path / "out")["code"] == "bad-weights"


def hand_in(node: Node, *seen: str) -> None:
    """What `import-classifier` leaves behind."""
    shape = ready_architecture(TINY, CONTRACT.image, len(LABELS)).model_dump(mode="json")
    weights = digest(f"ready {seen}")
    spec = {
        "job": "import",
        "recipe": {},
        "architecture": shape,
        "labels": list(LABELS),
        "seen": list(seen),
        "weights": weights,
    }
    node.ready = spec
    node.files.add(Pair(node.me, weights))
    node.finished[spec_digest(spec)] = Finished(weights)


def test_a_ready_classifier_takes_the_place_of_the_own_one_and_its_manifest_has_no_audit() -> None:
    world = World.of(TWO, exchange="classifiers").settle()
    node, other = world.nodes
    old = {pair for pair in other.stock().classifiers if pair.issuer == node.me}
    hand_in(node, "cat", "dog")
    world.settle()
    (told,) = [one for pair, one in other.stock().classifiers.items() if pair.issuer == node.me]
    assert (told.audit, told.seen()) == (None, ("cat", "dog"))
    assert not old & other.files
    assert count(node, Fit) == 1
    assert other.stock().covered(LABELS) == ("bee", "cat", "dog")
    assert len(node.product()) == 2
    assert all(one.plan().idle for one in world.nodes)


def test_a_label_that_is_withdrawn_takes_back_a_ready_classifier_that_knows_it() -> None:
    world = World.of([(1, {}), TWO[1]], exchange="classifiers")
    node, other = world.nodes
    hand_in(node, "cat", "dog")
    world.settle()
    assert {pair.issuer for pair in other.stock().classifiers} == {node.me, other.me}
    node.withdrawn = frozenset({"dog"})
    world.settle()
    assert {pair.issuer for pair in other.stock().classifiers} == {other.me}
    assert not {pair for pair in node.files if pair.issuer == node.me and pair.digest == node.ready["weights"]}


def test_a_ready_classifier_whose_file_is_lost_is_not_announced() -> None:
    world = World.of([(1, {}), TWO[1]], exchange="classifiers")
    node = world.nodes[0]
    hand_in(node, "cat", "dog")
    node.files.clear()
    world.settle()
    assert node.catalogues[node.me].classifies == ()
    assert world.nodes[1].plan().idle
