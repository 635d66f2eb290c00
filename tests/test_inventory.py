"""Γ and lineage: what is offered, live, current, void and tainted."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from making import NOW, digest, expert, generator, identity

from fednode.catalogue import FRESH_SECONDS, MAX_JUMP, Catalogue, Succession, succession
from fednode.inventory import Held, Inventory, Missing, Word, missing, take, to_erase, why_stale
from fednode.lineage import Lineage, Pair, descendants
from fednode.manifest import Manifest
from fednode.revocation import Voters, quorum_size, tombstones
from fednode.roster import Roster, Standing
from fednode_crypto.identity import PeerId

A, B, C, D, E = (identity(number).peer_id for number in range(1, 6))
GA, GB = generator(A, "ant"), generator(B, "bee")
EA, EB = expert(A, [GA.pair, GB.pair]), expert(B, [GA.pair, GB.pair])


def word(*listed: Manifest, good: tuple[PeerId, ...] = (A, B), publishes: tuple[str, ...] = ()) -> Word:
    """The word of parties of which each lists all of its manifests."""
    catalogues = {
        peer: Catalogue(
            contract=digest("contract"),
            created=NOW,
            issuer=peer,
            sequence=1,
            previous=None,
            fresh_until=NOW + FRESH_SECONDS,
            publishes=publishes,
            manifests=tuple(sorted(manifest.digest for manifest in listed if manifest.issuer == peer)),
        )
        for peer in {manifest.issuer for manifest in listed}
    }
    return Word(frozenset(good), catalogues, {manifest.digest: manifest for manifest in listed})


def held(*manifests: Manifest, checked: bool = True, bad: tuple[Manifest, ...] = ()) -> Held:
    files = frozenset(manifest.pair for manifest in manifests)
    return Held(files, files if checked else frozenset(), frozenset(manifest.pair for manifest in bad))


def test_what_parties_in_good_standing_list_is_offered() -> None:
    assert word(GA, GB).offers() == {GA.pair: GA, GB.pair: GB}
    assert word(GA, GB, good=(A,)).offers() == {GA.pair: GA}


def test_a_manifest_that_no_catalogue_lists_is_not_offered() -> None:
    said = word(GA)
    assert Word(said.good, said.catalogues, {**said.manifests, GB.digest: GB}).offers().keys() == {GA.pair}
    assert Word(said.good, {}, said.manifests).offers() == {}


def test_a_listed_artifact_is_live_when_it_is_here_and_checked_and_not_bad() -> None:
    assert take(word(GA, GB), held(GA)).live == {GA.pair}
    assert take(word(GA), held(GA, checked=False)).live == frozenset()
    assert take(word(GA), held(GA, bad=(GA,))).live == frozenset()
    assert take(word(), held(GA)).live == frozenset()


def test_gamma_is_a_table_of_peers_and_labels() -> None:
    more = generator(A, "cat")
    stock = take(word(GA, GB, more), held(GA, GB, more))
    assert stock.gamma() == {
        A: {"ant": GA.weights.digest, "cat": more.weights.digest},
        B: {"bee": GB.weights.digest},
    }
    assert stock.covered(("cat", "dog", "ant")) == ("cat", "ant")


def test_an_expert_is_current_when_it_used_just_the_live_generators() -> None:
    stock = take(word(GA, GB, EA), held(GA, GB, EA))
    assert stock.experts == {EA.pair: EA}
    assert stock.stale == {}


@pytest.mark.parametrize(
    ("lineage", "live", "good", "reason"),
    [
        ([GA, GB], [GA, GB], (A, B), ""),
        ([GA, GB], [GA], (A,), "tainted"),
        ([GA, GB], [GA], (A, B), "used a generator that is not live"),
        ([GA], [GA, GB], (A, B), "without a generator that is live"),
    ],
)
def test_a_stale_expert_says_why(
    lineage: list[Manifest], live: list[Manifest], good: tuple[PeerId, ...], reason: str
) -> None:
    made = expert(A, [manifest.pair for manifest in lineage])
    said = why_stale(made, {manifest.pair: manifest for manifest in live}, frozenset(good))
    assert reason in said
    assert bool(said) == bool(reason)


@pytest.mark.parametrize("labels", [("ant",), ("ant", "bee", "cat"), ("ant", "cat")])
def test_an_expert_of_other_labels_than_its_generators_has_no_say_and_the_others_go_on(labels: tuple[str, ...]) -> None:
    odd = expert(B, [GA.pair, GB.pair], labels=labels)
    stock = take(word(GA, GB, EA, odd), held(GA, GB, EA, odd))
    assert stock.experts.keys() == {EA.pair}
    assert "labels" in stock.stale[odd.pair]


def test_a_stale_expert_is_listed_even_if_its_weights_are_not_here() -> None:
    stock = take(word(GA, EB), held(GA))
    assert stock.experts == {}
    assert stock.stale.keys() == {EB.pair}


def test_an_expert_that_is_not_here_is_neither_current_nor_stale() -> None:
    stock = take(word(GA, GB, EB), held(GA, GB))
    assert stock.experts == stock.stale == {}
    assert EB.pair in stock.offered


def test_equal_bytes_of_two_issuers_are_two_artifacts() -> None:
    twin = generator(B, "ant", weights="same")
    ours = generator(A, "ant", weights="same")
    stock = take(word(ours, twin), held(ours, twin))
    assert stock.live == {ours.pair, twin.pair}
    assert ours.weights.digest == twin.weights.digest
    lineages: dict[Pair, Lineage] = {ours.pair: frozenset(), twin.pair: frozenset()}
    assert to_erase(word(ours).offers(), held(ours, twin), lineages) == {twin.pair}


def test_peers_that_said_nothing_and_declared_generators_that_are_not_live_are_missing() -> None:
    said = word(GA, GB, publishes=("ant", "bee"))
    stock = take(said, held(GB))
    assert missing(said, stock, [A, B, C], frozenset()) == tuple(
        sorted([Missing(A, "ant"), Missing(A, "bee"), Missing(B, "ant"), Missing(C, None)], key=lambda item: item.peer)
    )


def test_a_declared_label_whose_generator_was_found_bad_is_not_waited_for() -> None:
    said = word(GA, publishes=("ant", "bee"))
    stock = take(said, held(bad=(GA,)))
    assert missing(said, stock, [A], frozenset({GA.pair})) == (Missing(A, "bee"),)


def lineages_of(*manifests: Manifest) -> dict[Pair, Lineage]:
    return {manifest.pair: frozenset(manifest.lineage) for manifest in manifests}


def test_what_nobody_lists_and_what_descends_from_it_is_erased() -> None:
    everything = (GA, GB, EA, EB)
    assert to_erase(word(*everything).offers(), held(*everything), lineages_of(*everything)) == frozenset()
    without_b = word(*everything, good=(A,)).offers()
    assert to_erase(without_b, held(*everything), lineages_of(*everything)) == {GB.pair, EA.pair, EB.pair}


def test_an_expert_is_erased_whose_void_input_was_never_seen_here() -> None:
    unseen = Pair(B, digest("a generator that only the expert's maker saw"))
    made = expert(A, [GA.pair, unseen])
    offers = word(GA, made).offers()
    assert to_erase(offers, held(GA, made), lineages_of(GA, made)) == {made.pair}


def test_what_was_found_bad_is_erased() -> None:
    assert to_erase(word(GA, GB).offers(), held(GA, GB, bad=(GA,)), lineages_of(GA, GB)) == {GA.pair}


def test_files_that_were_erased_are_no_longer_held() -> None:
    assert held(GA, GB).without(frozenset({GA.pair})).files == {GB.pair}


PAIRS = [Pair(A, digest(str(number))) for number in range(8)]
graphs = st.lists(st.sets(st.integers(0, 7), max_size=3), min_size=8, max_size=8)


@settings(max_examples=50, deadline=None)
@given(graphs, st.sets(st.integers(0, 7), max_size=3))
def test_descendants_are_what_can_be_reached(inputs: list[set[int]], void: set[int]) -> None:
    lineages = {
        PAIRS[number]: frozenset(PAIRS[origin] for origin in origins if origin < number)
        for number, origins in enumerate(inputs)
    }

    def reached(number: int) -> bool:
        return number in void or any(reached(origin) for origin in inputs[number] if origin < number)

    expected = {PAIRS[number] for number in range(8) if reached(number)}
    assert descendants({PAIRS[number] for number in void}, lineages) == expected


def test_an_inventory_of_nothing_is_empty() -> None:
    assert take(Word(frozenset(), {}, {}), Held()) == Inventory({}, {}, {})


def catalogue(sequence: int, publishes: tuple[str, ...] = ()) -> Catalogue:
    return Catalogue(
        contract=digest("contract"),
        created=NOW,
        issuer=A,
        sequence=sequence,
        previous=None if sequence == 1 else digest("before"),
        fresh_until=NOW,
        publishes=publishes,
        manifests=(),
    )


@pytest.mark.parametrize(
    ("before", "received", "expected"),
    [
        (None, catalogue(77777), Succession.NEW),
        (catalogue(5), catalogue(6), Succession.NEW),
        (catalogue(5), catalogue(5), Succession.SAME),
        (catalogue(5), catalogue(4), Succession.OLD),
        (catalogue(5), catalogue(5, ("ant",)), Succession.EQUIVOCATION),
        (catalogue(5), catalogue(5 + MAX_JUMP), Succession.NEW),
        (catalogue(5), catalogue(6 + MAX_JUMP), Succession.JUMP),
    ],
)
def test_how_a_catalogue_follows_another(before: Catalogue | None, received: Catalogue, expected: Succession) -> None:
    assert succession(before, received) is expected


@pytest.mark.parametrize(("electorate", "needed"), [(1, 2), (2, 2), (3, 2), (4, 3), (5, 3), (6, 4), (64, 33)])
def test_a_quorum_is_a_majority_and_at_least_two_unless_agreed_otherwise(electorate: int, needed: int) -> None:
    assert quorum_size(0, electorate) == needed
    assert quorum_size(1, electorate) == 1
    assert quorum_size(5, electorate) == 5


EVERYONE = [A, B, C, D, E]
votes = st.dictionaries(st.sampled_from(EVERYONE), st.frozensets(st.sampled_from(EVERYONE)), max_size=5)


@settings(max_examples=100, deadline=None)
@given(votes, st.frozensets(st.sampled_from(EVERYONE)), st.integers(0, 3))
def test_more_votes_never_lift_a_tombstone_and_an_own_signature_always_binds(
    cast: dict[PeerId, frozenset[PeerId]], standing: frozenset[PeerId], quorum: int
) -> None:
    voters = Voters(A, frozenset({B, C, D}), frozenset({B, C, D, E}))
    found = tombstones(cast, voters, quorum, standing)
    assert standing <= found
    assert {subject for subject, signers in cast.items() if subject in signers} <= found
    assert tombstones(cast, voters, quorum, found) == found
    more = {subject: cast.get(subject, frozenset()) | {B} for subject in EVERYONE}
    assert found <= tombstones(more, voters, quorum, standing)


def test_a_stranger_s_vote_counts_for_nothing_but_itself() -> None:
    voters = Voters(A, frozenset({B, C}), frozenset({B, C}))
    assert tombstones({C: frozenset({D, E})}, voters, 0, frozenset()) == frozenset()
    assert tombstones({D: frozenset({D})}, voters, 0, frozenset()) == {D}


def test_a_tombstone_is_stronger_than_every_other_standing() -> None:
    everyone = frozenset({B, C, D})
    roster = Roster(A, everyone, everyone, frozenset({B}), frozenset({B, C}), frozenset({B, C, D}))
    assert [roster.standing(peer) for peer in (A, B, C, D, E)] == [
        Standing.LISTED,
        Standing.REVOKED,
        Standing.QUARANTINED,
        Standing.QUARANTINED,
        Standing.UNLISTED,
    ]
    assert roster.good == {A}
