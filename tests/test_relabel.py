"""Relabelling and distilling: who votes with what weight, losses of known values, and what an expert is taught."""

import math
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from fednode.architecture import ViTArchitecture
from fednode.contract import ImageShape
from fednode.errors import DataError
from fednode.learning import vit
from fednode.learning.distil import Lesson, beginning, distil, prepare
from fednode.learning.inversion import Inverted
from fednode.learning.inverted import Classifier
from fednode.learning.relabel import divergence, ensemble, relabelled_loss, voting, whole_loss
from fednode.learning.vitfit import Aids
from fednode.vit_recipe import DistilRecipe

torch.set_num_threads(1)
CPU = torch.device("cpu")
AIDS = Aids(lambda done, total: None, CPU)
SHAPE = ViTArchitecture(
    name="vit_tiny_patch16_224", image=ImageShape(size=4, channels=1), patch=2, width=8, depth=1, heads=1, outputs=3
)
COUNTS = torch.tensor([[30, 10, 0], [0, 20, 0]])


@pytest.mark.parametrize(
    ("weights", "voters", "expected"),
    [
        ("uniform", "all", [[1, 1, 1], [1, 1, 1]]),
        ("uniform", "seen", [[1, 1, 1], [0, 1, 1]]),
        ("counts", "all", [[40, 40, 40], [20, 20, 20]]),
        ("counts", "seen", [[40, 40, 1], [0, 20, 1]]),
        ("labels", "seen", [[30, 10, 1], [0, 20, 1]]),
    ],
)
def test_weights_by_recipe_and_alike_where_nobody_has_seen_a_label(
    weights: str, voters: str, expected: list[list[int]]
) -> None:
    recipe = DistilRecipe.model_validate({"weights": weights, "voters": voters})
    assert voting(COUNTS, recipe).tolist() == expected


def test_the_ensemble_is_the_weighted_mean_label_by_label() -> None:
    logits = torch.tensor([[[1.0, 2.0, 3.0]], [[5.0, 8.0, 7.0]]])
    weights = torch.tensor([[1.0, 2.0, 1.0], [0.0, 1.0, 1.0]])
    assert ensemble(logits, weights).tolist() == [[1.0, 4.0, 5.0]]


def test_the_divergence_is_that_of_softened_answers_times_the_temperature_squared() -> None:
    """At T 2 the wanted odds of ln 9 are 3 to 1, and those said are 1 to 1: KL = ln 2 - H(1/4)."""
    wanted, said = torch.tensor([[math.log(9), 0.0]]), torch.zeros(1, 2)
    entropy = -(0.75 * math.log(0.75) + 0.25 * math.log(0.25))
    assert float(divergence(said, wanted, 2.0)) == pytest.approx(4 * (math.log(2) - entropy), rel=1e-5)
    assert float(divergence(wanted, wanted, 2.0)) == pytest.approx(0, abs=1e-6)


def known(monkeypatch: pytest.MonkeyPatch) -> None:
    """A network that answers (patches seen, 0, 0), and at each patch (its place, 0, 0), CLS at place 0."""

    def answers(network: Any, x: Tensor, kept: Tensor) -> Tensor:
        return torch.tensor([[float(kept.shape[1]), 0.0, 0.0]]).expand(len(x), 3)

    def token_answers(network: Any, x: Tensor) -> Tensor:
        found = torch.zeros(len(x), 5, 3)
        found[:, :, 0] = torch.arange(5.0)
        return found

    monkeypatch.setattr(vit, "answers", answers)
    monkeypatch.setattr(vit, "token_answers", token_answers)


def cross_entropy(logit: float) -> float:
    """Of the first of three labels, the others' logits being 0."""
    return math.log(math.exp(logit) + 2) - logit


@pytest.mark.parametrize("reading", ["none", "subset", "dense"])
def test_the_loss_is_that_of_its_reading(monkeypatch: pytest.MonkeyPatch, reading: str) -> None:
    known(monkeypatch)
    recipe = DistilRecipe.model_validate(
        {"relabel": reading, "strength_milli": 500, "temperature_milli": 2_000, "token_milli": 250}
    )
    x, patches = torch.zeros(2, 1, 4, 4), (torch.tensor([[0], [0]]), torch.tensor([[1, 2, 3]] * 2))
    targets, soft = torch.tensor([0, 0]), torch.tensor([[1.0, 0.0, 0.0]] * 2)
    found = relabelled_loss(nn.Identity(), x, patches, targets, soft, recipe)

    def kl(logit: float) -> float:
        return float(divergence(torch.tensor([[logit, 0.0, 0.0]]), soft[:1], 2.0))

    dense = cross_entropy(0) + 0.25 * (cross_entropy(1) + 0.5 * (kl(2) + kl(3) + kl(4)) / 3)
    expected = {"none": cross_entropy(1), "subset": cross_entropy(1) + 0.5 * kl(3), "dense": dense}[reading]
    assert found.tolist() == pytest.approx([expected] * 2, rel=1e-5)


@pytest.mark.parametrize("taught", [True, False])
def test_whole_images_teach_their_label_and_if_asked_what_the_classifiers_make_of_them(
    monkeypatch: pytest.MonkeyPatch, taught: bool
) -> None:
    monkeypatch.setattr(vit, "answers", lambda network, x: torch.tensor([[4.0, 0.0, 0.0]]))
    soft = torch.tensor([[1.0, 0.0, 0.0]])
    recipe = DistilRecipe(teach_whole=taught, strength_milli=500, temperature_milli=2_000)
    found = whole_loss(nn.Identity(), torch.zeros(1, 1, 4, 4), torch.tensor([0]), soft, recipe)
    kl = float(divergence(torch.tensor([[4.0, 0.0, 0.0]]), soft, 2.0))
    assert float(found) == pytest.approx(cross_entropy(4) + (0.5 * kl if taught else 0), rel=1e-5)


def test_an_expert_starts_as_the_classifier_of_most_images_with_the_head_of_its_labels() -> None:
    given = lesson()
    found = beginning(given, TWO)
    chosen = given.classifiers[1].network.state_dict()  # 12 images, the other has 9
    assert torch.equal(found["head.weight"], chosen["head.weight"][[0, 2]])
    assert torch.equal(found["blocks.0.attn.qkv.weight"], chosen["blocks.0.attn.qkv.weight"])
    assert beginning(lesson(start="fresh"), TWO) == {}
    assert beginning(given, TWO.model_copy(update={"depth": 2})) == {}


@pytest.mark.parametrize("reading", ["subset", "dense"])
def test_images_of_which_nothing_stopped_teach_their_label_alone(reading: str) -> None:
    torch.manual_seed(0)
    network = vit.build(SHAPE).eval()
    x = torch.randn(2, 1, 4, 4)
    everything, nothing = torch.arange(4).expand(2, -1), torch.empty(2, 0, dtype=torch.int64)
    recipe = DistilRecipe.model_validate({"relabel": reading, "token_milli": 0})
    found = relabelled_loss(network, x, (everything, nothing), torch.tensor([0, 2]), torch.zeros(2, 3), recipe)
    wanted = torch.nn.functional.cross_entropy(network(x), torch.tensor([0, 2]), reduction="none")
    assert torch.allclose(found, wanted)


def classifier(digest: str, counts: dict[str, int], seed: int) -> Classifier:
    torch.manual_seed(seed)
    return Classifier(digest, vit.build(SHAPE).eval().requires_grad_(False), SHAPE, counts)


def images(targets: list[int], value: int) -> Inverted:
    shape = (len(targets), 1, 4, 4)
    return Inverted(
        torch.full(shape, value, dtype=torch.uint8), torch.tensor([[0, 2]] * len(targets)), torch.tensor(targets)
    )


def lesson(**changes: Any) -> Lesson:
    """Two classifiers with outputs ant, bee, cat, of which ant and cat are covered; cats are own images as well."""
    ones = [
        classifier("aa", {"ant": 9, "bee": 0, "cat": 0}, 0),
        classifier("bb", {"ant": 5, "bee": 1, "cat": 6}, 1),
    ]
    own = {"cat": torch.full((4, 1, 4, 4), 200, dtype=torch.uint8)}
    return Lesson(["ant", "cat"], [own], ones, DistilRecipe(steps=3, batch=8, **changes))


TWO = SHAPE.model_copy(update={"outputs": 2})
FOUND = [images([0, 0, 0], 10), images([0, 1, 2, 2], 20)]


def test_every_covered_label_weighs_alike_and_its_inverted_and_own_images_share_it() -> None:
    material = prepare(lesson(), FOUND, TWO, CPU)
    assert material.targets.tolist() == [0, 0, 0, 0, 1, 1, 1, 1, 1, 1]  # the bee is not covered
    assert material.images[:, 0, 0, 0].tolist() == [10] * 3 + [20] * 3 + [200] * 4
    assert material.weights.tolist() == pytest.approx([1 / 8] * 4 + [1 / 8] * 2 + [1 / 16] * 4)
    assert (material.own.tolist(), material.rest.tolist()) == ([[0, 2]] * 6, [[1, 3]] * 6)


def test_soft_labels_are_the_answers_at_the_other_patches_of_those_that_have_seen_the_label() -> None:
    given = lesson(weights="uniform")
    soft, own = prepare(given, FOUND, TWO, CPU).soft.split([6, 4])
    x = torch.cat([FOUND[0].images, FOUND[1].images[[0, 2, 3]]]).float() / 127.5 - 1
    first, second = (vit.answers(one.network, x, torch.tensor([[1, 3]] * 6)) for one in given.classifiers)
    assert torch.allclose(soft[:, 0], (first[:, 0] + second[:, 0]) / 2, atol=1e-6)
    assert torch.allclose(soft[:, 1], second[:, 2], atol=1e-6)
    cats = given.whole[0]["cat"].float() / 127.5 - 1
    assert torch.allclose(own[:, 1], vit.answers(given.classifiers[1].network, cats)[:, 2], atol=1e-6)


def test_a_covered_label_without_images_and_a_classifier_of_other_patches_are_refused() -> None:
    with pytest.raises(DataError, match="'cat'"):
        prepare(Lesson(["ant", "cat"], [], lesson().classifiers[:1], DistilRecipe()), FOUND[:1], TWO, CPU)
    with pytest.raises(DataError, match="patches of 2 px, the expert of 1 px"):
        prepare(lesson(), FOUND, TWO.model_copy(update={"patch": 1}), CPU)


def test_own_images_alone_teach_an_expert_and_classifiers_alone_do() -> None:
    own = {label: torch.full((4, 1, 4, 4), value, dtype=torch.uint8) for label, value in (("ant", 0), ("cat", 255))}
    recipe = DistilRecipe(steps=60, batch=8, lr_micro=20_000)
    tensors = distil(Lesson(["ant", "cat"], [own], [], recipe), [], TWO, 1, AIDS)
    network = vit.placed(tensors, TWO, CPU)
    assert network(torch.tensor([-1.0, 1.0]).view(2, 1, 1, 1).expand(2, 1, 4, 4)).argmax(1).tolist() == [0, 1]
    assert distil(Lesson(["ant", "cat"], [], lesson().classifiers, recipe), FOUND, TWO, 1, AIDS)


@pytest.mark.parametrize("optimiser", ["sgd", "adamw"])
def test_equal_seeds_give_equal_bytes_and_the_global_random_state_stays(optimiser: str) -> None:
    given = lesson(optimiser=optimiser)
    torch.manual_seed(5)
    state = torch.get_rng_state()
    first, again, other = (distil(given, FOUND, TWO, seed, AIDS) for seed in (1, 1, 2))
    assert torch.equal(torch.get_rng_state(), state)
    assert all(torch.equal(first[name], again[name]) for name in first)
    assert any(not torch.equal(first[name], other[name]) for name in first)
