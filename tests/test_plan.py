"""plan(): what should exist, in whatever order things came, and as if what is gone had never been."""

from dataclasses import replace
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from making import digest, expert, generator, identity
from world import CONTRACT, LABELS, RECIPES, Node, World, weights_of

from fednode.inventory import Held, Missing, Word
from fednode.lineage import Pair
from fednode.plan import plan
from fednode.planned import (
    AuditJob,
    Check,
    Expert,
    Finished,
    Fit,
    Own,
    OwnLabel,
    Plan,
    Publish,
    Scan,
    Score,
    Sign,
    SignEvaluation,
    State,
    spec_digest,
)
from fednode.recipe import PrivacyRecipe
from fednode.specs import fit_spec

quick = settings(max_examples=10, deadline=None)

images = st.dictionaries(st.sampled_from(LABELS), st.sampled_from(["these images", "other images"]), max_size=3)
seeds = st.integers(0, 2**32)


@st.composite
def federations(draw: st.DrawFn, smallest: int = 2) -> list[tuple[int, dict[str, str]]]:
    """Two to four nodes, each with its number (which decides its key) and its images."""
    numbers = draw(st.lists(st.integers(1, 20), min_size=smallest, max_size=4, unique=True))
    return [(number, draw(images)) for number in numbers]


def summary(world: World) -> dict[str, tuple[object, ...]]:
    """What each node has in the end: live generators, its expert, and its product, all by weight digest alone."""
    return {
        node.me: (sorted(pair.digest for pair in node.stock().generators), node.expert(), node.product())
        for node in world.nodes
    }


def count(node: Node, kind: type) -> int:
    return sum(isinstance(job, kind) for job in node.log)


def named(todo: Plan) -> set[Pair]:
    """Everything that a plan would fetch, use, check or list by its weights."""
    used = {pair for job in todo.jobs if isinstance(job, Expert) for pair in job.inputs}
    checked = {job.pair for job in todo.jobs if isinstance(job, Check)}
    signed = {pair for job in todo.jobs if isinstance(job, Sign) for pair in job.lineage}
    return used | checked | signed | set(todo.fetch)


@quick
@given(federations(), seeds, seeds)
def test_the_order_of_arrival_does_not_matter(federation: list[tuple[int, dict[str, str]]], one: int, two: int) -> None:
    worlds = [World.of(federation, seed) for seed in (one, two)]
    for world in worlds:
        world.wander(60)
        world.settle()
    assert summary(worlds[0]) == summary(worlds[1])


@quick
@given(federations(), seeds)
def test_the_plan_of_a_finished_state_is_empty(federation: list[tuple[int, dict[str, str]]], seed: int) -> None:
    world = World.of(federation, seed)
    world.wander(30)
    world.settle()
    assert all(node.plan().idle and not node.plan().missing for node in world.nodes)


@quick
@given(federations(), seeds)
def test_every_covered_node_ends_with_the_experts_of_all_in_its_product(
    federation: list[tuple[int, dict[str, str]]], seed: int
) -> None:
    world = World.of(federation, seed).settle()
    covered = {label for _, held in federation for label in held}
    experts = {weight for node in world.nodes for weight in node.expert()}
    for node in world.nodes:
        assert len(node.expert()) == (1 if len(covered) >= 2 else 0)
        assert node.product() == experts


@quick
@given(federations(), seeds, st.integers(0, 60))
def test_nothing_void_is_in_any_plan(federation: list[tuple[int, dict[str, str]]], seed: int, moment: int) -> None:
    world = World.of(federation, seed)
    world.wander(moment)
    gone = world.nodes[0]
    gone.hear_revocation(gone.me)
    world.nodes[-1].withdrawn = frozenset(LABELS[:2])
    for _ in range(80):
        world.wander(1)
        for node in world.nodes:
            todo, offered = node.plan(), node.word().offers().keys()
            assert named(todo) <= offered
            assert node.left or not set(todo.erase) & {pair for pair in offered if pair.issuer != node.me}


@quick
@given(federations(smallest=3), seeds, st.integers(0, 200), st.booleans())
def test_a_peer_that_leaves_leaves_what_would_be_there_without_it(
    federation: list[tuple[int, dict[str, str]]], seed: int, moment: int, settled: bool
) -> None:
    world = World.of(federation, seed)
    world.wander(moment)
    if settled:
        world.settle()
    gone = world.nodes[0]
    gone.hear_revocation(gone.me)
    world.settle()
    never = World.of(federation[1:], seed).settle()
    assert {key: value for key, value in summary(world).items() if key != gone.me} == summary(never)
    for node, other in zip(world.nodes[1:], never.nodes, strict=True):
        assert node.files == other.files
        assert not node.unconfirmed
        assert not node.unreported


@quick
@given(federations(), seeds, st.integers(0, 200))
def test_who_leaves_keeps_its_own_generators_and_nothing_of_others(
    federation: list[tuple[int, dict[str, str]]], seed: int, moment: int
) -> None:
    world = World.of(federation, seed)
    world.wander(moment)
    gone = world.nodes[0]
    before = {pair for pair in gone.files if pair.issuer == gone.me and not tainted(gone, pair)}
    gone.hear_revocation(gone.me)
    world.settle()
    assert {pair for pair in gone.files if pair.issuer != gone.me or tainted(gone, pair)} == set()
    assert {pair for pair in before if pair in generators(gone)} <= gone.files
    assert not gone.plan().jobs
    assert not gone.plan().fetch


def generators(node: Node) -> set[Pair]:
    return {manifest.pair for manifest in node.manifests.values() if manifest.kind == "generator"}


def tainted(node: Node, pair: Pair) -> bool:
    """Whether something of another peer went into a file."""
    inputs = [manifest.lineage for manifest in node.manifests.values() if manifest.pair == pair]
    return any(origin.issuer != node.me for lineage in inputs for origin in lineage)


@quick
@given(federations(), seeds, st.sampled_from(LABELS), st.booleans())
def test_a_withdrawn_or_changed_label_leaves_what_would_be_there_without_the_old_one(
    federation: list[tuple[int, dict[str, str]]], seed: int, label: str, withdraw: bool
) -> None:
    world = World.of(federation, seed).settle()
    node = world.nodes[0]
    changed = dict(federation[0][1])
    if withdraw:
        node.withdrawn = frozenset({label})
        changed.pop(label, None)
    else:
        changed[label] = "images without one patient"
        node.images, node.scan = changed, None
    world.settle()
    never = World.of([(federation[0][0], changed), *federation[1:]], seed).settle()
    assert summary(world) == summary(never)
    assert [node.files for node in world.nodes] == [node.files for node in never.nodes]


@quick
@given(federations(smallest=3), seeds)
def test_a_suspended_and_restored_peer_leaves_no_trace(federation: list[tuple[int, dict[str, str]]], seed: int) -> None:
    world = World.of(federation, seed).settle()
    before = summary(world)
    for node in world.nodes[1:]:
        node.suspended = frozenset({world.nodes[0].me})
    world.settle()
    for node in world.nodes[1:]:
        node.suspended = frozenset()
    world.settle()
    assert summary(world) == before


@quick
@given(federations(), seeds)
def test_a_crash_anywhere_changes_nothing_in_the_end(federation: list[tuple[int, dict[str, str]]], seed: int) -> None:
    reference = summary(World.of(federation, seed).settle())
    world = World.of(federation, seed)
    for _ in range(30):
        world.wander(3)
        crash(world.chance.choice(world.nodes), world.chance)
    world.settle()
    assert summary(world) == reference


def crash(node: Node, chance: Random) -> None:
    """A job's file without its record, a record without its file, an audit not recorded, own images not known."""
    lost = chance.choice(["record", "file", "scan", "check"])
    if lost == "record" and node.finished:
        del node.finished[chance.choice(sorted(node.finished))]
    elif lost == "file" and node.files:
        node.files.remove(chance.choice(sorted(node.files)))
    elif lost == "scan":
        node.scan = None
    elif lost == "check":
        node.checked.clear()


@quick
@given(federations(), seeds, st.integers(0, 100))
def test_a_receipt_is_signed_only_when_the_new_expert_stands(
    federation: list[tuple[int, dict[str, str]]], seed: int, ticks: int
) -> None:
    world = World.of(federation, seed)
    world.wander(ticks)
    gone = world.nodes[0]
    gone.hear_revocation(gone.me)
    world.settle()
    for node in world.without(gone):
        assert node.receipts
        assert gone.me in {peer for moment in node.receipts for peer in moment.receipt.revoked}
        for moment in node.receipts:
            assert set(moment.receipt.rebuilt) == moment.expert
            assert bool(moment.expert) == (len(moment.covered) >= 2)
            assert not any(tainted_by(node, pair, gone) for pair in moment.files)


def tainted_by(node: Node, pair: Pair, gone: Node) -> bool:
    lineages = [manifest.lineage for manifest in node.manifests.values() if manifest.pair == pair]
    return pair.issuer == gone.me or any(origin.issuer == gone.me for lineage in lineages for origin in lineage)


TWO = [(1, {"ant": "ants", "bee": "bees"}), (2, {"bee": "other bees", "cat": "cats"})]
THREE = [*TWO, (3, {"cat": "more cats", "dog": "dogs"})]


def test_fit_audit_sign_and_list_come_in_that_order() -> None:
    node = World.of([(1, {"ant": "ants", "bee": "bees"})]).settle().nodes[0]
    kinds = [type(job) for job in node.log]
    assert kinds[:2] == [Scan, Publish]
    assert kinds[2:8] == [Fit, Fit, AuditJob, AuditJob, Sign, Sign]
    assert kinds[8:] == [Publish, Expert, Sign, Publish, Score, SignEvaluation]
    assert [job.publishes for job in node.log if isinstance(job, Publish)] == [("ant", "bee")] * 3
    assert [len(job.manifests) for job in node.log if isinstance(job, Publish)] == [0, 2, 3]


def test_a_generator_is_used_by_its_owner_only_once_listed() -> None:
    node = Node(identity(1).peer_id, {"ant": "ants", "bee": "bees"})
    while not any(isinstance(job, Expert) for job in node.plan().jobs):
        listed = {manifest.pair for manifest in node.word().offers().values()}
        assert set(node.stock().generators) <= listed
        assert node.step([])
    assert set(node.stock().generators) == node.files


def test_a_failed_audit_takes_the_label_out_of_what_will_be_published_and_nobody_waits_for_it() -> None:
    world = World.of(THREE)
    world.nodes[0].failing = frozenset({"ant"})
    world.settle()
    assert world.nodes[0].catalogues[world.nodes[0].me].publishes == ("bee",)
    for node in world.nodes:
        assert node.plan().idle
        assert node.stock().covered(LABELS) == ("bee", "cat", "dog")
        assert len(node.product()) == 3


def test_an_override_publishes_a_generator_whose_audit_failed_with_the_reason_in_its_manifest() -> None:
    world = World.of(TWO)
    node, peer = world.nodes
    node.failing = frozenset({"ant"})
    world.settle()
    (fit,) = [job for job in node.log if isinstance(job, Fit) and job.label == "ant"]
    node.overrides = {weights_of(fit.spec): "a known duplicate"}
    world.settle()
    (told,) = [manifest for manifest in peer.word().offers().values() if manifest.names() == ("ant",)]
    assert told.audit is not None
    assert (told.audit.passed, told.audit.override) == (False, "a known duplicate")
    assert node.catalogues[node.me].publishes == ("ant", "bee")
    assert peer.stock().covered(LABELS) == ("ant", "bee", "cat")
    assert peer.product() == node.product()
    assert len(peer.product()) == 2


def test_an_override_holds_for_no_other_generator_of_the_label() -> None:
    world = World.of(TWO)
    node = world.nodes[0]
    node.failing = frozenset({"ant"})
    world.settle()
    (fit,) = [job for job in node.log if isinstance(job, Fit) and job.label == "ant"]
    node.overrides = {weights_of(fit.spec): "a known duplicate"}
    world.settle()
    node.images, node.scan = {"ant": "other ants", "bee": "bees"}, None
    world.settle()
    assert node.catalogues[node.me].publishes == ("bee",)
    assert world.nodes[1].stock().covered(LABELS) == ("bee", "cat")


def test_an_expert_that_sees_synthetic_images_alone_names_no_own_ones() -> None:
    world = World.of(TWO)
    node = world.nodes[0]
    node.shown = False
    world.settle()
    (job,) = [job for job in node.log if isinstance(job, Expert)]
    assert (job.spec["own"], job.spec["labels"]) == ([], ["ant", "bee", "cat"])
    (told,) = [manifest for pair, manifest in node.stock().experts.items() if pair.issuer == node.me]
    assert {count.images for count in told.labels} == {0}
    assert node.product() == world.nodes[1].product()
    assert len(node.product()) == 2


def test_a_job_that_can_not_succeed_is_not_planned_again() -> None:
    node = Node(identity(1).peer_id, {"ant": "too few", "bee": "bees", "cat": "cats"})
    node.step([])
    own = next(own for own in node.scan or () if own.label == "ant")
    node.finished[spec_digest(fit_spec(node.state(), own))] = Finished(None)
    world = World([node], Random(0)).settle()
    assert node.catalogues[node.me].publishes == ("bee", "cat")
    assert world.nodes[0].plan().idle


def test_a_node_without_images_says_so_and_trains_on_what_others_have() -> None:
    world = World.of([*TWO, (3, {})]).settle()
    poor = world.nodes[2]
    assert poor.catalogues[poor.me].publishes == ()
    (job,) = [job for job in poor.log if isinstance(job, Expert)]
    assert job.spec["own"] == []
    assert job.spec["labels"] == ["ant", "bee", "cat"]
    assert len(poor.product()) == 3


def test_a_node_with_private_generators_keeps_its_images_out_of_its_expert(monkeypatch: pytest.MonkeyPatch) -> None:
    generator = RECIPES.generator.model_copy(update={"privacy": PrivacyRecipe(epsilon_milli=8_000)})
    monkeypatch.setattr("world.RECIPES", RECIPES.model_copy(update={"generator": generator}))
    for node in World.of(TWO).settle().nodes:
        assert node.scan
        assert [job.spec["own"] for job in node.log if isinstance(job, Expert)] == [[]]
        (signed,) = [job for job in node.log if isinstance(job, Sign) and job.spec["job"] == "expert"]
        assert all(count.images == 0 for count in signed.labels)


def test_the_expert_waits_for_every_declared_generator() -> None:
    first, second, third = World.of(THREE).nodes
    for node in (first, second):
        while node.step([]):
            pass
    first.hear(second)
    while first.step([second]):
        pass
    assert count(first, Expert) == 0
    assert first.plan().missing == (Missing(third.me, None),)
    for _ in range(2):
        third.step([])
    first.hear(third)
    assert set(first.plan().missing) == {Missing(third.me, "cat"), Missing(third.me, "dog")}
    assert not any(isinstance(job, Expert) for job in first.plan().jobs)


def wants_an_expert(node: Node) -> bool:
    return any(isinstance(job, Expert) for job in node.plan().jobs)


def test_products_are_scored_once_every_peer_that_spoke_has_a_current_expert() -> None:
    world = World.of(THREE)
    first, second, third = world.nodes
    for node in world.nodes * 4:
        for other in world.nodes:
            node.hear(other)
        while not (node is third and wants_an_expert(node)) and node.step(world.reachable(node)):
            pass
    assert first.plan().lacking == second.plan().lacking == (third.me,)
    assert count(first, Score) == 0
    first.waited_experts = True
    while first.step([second]):
        pass
    (early,) = [job for job in first.log if isinstance(job, Score)]
    assert {pair.issuer for pair in early.lineage} == {first.me, second.me, third.me}
    assert len(early.spec["experts"]) == 2
    world.settle()
    assert not first.plan().lacking
    *_, late = [job for job in first.log if isinstance(job, Score)]
    assert len(late.spec["experts"]) == 3
    assert set(late.lineage) == set(first.stock().experts) | set(first.stock().generators)


def test_after_the_gather_deadline_the_expert_is_trained_on_what_is_here() -> None:
    first, second, _ = World.of(THREE).nodes
    while second.step([]):
        pass
    first.hear(second)
    first.waited = True
    while first.step([second]):
        pass
    assert count(first, Expert) == 1
    (spec,) = [job.spec for job in first.log if isinstance(job, Expert)]
    assert spec["labels"] == ["ant", "bee", "cat"]
    assert len(spec["inputs"]) == 4


def test_a_late_arrival_leads_to_one_rebuild() -> None:
    world = World.of(THREE)
    late = world.nodes.pop()
    world.settle()
    assert [count(node, Expert) for node in world.nodes] == [0, 0]
    for waited in (True, False):
        for node in world.nodes:
            node.waited = waited
        world.settle()
    assert [count(node, Expert) for node in world.nodes] == [1, 1]
    world.nodes.append(late)
    world.settle()
    assert [count(node, Expert) for node in world.nodes] == [2, 2, 1]
    assert summary(world) == summary(World.of(THREE).settle())


def test_when_all_are_there_from_the_start_each_expert_is_trained_once() -> None:
    world = World.of(THREE, seed=5)
    world.wander(200)
    world.settle()
    assert [count(node, Expert) for node in world.nodes] == [1, 1, 1]


def test_twins_stay_two_donors_and_one_that_leaves_takes_nothing_from_the_other() -> None:
    same = {"ant": "ants", "bee": "bees"}
    world = World.of([(1, same), (2, same), (3, {"cat": "cats"})]).settle()
    left, twin, other = world.nodes
    assert {pair.digest for pair in twin.stock().generators if pair.issuer == left.me} == {
        pair.digest for pair in twin.stock().generators if pair.issuer == twin.me
    }
    (before,) = [job.spec for job in other.log if isinstance(job, Expert)]
    assert len(before["inputs"]) == 5
    fits = count(twin, Fit)
    left.hear_revocation(left.me)
    world.settle()
    after = [job.spec for job in other.log if isinstance(job, Expert)][-1]
    assert len(after["inputs"]) == 3
    assert count(twin, Fit) == fits
    assert {pair.issuer for pair in other.stock().generators} == {twin.me, other.me}


def test_a_peer_that_comes_back_with_a_new_key_and_the_same_images_brings_the_same_experts_back() -> None:
    world = World.of(THREE).settle()
    before = [node.expert() for node in world.nodes]
    for key in (7, 8, 9):
        gone = world.nodes.pop()
        gone.hear_revocation(gone.me)
        world.nodes[0].hear_revocation(gone.me)
        world.settle()
        assert len(world.nodes[0].stock().generators) == 4
        back = Node(identity(key).peer_id, gone.images, frozenset(node.me for node in world.nodes))
        for node in world.nodes:
            node.listed = node.listed - {gone.me} | {back.me}
        world.nodes.append(back)
        world.settle()
        assert [node.expert() for node in world.nodes] == before
        assert all(node.plan().idle for node in world.nodes)


def test_specs_do_not_say_who_or_when() -> None:
    world = World.of(THREE).settle()
    elsewhere = World.of([(number + 10, held) for number, held in THREE]).settle()
    for here, there in zip(world.nodes, elsewhere.nodes, strict=True):
        assert here.me != there.me
        assert here.expert() == there.expert()


def test_weights_that_were_found_bad_are_erased_and_not_waited_for_nor_fetched_again() -> None:
    world = World.of(THREE)
    victim, culprit = world.nodes[0], world.nodes[2]
    culprit.step([])
    spoiled = {
        Pair(culprit.me, weights_of(fit_spec(culprit.state(), own))) for own in culprit.scan or () if own.label == "dog"
    }
    victim.spoiled = spoiled
    world.settle()
    assert victim.bad == spoiled
    assert victim.stock().covered(LABELS) == ("ant", "bee", "cat")
    assert not victim.files & spoiled
    assert victim.plan().idle
    assert len(victim.expert()) == 1


def test_what_a_peer_sent_is_checked_before_anything_uses_it() -> None:
    first, second = World.of(TWO).nodes
    while second.step([]):
        pass
    first.hear(second)
    first.files |= {pair for pair in second.files if pair.issuer == second.me}
    assert not first.stock().generators
    checks = {job.pair for job in first.plan().jobs if isinstance(job, Check)}
    assert checks == first.files


def test_a_stale_expert_is_not_fetched_and_a_current_one_is() -> None:
    world = World.of(TWO).settle()
    first, second = world.nodes
    theirs = {pair for pair in first.stock().experts if pair.issuer == second.me}
    first.files -= theirs
    assert set(first.plan().fetch) == theirs
    first.withdrawn = frozenset({"ant"})
    while first.step([]):
        pass
    assert not first.plan().fetch


def test_a_full_plan_lists_everything_that_can_be_done_at_once() -> None:
    node = Node(identity(1).peer_id, {"ant": "ants", "bee": "bees"})
    node.step([])
    todo = node.plan()
    assert [type(job) for job in todo.jobs] == [Publish, Fit, Fit]
    assert [job.label for job in todo.jobs if isinstance(job, Fit)] == ["ant", "bee"]


def test_own_images_of_one_label_alone_make_no_expert() -> None:
    node = World.of([(1, {"ant": "ants"})]).settle().nodes[0]
    assert count(node, Expert) == 0
    assert node.plan().idle


ME, PEER = identity(1).peer_id, identity(2).peer_id


def state(own: Own, held: Held, *offered: object) -> State:
    return State(ME, CONTRACT, RECIPES, own, Word(frozenset({ME}), {}, {m.digest: m for m in offered}), held)  # type: ignore[attr-defined, misc]


def test_a_tainted_expert_of_ours_is_erased_before_the_own_images_are_known() -> None:
    gone = generator(PEER, contract=CONTRACT)
    ours = expert(ME, [gone.pair, generator(ME, contract=CONTRACT).pair], contract=CONTRACT)
    alone = expert(ME, [generator(ME, contract=CONTRACT).pair], contract=CONTRACT)
    held = Held(frozenset({gone.pair, ours.pair, alone.pair}))
    for left in (False, True):
        assert set(plan(state(Own(left=left), held, gone, ours, alone)).erase) == {gone.pair, ours.pair}


def test_the_plan_after_a_removal_equals_that_of_never_having_had_the_peer() -> None:
    world = World.of(THREE).settle()
    node, gone = world.nodes[0], world.nodes[2]
    node.hear_revocation(gone.me)
    after = node.plan()
    never = World.of(TWO).settle().nodes[0]
    never.finished = {key: done for key, done in never.finished.items() if done.digest not in never.expert()}
    never.files -= {pair for pair in never.stock().experts if pair.issuer == never.me}
    rebuilt = [job for job in after.jobs if isinstance(job, Expert)]
    assert after.erase
    assert not rebuilt  # first the catalogue without the old expert
    while not (rebuilt := [job for job in node.plan().jobs if isinstance(job, Expert)]):
        node.step([])
    assert [job.spec for job in rebuilt] == [job.spec for job in never.log if isinstance(job, Expert)]


def test_a_finished_job_is_found_by_its_spec_alone() -> None:
    own = OwnLabel("ant", 40, 5, digest("ants"))
    first = plan(state(Own(scan=(own,)), Held()))
    (fit,) = [job for job in first.jobs if isinstance(job, Fit)]
    done = {spec_digest(fit.spec): Finished(digest("w"))}
    held = Held(frozenset({Pair(ME, digest("w"))}))
    second = plan(replace(state(Own(scan=(own,), finished=done), held)))
    assert not any(isinstance(job, Fit) for job in second.jobs)
    assert any(isinstance(job, AuditJob) for job in second.jobs)


@pytest.mark.parametrize("lost", ["images", "recipe"])
def test_other_images_or_another_recipe_are_another_job(lost: str) -> None:
    own = OwnLabel("ant", 40, 5, digest("ants"))
    here = state(Own(scan=(own,)), Held())
    before = spec_digest(fit_spec(here, own))
    if lost == "images":
        own = replace(own, digest=digest("other ants"))
    else:
        generator_recipe = RECIPES.generator.model_copy(update={"images": 2000})
        here = replace(here, recipes=RECIPES.model_copy(update={"generator": generator_recipe}))
    assert spec_digest(fit_spec(here, own)) != before
