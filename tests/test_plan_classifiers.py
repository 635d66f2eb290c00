"""plan() where nodes exchange classifiers, both kinds, or what the labels speak for: the rules are those of generators."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from making import identity
from test_plan import THREE, TWO, count, federations, seeds, summary, tainted, wants_an_expert
from world import CONTRACT, LABELS, Node, World

from fednode.config import Exchange
from fednode.contract import ImageShape
from fednode.inventory import GENERATORS, Missing
from fednode.lineage import Pair
from fednode.manifest import Manifest
from fednode.modes import CLASSIFIERS
from fednode.planned import AuditJob, Expert, Fit, Publish, Scan, Score, Sign, SignEvaluation, spec_digest
from fednode.scoring import cells_of
from fednode.specs import expert_spec, input_digests, own_digests, seen_labels

quick = settings(max_examples=5, deadline=None)

kinds = st.sampled_from(["classifiers", "both", "auto"])
MANY = [(1, {"ant": "a", "bee": "b", "cat": "c"}), (2, {"bee": "bb", "cat": "cc", "dog": "dd"})]
FEW = [(1, {"ant": "a"}), (2, {"bee": "b"}), (3, {"cat": "c"})]


def experts_of(node: Node) -> list[Expert]:
    return [job for job in node.log if isinstance(job, Expert)]


def test_a_classifier_is_fitted_audited_signed_and_listed_and_then_an_expert_is_distilled() -> None:
    (node,) = World.of([(1, {"ant": "ants", "bee": "bees"})], exchange="classifiers").settle().nodes
    made_by = [Scan, Publish, Fit, AuditJob, Sign, Publish, Expert, Sign, Publish]
    assert [type(job) for job in node.log] == [*made_by, Score, SignEvaluation]
    (made,) = node.stock().classifiers.values()
    assert [(one.label, one.images) for one in made.labels] == [("ant", 40), ("bee", 40), ("cat", 0), ("dog", 0)]
    assert (made.architecture.family, made.lineage) == ("vit", ())
    assert made.audit is not None
    (expert,) = experts_of(node)
    assert expert.spec["job"] == "distil"
    assert expert.spec["labels"] == ["ant", "bee"]
    assert expert.spec["architecture"]["outputs"] == 2
    assert [one["labels"] for one in expert.spec["inputs"]] == [[["ant", 40], ["bee", 40], ["cat", 0], ["dog", 0]]]
    assert "generators" not in expert.spec
    said = node.catalogues[node.me]
    assert (said.publishes, said.classifies, said.holds, said.undecided) == ((), ("ant", "bee"), (), False)


@pytest.mark.parametrize("exchange", ["generators", "classifiers"])
@pytest.mark.parametrize(
    "claim",
    [
        lambda made: {"labels": tuple(one.model_copy(update={"images": one.images + 1}) for one in made.labels)},
        lambda made: {"architecture": made.architecture.model_copy(update={"image": ImageShape(size=9, channels=1)})},
        lambda made: {},
    ],
    ids=["counts", "architecture", "nothing"],
)
def test_weights_that_a_peer_lists_too_lead_to_one_spec_whatever_it_says_of_them(
    exchange: Exchange, claim: Callable[[Manifest], dict[str, Any]]
) -> None:
    """Two live artifacts have one digest, and differ in their issuers and in what these say."""
    node = World.of(MANY, exchange=exchange).settle().nodes[0]
    stock = node.stock()
    live = stock.generators if exchange == "generators" else stock.classifiers
    pair, made = next(iter(live.items()))
    twin = {Pair(identity(7).peer_id, pair.digest): made.model_copy(update=claim(made))}
    specs = []
    for both in ({**live, **twin}, {**twin, **live}):
        given_both = {"generators": both} if exchange == "generators" else {"classifiers": both}
        spec = expert_spec(node.state(), replace(stock, **given_both))
        assert spec is not None
        assert len(spec["inputs"]) == len(live) + 1
        specs.append(spec_digest(spec))
    assert specs[0] == specs[1]


@quick
@given(federations(), seeds, seeds, kinds)
def test_the_order_of_arrival_does_not_matter(
    federation: list[tuple[int, dict[str, str]]], one: int, two: int, exchange: Exchange
) -> None:
    worlds = [World.of(federation, seed, exchange) for seed in (one, two)]
    for world in worlds:
        world.wander(60)
        world.settle()
    assert summary(worlds[0]) == summary(worlds[1])
    assert all(node.plan().idle and not node.plan().missing for node in worlds[0].nodes)


@quick
@given(federations(), seeds, kinds)
def test_every_node_ends_with_the_experts_of_all_in_its_product(
    federation: list[tuple[int, dict[str, str]]], seed: int, exchange: Exchange
) -> None:
    world = World.of(federation, seed, exchange).settle()
    covered = {label for _, held in federation for label in held}
    experts = {weight for node in world.nodes for weight in node.expert()}
    for node in world.nodes:
        assert len(node.expert()) == (1 if len(covered) >= 2 else 0)
        assert node.product() == experts


@quick
@given(federations(smallest=3), seeds, st.integers(0, 200), st.booleans(), kinds)
def test_a_peer_that_leaves_leaves_what_would_be_there_without_it(
    federation: list[tuple[int, dict[str, str]]], seed: int, moment: int, settled: bool, exchange: Exchange
) -> None:
    world = World.of(federation, seed, exchange)
    world.wander(moment)
    if settled:
        world.settle()
    gone = world.nodes[0]
    own = {made.pair for made in gone.manifests.values() if made.issuer == gone.me and made.kind != "expert"}
    kept = own & gone.files if settled else set()
    gone.hear_revocation(gone.me)
    world.settle()
    never = World.of(federation[1:], seed, exchange).settle()
    assert {key: value for key, value in summary(world).items() if key != gone.me} == summary(never)
    for node, other in zip(world.nodes[1:], never.nodes, strict=True):
        assert node.files == other.files
        assert not node.unconfirmed
        assert not node.unreported
    assert {pair for pair in gone.files if pair.issuer != gone.me or tainted(gone, pair)} == set()
    assert kept <= gone.files


@quick
@given(federations(), seeds, st.sampled_from(LABELS), st.booleans(), kinds)
def test_a_withdrawn_or_changed_label_leaves_what_would_be_there_without_the_old_one(
    federation: list[tuple[int, dict[str, str]]], seed: int, label: str, withdraw: bool, exchange: Exchange
) -> None:
    world = World.of(federation, seed, exchange).settle()
    node = world.nodes[0]
    changed = dict(federation[0][1])
    if withdraw:
        node.withdrawn = frozenset({label})
        changed.pop(label, None)
    else:
        changed[label] = "images without one patient"
        node.images, node.scan = changed, None
    world.settle()
    never = World.of([(federation[0][0], changed), *federation[1:]], seed, exchange).settle()
    assert summary(world) == summary(never)
    assert [one.files for one in world.nodes] == [one.files for one in never.nodes]


@quick
@given(federations(), seeds, kinds)
def test_a_crash_anywhere_changes_nothing_in_the_end(
    federation: list[tuple[int, dict[str, str]]], seed: int, exchange: Exchange
) -> None:
    reference = summary(World.of(federation, seed, exchange).settle())
    world = World.of(federation, seed, exchange)
    for _ in range(20):
        world.wander(3)
        node = world.chance.choice(world.nodes)
        if node.finished and world.chance.random() < 0.5:
            del node.finished[world.chance.choice(sorted(node.finished))]
        else:
            node.scan = None
    world.settle()
    assert summary(world) == reference


def test_a_classifier_that_saw_a_withdrawn_label_is_taken_back_before_the_own_images_are_known() -> None:
    world = World.of(TWO, exchange="classifiers").settle()
    node, other = world.nodes
    node.scan, node.withdrawn = None, frozenset({"ant"})
    (publish, scan) = node.plan().jobs
    assert isinstance(publish, Publish)
    assert isinstance(scan, Scan)
    assert (publish.manifests, publish.announced.classifies) == ((), ("bee",))
    node.run(publish)
    assert {pair for pair in node.files if pair.issuer == node.me} <= set(node.plan().erase)
    world.settle()
    assert other.stock().covered(LABELS) == ("bee", "cat")


def test_a_failed_audit_takes_the_classifier_out_of_what_is_announced_and_nobody_waits_for_it() -> None:
    world = World.of(THREE, exchange="classifiers")
    world.nodes[0].failing = frozenset({None})
    world.settle()
    assert world.nodes[0].catalogues[world.nodes[0].me].classifies == ()
    for node in world.nodes:
        assert node.plan().idle
        assert node.stock().covered(LABELS) == ("bee", "cat", "dog")
        assert len(node.product()) == 3


def test_the_expert_waits_for_every_announced_classifier() -> None:
    first, second, third = World.of(THREE, exchange="classifiers").nodes
    for node in (first, second):
        while node.step([]):
            pass
    first.hear(second)
    while first.step([second]):
        pass
    assert first.plan().missing == (Missing(third.me, None),)
    for _ in range(2):
        third.step([])
    first.hear(third)
    assert first.plan().missing == (Missing(third.me, None, classifier=True),)
    assert not wants_an_expert(first)
    first.waited = True
    assert wants_an_expert(first)


def test_with_both_one_expert_comes_from_all_generators_and_all_classifiers_and_names_them() -> None:
    world = World.of(TWO, exchange="both").settle()
    for node in world.nodes:
        (expert,) = experts_of(node)
        assert (expert.spec["job"], len(expert.spec["inputs"]), len(expert.spec["generators"])) == ("distil", 2, 4)
        assert set(expert.inputs) == node.stock().live
        (made,) = [manifest for pair, manifest in node.stock().experts.items() if pair.issuer == node.me]
        assert set(made.lineage) == node.stock().live
        assert count(node, Score) == 1
        assert len(node.product()) == 2


def test_experts_and_the_ensemble_of_classifiers_are_scored() -> None:
    for node in World.of(TWO, exchange="classifiers").settle().nodes:
        (score,) = [job for job in node.log if isinstance(job, Score)]
        assert score.spec["generators"] == []
        assert score.spec["classifiers"] == sorted(pair.digest for pair in node.stock().classifiers)
        assert set(score.lineage) == node.stock().live | node.stock().experts.keys()
        assert [label for label, _ in score.spec["own"]] == sorted(node.images)
        assert cells_of(node.stock(), node.stock().covered(LABELS)) == ("experts", "ensemble")


def test_generators_take_part_in_the_score_only_if_they_draw_every_covered_label() -> None:
    world = World.of(TWO, exchange="both")
    world.nodes[1].failing = frozenset({"cat"})
    for node in world.settle().nodes:
        assert node.stock().covered(LABELS) == ("ant", "bee", "cat")
        assert cells_of(node.stock(), ("ant", "bee", "cat")) == ("experts", "ensemble")
        assert len(cells_of(node.stock(), ("ant", "bee"))) == 6
        assert count(node, Score) == 1


def test_nothing_is_scored_where_experts_alone_can_answer_for_all_labels() -> None:
    world = World.of(TWO, exchange="both")
    first, second = world.nodes
    first.failing, second.failing = frozenset({None}), frozenset({"cat"})
    for node in world.settle().nodes:
        assert node.stock().covered(LABELS) == ("ant", "bee", "cat")
        assert count(node, Score) == 0
        assert node.plan().idle


def test_nodes_that_choose_differently_use_what_they_have_in_common() -> None:
    world = World.of(THREE)
    first, second, third = world.nodes
    first.exchange, second.exchange = "classifiers", "both"
    world.settle()
    assert set(first.stock().classifiers.values()) == set(second.stock().classifiers.values())
    assert first.stock().generators == {}
    assert third.stock().classifiers == {}
    assert {pair.issuer for pair in third.stock().generators} == {second.me, third.me}
    assert {pair.issuer for pair in first.files} == {first.me, second.me}
    assert len(first.product()) == len(third.product()) == 1
    assert all(node.plan().idle for node in world.nodes)
    reasons = [first.stock().stale, second.stock().stale, third.stock().stale]
    assert [sorted(reason.partition(":")[0] for reason in stale.values()) for stale in reasons] == [
        ["stale", "stale"],
        ["narrow", "narrow"],
        ["stale", "stale"],
    ]


@pytest.mark.parametrize(("federation", "taken"), [(MANY, CLASSIFIERS), (FEW, GENERATORS)])
def test_auto_takes_what_the_labels_speak_for_at_every_node(
    federation: list[tuple[int, dict[str, str]]], taken: frozenset[str]
) -> None:
    world = World.of(federation, exchange="auto")
    first = world.nodes[0]
    while first.step([]):
        pass
    said = first.catalogues[first.me]
    assert (said.holds, said.undecided, said.publishes) == (tuple(sorted(federation[0][1])), True, ())
    assert first.plan().missing == tuple(Missing(node.me, None) for node in sorted(world.nodes[1:], key=lambda n: n.me))
    world.settle()
    for node in world.nodes:
        assert node.kinds == taken
        assert not node.catalogues[node.me].undecided
        assert len(experts_of(node)) == 1


def test_auto_does_not_turn_round_when_an_audit_fails() -> None:
    world = World.of(MANY, exchange="auto")
    world.nodes[0].failing = frozenset({None})
    world.settle()
    assert {node.kinds for node in world.nodes} == {CLASSIFIERS}
    assert world.nodes[0].catalogues[world.nodes[0].me].holds == ("ant", "bee", "cat")
    assert world.nodes[1].stock().covered(LABELS) == ("bee", "cat", "dog")


def test_a_leave_can_change_what_auto_takes_and_leaves_no_trace_then_either() -> None:
    world = World.of(
        [(1, {"ant": "a", "bee": "b"}), (2, {"cat": "c"}), (4, dict.fromkeys(LABELS, "all"))], exchange="auto"
    )
    world.settle()
    assert {node.kinds for node in world.nodes} == {CLASSIFIERS}
    gone = world.nodes[2]
    gone.hear_revocation(gone.me)
    world.settle()
    assert {node.kinds for node in world.nodes[:2]} == {GENERATORS}
    never = World.of([(1, {"ant": "a", "bee": "b"}), (2, {"cat": "c"})], exchange="auto").settle()
    assert [node.files for node in world.nodes[:2]] == [node.files for node in never.nodes]


def test_a_label_that_no_classifier_has_seen_is_not_covered() -> None:
    node = World.of(TWO, exchange="classifiers").settle().nodes[0]
    assert node.stock().covered(CONTRACT.labels) == ("ant", "bee", "cat")
    assert node.me == identity(1).peer_id


def test_a_job_tells_what_it_sees_and_uses() -> None:
    node = World.of(TWO, exchange="both").settle().nodes[0]
    (expert,) = experts_of(node)
    assert input_digests(expert.spec) == {pair.digest for pair in node.stock().live}
    assert seen_labels(expert.spec) == {"ant", "bee"}
    fits = {job.label: job.spec for job in node.log if isinstance(job, Fit)}
    assert (seen_labels(fits["ant"]), seen_labels(fits[None])) == ({"ant"}, {"ant", "bee"})
    assert own_digests(fits[None]) == own_digests(fits["ant"]) | own_digests(fits["bee"])
    (score,) = [job.spec for job in node.log if isinstance(job, Score)]
    assert input_digests(score) == input_digests(fits[None]) == set()
