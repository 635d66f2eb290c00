"""What a node exchanges: as asked, or by the labels that all nodes say they hold."""

import pytest
from making import NOW, digest, identity

from fednode.catalogue import FRESH_SECONDS, Catalogue
from fednode.config import Exchange
from fednode.inventory import GENERATORS, SOURCES, Word
from fednode.modes import CLASSIFIERS, by_labels, choose, silent
from fednode_crypto.identity import PeerId

A, B, C = (identity(number).peer_id for number in (1, 2, 3))


def says(issuer: PeerId, *labels: str, **changes: object) -> Catalogue:
    """The catalogue of a party that holds these labels."""
    fields = {"publishes": (), "holds": tuple(sorted(labels)), **changes}
    return Catalogue(
        contract=digest("contract"),
        created=NOW,
        issuer=issuer,
        sequence=1,
        previous=None,
        fresh_until=NOW + FRESH_SECONDS,
        manifests=(),
        **fields,
    )


def word(*catalogues: Catalogue, good: tuple[PeerId, ...] = (A, B)) -> Word:
    return Word(frozenset(good), {one.issuer: one for one in catalogues}, {})


@pytest.mark.parametrize(
    ("held", "kinds"),
    [
        (["a", "b", "c", "d"], GENERATORS),  # one label a node
        (["ab", "bc", "cd", "da"], CLASSIFIERS),  # two of four are half
        (["abc", "abc", "d"], CLASSIFIERS),  # 7/3 of four
        (["abcdefghij"], CLASSIFIERS),
        (["ab", "cd", "ef", "gh", "ij"], GENERATORS),  # two of ten
        (["abcd", "efghi", "aj"], GENERATORS),  # 11/3 of ten
        (["a", "b"], GENERATORS),  # half, but one label a node
        (["ab", "a"], GENERATORS),
        (["ab", "ab"], CLASSIFIERS),
        ([], GENERATORS),
        (["", "", "ab"], CLASSIFIERS),  # nodes without images do not count
    ],
)
def test_classifiers_are_taken_where_nodes_hold_at_least_two_labels_and_half_of_all_on_the_mean(
    held: list[str], kinds: frozenset[str]
) -> None:
    assert by_labels(map(frozenset, held)).kinds == kinds


def test_the_reason_has_the_figures() -> None:
    assert (
        by_labels([frozenset("abc"), frozenset("de")]).why
        == "nodes hold 2.5 of 5 labels on the mean, which is half or more"
    )


@pytest.mark.parametrize(
    ("asked", "kinds"), [("generators", GENERATORS), ("classifiers", CLASSIFIERS), ("both", SOURCES)]
)
def test_what_is_asked_for_is_taken_at_once(asked: Exchange, kinds: frozenset[str]) -> None:
    assert choose(asked, word(), A, frozenset(), waited=False).kinds == kinds


def test_auto_waits_for_every_peer_in_good_standing_or_for_the_deadline_and_keeps_what_it_had() -> None:
    said = word(says(A, "ant", "bee", "cat"))
    assert silent(said, A) == [B]
    assert choose("auto", said, A, frozenset(), waited=False).kinds == frozenset()
    assert choose("auto", said, A, GENERATORS, waited=False).kinds == GENERATORS
    assert choose("auto", said, A, GENERATORS, waited=True).kinds == CLASSIFIERS
    assert (
        choose("auto", word(says(A, "ant", "bee", "cat"), good=(A,)), A, frozenset(), waited=False).kinds == CLASSIFIERS
    )


def test_auto_waits_for_its_own_images_whatever_the_deadline() -> None:
    assert choose("auto", word(says(B, "ant")), A, frozenset(), waited=True).kinds == frozenset()


def test_what_peers_that_do_not_choose_announce_counts_as_what_they_hold() -> None:
    fixed = says(B, publishes=("cat", "dog"), classifies=("bee",))
    assert fixed.declared == {"bee", "cat", "dog"}
    assert choose("auto", word(says(A, "ant"), fixed), A, frozenset(), waited=False).kinds == CLASSIFIERS


def test_a_peer_that_is_gone_leaves_no_trace_in_the_choice() -> None:
    few, many = says(A, "ant"), says(B, "bee", "cat")
    third = says(C, "ant", "bee", "cat")
    assert choose("auto", word(few, many, third, good=(A, B, C)), A, frozenset(), waited=False).kinds == CLASSIFIERS
    after = choose("auto", word(few, many, third), A, CLASSIFIERS, waited=False)
    assert after == choose("auto", word(few, many), A, frozenset(), waited=False)
