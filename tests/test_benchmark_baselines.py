"""Baselines on cases whose answer is known: averages, the proximal term, and the ensemble of logits."""

from copy import deepcopy

import pytest
import torch
from baselines import Lesson, Local, average, classifier, federated, logit_ensemble, own_steps
from torch import Tensor, nn
from torch.nn import functional

from fednode.architecture import ExpertArchitecture
from fednode.contract import ImageShape
from fednode.learning.session import open_session
from fednode.recipe import ExpertRecipe

FULL_BATCH = Local(epochs=1, batch=1000, rate=0.1)


def linear() -> nn.Module:
    """A network of known start."""
    network = nn.Linear(3, 2)
    with torch.no_grad():
        network.weight.copy_(torch.tensor([[0.5, -1.0, 0.25], [0.0, 0.75, -0.5]]))
        network.bias.zero_()
    return network


def shard(seed: int, count: int) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(count, 3, generator=generator), torch.randint(2, (count,), generator=generator)


def run(shards: list[tuple[Tensor, Tensor]], rounds: int, local: Local) -> nn.Module:
    torch.manual_seed(0)
    return federated(linear, shards, rounds, local, lambda images: images, lambda done, total: None)


def gradient_step(images: Tensor, targets: Tensor, rate: float) -> dict[str, Tensor]:
    """One step on all images from the known start, by torch's own optimiser."""
    network = linear()
    functional.cross_entropy(network(images), targets).backward()
    torch.optim.SGD(network.parameters(), lr=rate).step()
    return network.state_dict()


def assert_same(one: dict[str, Tensor], other: dict[str, Tensor]) -> None:
    for name, tensor in one.items():
        torch.testing.assert_close(tensor, other[name])


@pytest.mark.parametrize("counts", [(8, 8), (4, 12)])
def test_one_full_batch_step_of_fedavg_is_the_step_on_all_images(counts: tuple[int, int]) -> None:
    """By n_k / n weights, the mean of the nodes' gradients is the gradient over all their images."""
    shards = [shard(seed, count) for seed, count in enumerate(counts)]
    images, targets = (torch.cat(parts) for parts in zip(*shards, strict=True))
    assert_same(run(shards, 1, FULL_BATCH).state_dict(), gradient_step(images, targets, 0.1))


def test_rounds_follow_one_cosine_and_many_small_steps_agree_with_a_node_alone() -> None:
    """Equal nodes stay equal, so their average is what one of them would have reached alone."""
    same = shard(3, 12)
    local = Local(epochs=2, batch=1000, rate=0.1)
    expected = linear()
    for step in range(6):
        rate = 0.05 * (1 + torch.cos(torch.tensor(torch.pi * step / 6)).item())
        optimiser = torch.optim.SGD(expected.parameters(), lr=rate)
        optimiser.zero_grad()
        functional.cross_entropy(expected(same[0]), same[1]).backward()
        optimiser.step()
    assert_same(run([same, same, same], 3, local).state_dict(), expected.state_dict())


def test_fedprox_stays_at_the_global_weights_as_mu_grows() -> None:
    shards = [shard(0, 8), shard(1, 8)]
    free = run(shards, 2, Local(epochs=3, batch=4)).state_dict()
    held = run(shards, 2, Local(epochs=3, batch=4, mu=1e9)).state_dict()
    start = linear().state_dict()
    assert (free["weight"] - start["weight"]).abs().max() > 0.01
    assert (held["weight"] - start["weight"]).abs().max() < 1e-6


def test_fedprox_of_one_node_goes_to_the_minimum_of_its_loss_with_the_proximal_term() -> None:
    """At the minimum, grad F(w) = -mu (w - w_t): checked on the weights after many steps."""
    images, targets = shard(5, 16)
    mu = 2.0
    network = run([(images, targets)], 1, Local(epochs=300, batch=1000, rate=0.1, mu=mu))
    weight, start = deepcopy(network), linear()
    functional.cross_entropy(weight(images), targets).backward()
    for one, other in zip(weight.parameters(), start.parameters(), strict=True):
        torch.testing.assert_close(one.grad, -mu * (one.detach() - other.detach()), atol=1e-4, rtol=1e-3)


def test_local_steps_can_be_those_of_adamw_so_many_a_round() -> None:
    """One image makes every random batch the same, so torch's own optimiser must end at the same weights."""
    one = shard(4, 1)
    found = run([one], 1, Local(batch=8, rate=0.1, steps=3, decay=0.5))
    expected = linear()
    optimiser = torch.optim.AdamW(expected.parameters(), weight_decay=0.5)
    for step in range(3):
        optimiser.param_groups[0]["lr"] = 0.05 * (1 + torch.cos(torch.tensor(torch.pi * step / 3)).item())
        optimiser.zero_grad()
        functional.cross_entropy(expected(one[0]), one[1]).backward()
        optimiser.step()
    assert_same(found.state_dict(), expected.state_dict())


def test_averages_weigh_by_images_and_take_in_the_statistics_of_batch_norms() -> None:
    states = []
    for value in (1.0, 5.0):
        norm = nn.BatchNorm1d(2)
        norm.running_mean.fill_(value)
        norm.running_var.fill_(2 * value)
        norm.num_batches_tracked.fill_(7)
        states.append(norm.state_dict())
    found = average(states, [3, 1])
    assert found["running_mean"].tolist() == [2.0, 2.0]
    assert found["running_var"].tolist() == [4.0, 4.0]
    assert found["num_batches_tracked"].item() == 7


def test_a_node_with_one_image_can_train_batch_norms() -> None:
    def make() -> nn.Module:
        return nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2))

    found = federated(make, [shard(0, 1), shard(1, 2)], 1, Local(epochs=1), lambda images: images, lambda *_: None)
    assert all(bool(tensor.isfinite().all()) for tensor in found.state_dict().values())


def test_the_logit_ensemble_of_sure_experts_follows_whoever_is_sure() -> None:
    """Each of three networks is sure of its own label for the image of that label and says nothing about the others."""
    logits = torch.zeros(3, 3, 3)
    for label in range(3):
        logits[label, label, label] = 30.0
    found = logit_ensemble(logits)
    assert found.argmax(1).tolist() == [0, 1, 2]
    torch.testing.assert_close(found.diagonal(), torch.full((3,), torch.e**10 / (torch.e**10 + 2)).double())


def test_an_own_classifier_never_answers_a_label_that_it_has_not_seen() -> None:
    """Of three labels, the node has two: black and white images."""
    image = ImageShape(size=8, channels=1)
    own = {"a": torch.zeros(8, 1, 8, 8, dtype=torch.uint8), "c": torch.full((8, 1, 8, 8), 255, dtype=torch.uint8)}
    architecture = ExpertArchitecture(name="resnet10t", image=image, width=8, outputs=3)
    recipe = ExpertRecipe(steps=12, batch=8)
    session = open_session("cpu", 1)
    network = classifier(Lesson(own, ["a", "b", "c"], architecture, recipe), 0, session, lambda *_: None)
    answers = network(torch.cat([torch.full((2, 1, 8, 8), -1.0), torch.full((2, 1, 8, 8), 1.0)])).argmax(1)
    assert 1 not in answers.tolist()


def test_own_steps_are_the_recipes_passes_over_fewer_images() -> None:
    recipe = ExpertRecipe(steps=1000)
    assert own_steps(recipe, 250, 1000) == 250
    assert own_steps(recipe, 1, 1000) == 12
