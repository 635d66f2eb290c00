"""Classifiers in statements and in the inventory: what is accepted, what it covers, and which experts are current."""

from pathlib import Path

import pytest
from making import CONTRACT, NOW, classifier, expert, generator, identity
from pydantic import ValidationError

from fednode.admission import admit_manifests
from fednode.architecture import ViTArchitecture
from fednode.book import Book
from fednode.catalogue import FRESH_SECONDS, Announced, Catalogue
from fednode.errors import PeerError
from fednode.inventory import GENERATORS, SOURCES, Held, Word, take, why_stale
from fednode.ledger import Ledger
from fednode.lineage import Pair
from fednode.manifest import LabelCount, Manifest
from fednode.presets import expert_architecture

A, B = (identity(number).peer_id for number in (1, 2))
CA, CB = classifier(A, ant=40, bee=3), classifier(B, bee=40)
GA, GB = generator(A, "ant"), generator(B, "bee")


def catalogue(*manifests: Manifest, **fields: object) -> Catalogue:
    """A catalogue of A that lists these."""
    return Catalogue(
        contract=CONTRACT.id,
        created=NOW,
        issuer=A,
        sequence=1,
        previous=None,
        fresh_until=NOW + FRESH_SECONDS,
        **{"publishes": (), "manifests": tuple(sorted(one.digest for one in manifests)), **fields},
    )


def admitted(*manifests: Manifest) -> list[Manifest]:
    found = admit_manifests(catalogue(*manifests), [one.seal(identity(1)) for one in manifests], {}, CONTRACT)
    return [signed.statement for signed in found]


def word(*listed: Manifest, kinds: frozenset[str] = SOURCES) -> Word:
    said = {
        peer: catalogue(*(one for one in listed if one.issuer == peer)).model_copy(update={"issuer": peer})
        for peer in (A, B)
    }
    return Word(frozenset({A, B}), said, {one.digest: one for one in listed}, kinds)


def held(*manifests: Manifest) -> Held:
    pairs = frozenset(one.pair for one in manifests)
    return Held(pairs, pairs)


def distilled(*inputs: Manifest, labels: tuple[str, ...] = ("ant", "bee")) -> Manifest:
    return expert(A, [one.pair for one in inputs], labels)


def changed(manifest: Manifest, **fields: object) -> Manifest:
    return manifest.model_copy(update=fields)


def test_a_classifier_comes_with_a_catalogue_that_says_which_labels_it_has_seen() -> None:
    assert admitted(CA) == [CA]
    assert CA.seen() == ("ant", "bee")
    assert CA.names() == CONTRACT.labels


@pytest.mark.parametrize(
    "wrong",
    [
        changed(CA, labels=CA.labels[:2], architecture=CA.architecture.model_copy(update={"outputs": 2})),
        changed(CA, labels=tuple(reversed(CA.labels))),
        changed(CA, labels=tuple(LabelCount(label=label, images=0) for label in CONTRACT.labels)),
        changed(CA, architecture=expert_architecture(CONTRACT.image, 3)),
        changed(CA, architecture=CA.architecture.model_copy(update={"outputs": 4})),
        changed(CA, architecture=CA.architecture.model_copy(update={"patch": 4})),
    ],
    ids=["few labels", "order", "nothing seen", "no ViT", "outputs", "patch"],
)
def test_a_classifier_is_refused_that_is_no_vit_of_all_labels_or_has_seen_none(wrong: Manifest) -> None:
    with pytest.raises(PeerError) as caught:
        admitted(wrong)
    assert caught.value.code == "bad-manifest"


def test_a_catalogue_lists_one_classifier_at_most() -> None:
    with pytest.raises(PeerError, match="more than one classifier"):
        admitted(CA, classifier(A, cat=7))


@pytest.mark.parametrize("fields", [{"classifies": ("dog",)}, {"holds": ("ant", "dog")}])
def test_labels_outside_the_contract_are_not_announced(fields: dict[str, object]) -> None:
    with pytest.raises(PeerError, match="'dog'"):
        admit_manifests(catalogue(**fields), [], {}, CONTRACT)


def test_a_classifier_has_no_lineage_and_its_network_is_bounded() -> None:
    with pytest.raises(ValidationError, match="no lineage"):
        Manifest(**{**dict(CA), "lineage": (GA.pair,)})
    with pytest.raises(ValidationError):
        ViTArchitecture(**{**dict(CA.architecture), "width": 65})


def test_what_a_catalogue_announces_is_in_its_bytes_only_where_it_is_used() -> None:
    assert b"classifies" not in catalogue(GA, publishes=("ant",)).payload()
    assert b"undecided" not in catalogue(holds=("ant",)).payload()
    assert catalogue(holds=("ant", "bee"), publishes=("cat",)).declared == {"ant", "bee"}
    assert catalogue(classifies=("bee",), publishes=("cat",)).declared == {"bee", "cat"}


def test_our_next_catalogue_announces_what_it_is_told_and_the_renewed_one_says_it_again(tmp_path: Path) -> None:
    now = [float(NOW)]
    book = Book(Ledger(tmp_path / "ledger.sqlite"), CONTRACT, A, lambda: now[0])
    book.publish(identity(1), [], [], Announced(("bee", "ant"), ("cat", "ant"), undecided=True))
    said = book.word().catalogues[A]
    assert said.announced == Announced(("ant", "bee"), ("ant", "cat"), undecided=True)
    now[0] += 2 * 24 * 3600
    assert book.renew(identity(1)) is not None
    assert book.word().catalogues[A].announced == said.announced
    assert book.word().catalogues[A].sequence == 2


def test_a_live_classifier_covers_what_it_has_seen() -> None:
    stock = take(word(CA, CB), held(CA, CB))
    assert stock.live == {CA.pair, CB.pair}
    assert stock.covered(CONTRACT.labels) == ("ant", "bee")
    assert stock.gamma() == {}
    assert not stock.draws(("ant",))


def test_of_kinds_that_are_not_exchanged_nothing_is_offered() -> None:
    assert take(word(CA, GB, kinds=GENERATORS), held(CA, GB)).offered.keys() == {GB.pair}
    assert take(word(CA, GB, kinds=frozenset()), held(CA, GB)).offered == {}


@pytest.mark.parametrize(
    ("made", "live", "reason"),
    [
        (distilled(CA, CB), [CA, CB], ""),
        (distilled(CA), [CA, CB], "without a classifier that is live"),
        (distilled(GA, GB), [CA, CB, GA, GB], ""),  # it uses generators alone, and all of them
        (distilled(CA, CB, GA), [CA, CB, GA, GB], "without a generator that is live"),
        (distilled(CA, CB, GA, GB), [CA, CB, GA, GB], ""),
        (distilled(CA, CB), [CA], "that is not live here"),
        (distilled(CA, CB, labels=("ant", "bee", "cat")), [CA, CB], "wrong: "),
        (distilled(GA, GB), [CA, CB, GA, GB, classifier(A, cat=5)], "narrow: "),
    ],
)
def test_an_expert_is_current_if_it_used_all_that_is_live_of_its_kinds_and_knows_all_labels(
    made: Manifest, live: list[Manifest], reason: str
) -> None:
    said = why_stale(made, {one.pair: one for one in live}, frozenset({A, B}))
    assert reason in said
    assert bool(said) == bool(reason)


def test_equal_digests_of_other_issuers_are_other_inputs() -> None:
    twin = changed(CB, weights=CA.weights)
    assert "without" in why_stale(distilled(CA), {CA.pair: CA, twin.pair: twin}, frozenset({A, B}))
    assert twin.pair == Pair(B, CA.pair.digest) != CA.pair
