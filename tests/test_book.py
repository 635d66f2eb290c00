"""The book: what is accepted from peers, what that means for their standing, and our own statements."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import permutations
from pathlib import Path

import pytest
from crashing import dies_at
from making import CONTRACT, IMAGE, NOW, digest, expert, generator, identity

from fednode import failpoints
from fednode.book import Book, BookLimits, News
from fednode.catalogue import FRESH_SECONDS, MAX_JUMP, Catalogue
from fednode.contract import Contract, ImageShape
from fednode.errors import PeerError, RefusedError, StorageError
from fednode.evaluation import Evaluation, Row, Scores
from fednode.ledger import Ledger
from fednode.lineage import Pair
from fednode.manifest import LabelCount, Manifest
from fednode.revocation import MAX_ERASED, MAX_REVOKED, Receipt, Revocation
from fednode.roster import Standing
from fednode_crypto import curve
from fednode_crypto.identity import Identity, PeerId

KEYS = {name: identity(number) for number, name in enumerate("abcdxyz")}
A, B, C, D, X, Y, Z = (KEYS[name].peer_id for name in "abcdxyz")
DAY = 24 * 3600


@dataclass
class Clock:
    now: float = float(NOW)

    def __call__(self) -> float:
        return self.now


@dataclass
class Home:
    """A home on the disk that can be reopened as after a restart."""

    folder: Path
    name: str = "a"
    listed: tuple[PeerId, ...] = (A, B, C)
    contract: Contract = CONTRACT
    limits: BookLimits = field(default_factory=BookLimits)
    clock: Clock = field(default_factory=Clock)

    @property
    def key(self) -> Identity:
        return KEYS[self.name]

    def ledger(self) -> Ledger:
        return Ledger(self.folder / self.name / "ledger.sqlite")

    def open(self) -> Book:
        book = Book(self.ledger(), self.contract, self.key.peer_id, self.clock, self.limits)
        book.set_listed(self.listed)
        return book


def catalogue(
    by: Identity,
    manifests: Sequence[Manifest] = (),
    sequence: int = 1,
    publishes: Sequence[str] = ("ant",),
    contract: Contract = CONTRACT,
    created: int = NOW,
) -> Catalogue:
    return Catalogue(
        contract=contract.id,
        created=created,
        issuer=by.peer_id,
        sequence=sequence,
        previous=None if sequence == 1 else digest("the one before"),
        fresh_until=created + FRESH_SECONDS,
        publishes=tuple(publishes),
        manifests=tuple(sorted(manifest.digest for manifest in manifests)),
    )


def told(by: Identity, manifests: Sequence[Manifest] = (), **fields: object) -> News:
    """The news of a catalogue with all its manifests."""
    statement = catalogue(by, manifests, **fields)  # type: ignore[arg-type]
    return News("catalogue", statement.seal(by), tuple(manifest.seal(by) for manifest in manifests))


def vote(subject: PeerId, *by: Identity, created: int = NOW, contract: Contract = CONTRACT) -> News:
    statement = Revocation(contract=contract.id, created=created, subject=subject, reason="a reason")
    return News("revocation", statement.seal(*by))


def receipt(by: Identity, revoked: Sequence[PeerId] = (), created: int = NOW) -> News:
    statement = Receipt(
        contract=CONTRACT.id, created=created, issuer=by.peer_id, revoked=tuple(revoked), erased=(), rebuilt=()
    )
    return News("receipt", statement.seal(by))


def view(book: Book) -> tuple[object, ...]:
    """All that a book says."""
    return book.roster, book.word(), book.receipts(), book.evaluations(), book.news(), book.unconfirmed()


def refusal(book: Book, news: News) -> str:
    """The code with which `news` is refused; nothing has changed by it."""
    before = view(book)
    with pytest.raises(PeerError) as caught:
        book.accept(news)
    assert view(book) == before
    return caught.value.code


def test_a_catalogue_is_kept_with_its_manifests_and_is_no_news_again(tmp_path: Path) -> None:
    home = Home(tmp_path)
    book = home.open()
    manifests = [generator(B, "ant"), generator(B, "bee")]
    news = told(KEYS["b"], manifests)
    assert book.accept(news)
    assert not book.accept(news)
    assert book.word().offers() == {manifest.pair: manifest for manifest in manifests}
    assert view(home.open()) == view(book)


def test_known_manifests_need_not_come_again(tmp_path: Path) -> None:
    book = Home(tmp_path).open()
    first, second = generator(B, "ant"), generator(B, "bee")
    book.accept(told(KEYS["b"], [first]))
    later = told(KEYS["b"], [first, second], sequence=2)
    assert book.accept(News("catalogue", later.envelope, (second.seal(KEYS["b"]),)))
    assert book.word().offers().keys() == {first.pair, second.pair}


def test_what_a_newer_catalogue_does_not_list_is_no_longer_offered(tmp_path: Path) -> None:
    home = Home(tmp_path)
    book = home.open()
    old, new = generator(B, weights="old"), generator(B, weights="new")
    book.accept(told(KEYS["b"], [old]))
    book.accept(told(KEYS["b"], [new], sequence=2))
    assert book.word().offers().keys() == {new.pair}
    assert old.digest in book.word().manifests
    assert len(home.ledger().statements("catalogue")) == 1


OTHER = Contract(federation="other", labels=CONTRACT.labels, image=IMAGE)
WIDE = Contract(federation="test", labels=("ant", "bee", "cat", "dog"), image=IMAGE)
LARGE = Contract(federation="test", labels=CONTRACT.labels, image=ImageShape(size=16, channels=1))


def with_contract(manifest: Manifest) -> Manifest:
    return manifest.model_copy(update={"contract": CONTRACT.id})


def of_labels(manifest: Manifest, *labels: str) -> Manifest:
    return manifest.model_copy(update={"labels": tuple(LabelCount(label=label, images=40) for label in labels)})


def signed_by(key: str, manifest: Manifest) -> News:
    statement = catalogue(KEYS["b"], [manifest])
    return News("catalogue", statement.seal(KEYS["b"]), (manifest.seal(KEYS[key]),))


REFUSED: dict[str, tuple[str, News]] = {
    "a listed manifest is missing": (
        "incomplete",
        News("catalogue", catalogue(KEYS["b"], [generator(B)]).seal(KEYS["b"])),
    ),
    "a manifest came that is not listed": (
        "bad-manifest",
        News("catalogue", catalogue(KEYS["b"]).seal(KEYS["b"]), (generator(B).seal(KEYS["b"]),)),
    ),
    "a manifest is another peer's": ("bad-manifest", signed_by("c", generator(C))),
    "a manifest is not signed by its issuer": ("not-signed", signed_by("c", generator(B))),
    "a manifest is of another contract": ("other-contract", signed_by("b", generator(B, contract=OTHER))),
    "a label is not in the contract": (
        "bad-manifest",
        signed_by("b", with_contract(generator(B, "dog", contract=WIDE))),
    ),
    "the images have another shape": ("bad-manifest", signed_by("b", with_contract(generator(B, contract=LARGE)))),
    "a generator draws two labels": ("bad-manifest", signed_by("b", of_labels(generator(B), "ant", "bee"))),
    "an expert has another number of outputs than labels": (
        "bad-manifest",
        signed_by("b", of_labels(expert(B, [generator(B).pair]), "ant", "bee", "cat")),
    ),
    "the labels of an expert are out of order": (
        "bad-manifest",
        signed_by("b", expert(B, [generator(B).pair], labels=("bee", "ant"))),
    ),
    "two generators draw one label": (
        "bad-catalogue",
        told(KEYS["b"], [generator(B, weights="one"), generator(B, weights="two")]),
    ),
    "a peer speaks with two experts": (
        "bad-catalogue",
        told(KEYS["b"], [expert(B, [generator(B).pair], weights=text) for text in ("one", "two")]),
    ),
    "a label that the contract lacks is announced": ("bad-catalogue", told(KEYS["b"], publishes=("dog",))),
    "a manifest is no envelope": (
        "bad-statement",
        News("catalogue", catalogue(KEYS["b"]).seal(KEYS["b"]), (b"{}",)),
    ),
    "the catalogue is of another contract": ("other-contract", told(KEYS["b"], contract=OTHER)),
    "the issuer is not listed": ("stranger", told(KEYS["x"])),
    "the issuer has not signed": ("not-signed", News("catalogue", catalogue(KEYS["b"]).seal(KEYS["c"]))),
    "it is from the future": ("clock", told(KEYS["b"], created=NOW + 301)),
    "it is from the end of time": ("clock", told(KEYS["b"], created=2**53 - FRESH_SECONDS - 2)),
    "it is another statement": ("bad-statement", News("catalogue", receipt(KEYS["b"]).envelope)),
    "it is nothing": ("bad-statement", News("receipt", b"")),
    "a revocation is of another contract": ("other-contract", vote(C, KEYS["b"], contract=OTHER)),
    "a vote is of a key never listed": ("stranger", vote(C, KEYS["x"])),
    "a receipt is of a key never listed": ("stranger", receipt(KEYS["x"])),
}


@pytest.mark.parametrize(("code", "news"), REFUSED.values(), ids=REFUSED.keys())
def test_a_statement_is_refused_and_nothing_kept_if(tmp_path: Path, code: str, news: News) -> None:
    home = Home(tmp_path)
    book = home.open()
    book.accept(told(KEYS["c"], [generator(C, "cat")]))
    assert refusal(book, news) == code
    assert view(home.open()) == view(book)


def test_the_message_about_another_contract_names_both(tmp_path: Path) -> None:
    with pytest.raises(PeerError) as caught:
        Home(tmp_path).open().accept(told(KEYS["b"], contract=OTHER))
    assert OTHER.id[:16] in caught.value.message
    assert CONTRACT.id[:16] in caught.value.message


def test_five_minutes_of_skew_are_tolerated_and_the_message_names_both_clocks(tmp_path: Path) -> None:
    book = Home(tmp_path).open()
    assert book.accept(told(KEYS["b"], created=NOW + 300))
    with pytest.raises(PeerError) as caught:
        book.accept(told(KEYS["c"], created=NOW + 3600))
    assert "2023-11-14 23:13:20" in caught.value.message
    assert "2023-11-14 22:13:20" in caught.value.message


def test_a_revocation_is_never_refused_because_of_a_clock(tmp_path: Path) -> None:
    book = Home(tmp_path).open()
    assert book.accept(vote(B, KEYS["b"], created=NOW + 10 * DAY))
    assert book.tombstones == {B}


def test_older_catalogues_are_no_news(tmp_path: Path) -> None:
    book = Home(tmp_path).open()
    book.accept(told(KEYS["b"], [generator(B)], sequence=7))
    before = view(book)
    assert not book.accept(told(KEYS["b"], sequence=6))
    assert view(book) == before


def test_first_contact_takes_any_sequence_and_later_a_jump_is_refused(tmp_path: Path) -> None:
    book = Home(tmp_path).open()
    assert book.accept(told(KEYS["b"], sequence=5000))
    assert refusal(book, told(KEYS["b"], sequence=5000 + MAX_JUMP + 1)) == "sequence-jump"
    assert book.accept(told(KEYS["b"], sequence=5000 + MAX_JUMP))


def test_two_catalogues_of_one_sequence_quarantine_their_issuer_for_good(tmp_path: Path) -> None:
    home = Home(tmp_path)
    book = home.open()
    first, second = told(KEYS["b"], [generator(B)]), told(KEYS["b"], publishes=("bee",))
    book.accept(first)
    with pytest.raises(PeerError) as caught:
        book.accept(second)
    assert caught.value.code == "equivocation"
    assert book.quarantined == {B}
    assert book.standing(B) is Standing.QUARANTINED
    assert book.word().offers() == {}
    assert [news.envelope for news in book.evidence(B)] == [first.envelope, second.envelope]
    assert view(home.open()) == view(book)


def test_more_contradictions_of_a_quarantined_peer_are_not_kept(tmp_path: Path) -> None:
    home = Home(tmp_path)
    book = home.open()
    book.accept(told(KEYS["b"], [generator(B)]))
    with pytest.raises(PeerError):
        book.accept(told(KEYS["b"], publishes=("bee",)))
    for second in range(1, 20):
        assert refusal(book, told(KEYS["b"], created=NOW + second)) == "equivocation"
    assert len(book.evidence(B)) == len(home.open().evidence(B)) == 2


def test_evidence_convinces_a_node_that_saw_neither_catalogue(tmp_path: Path) -> None:
    here, there = Home(tmp_path, "a").open(), Home(tmp_path, "c").open()
    here.accept(told(KEYS["b"], [generator(B)]))
    with pytest.raises(PeerError):
        here.accept(told(KEYS["b"], publishes=("bee",)))
    with pytest.raises(PeerError) as caught:
        for news in here.news(C):
            there.accept(news)
    assert caught.value.code == "equivocation"
    assert there.quarantined == {B}


def test_a_restored_peer_is_not_quarantined_again_by_the_old_evidence(tmp_path: Path) -> None:
    home = Home(tmp_path)
    book = home.open()
    catalogues = [told(KEYS["b"], [generator(B)]), told(KEYS["b"], publishes=("bee",))]
    book.accept(catalogues[0])
    with pytest.raises(PeerError):
        book.accept(catalogues[1])
    book.restore(B)
    for news in catalogues:
        assert not home.open().accept(news)
    assert home.open().word().offers().keys() == {generator(B).pair}
    with pytest.raises(PeerError):
        book.accept(told(KEYS["b"], publishes=("cat",)))
    assert book.quarantined == {B}


def test_a_node_does_not_quarantine_itself(tmp_path: Path) -> None:
    book = Home(tmp_path).open()
    book.publish(KEYS["a"], ["ant"], [])
    assert refusal(book, told(KEYS["a"], publishes=("bee",))) == "own-key"


def test_leaving_binds_at_once_and_for_ever(tmp_path: Path) -> None:
    home = Home(tmp_path)
    book = home.open()
    book.accept(told(KEYS["b"], [generator(B)]))
    assert book.accept(vote(B, KEYS["b"]))
    assert book.tombstones == {B}
    assert book.standing(B) is Standing.REVOKED
    assert book.word().offers() == {}
    assert refusal(book, told(KEYS["b"], sequence=2)) == "revoked"
    home.listed = (C,)
    assert home.open().tombstones == {B}


@pytest.mark.parametrize(
    ("quorum", "listed", "needed"),
    [(0, (A, B, X), 2), (0, (A, B, C, D, X), 3), (0, (A, X), 2), (1, (A, B, C, X), 1), (3, (A, B, C, X), 3)],
)
def test_a_quorum_of_the_electorate_binds(tmp_path: Path, quorum: int, listed: tuple[PeerId, ...], needed: int) -> None:
    contract = CONTRACT.model_copy(update={"quorum": quorum})
    book = Home(tmp_path, listed=(*listed, B, C), contract=contract).open()
    book.set_listed(listed)
    for count, name in enumerate("abc", start=1):
        book.accept(vote(X, KEYS[name], contract=contract))
        assert (X in book.tombstones) == (count >= needed)


def test_equal_revocations_of_two_voters_are_two_votes(tmp_path: Path) -> None:
    home = Home(tmp_path, listed=(A, B, C, X))
    book = home.open()
    assert book.accept(vote(X, KEYS["b"]))
    assert book.accept(vote(X, KEYS["c"]))
    assert book.votes(X) == home.open().votes(X) == {B, C}
    assert home.open().tombstones == {X}


def test_a_vote_counts_once_and_a_joint_vote_for_each_signer(tmp_path: Path) -> None:
    book = Home(tmp_path, listed=(A, B, C, X)).open()
    assert book.accept(vote(X, KEYS["b"]))
    assert not book.accept(vote(X, KEYS["b"], created=NOW + 1))
    assert book.tombstones == frozenset()
    assert book.accept(vote(X, KEYS["b"], KEYS["c"]))
    assert book.tombstones == {X}


def test_the_vote_of_a_peer_that_is_no_longer_listed_counts(tmp_path: Path) -> None:
    book = Home(tmp_path, listed=(A, B, C, D, X)).open()
    book.set_listed((A, C, D, X))
    assert book.accept(vote(X, KEYS["b"]))
    assert book.votes(X) == {B}


def test_the_order_of_votes_and_leaves_does_not_matter(tmp_path: Path) -> None:
    news = [vote(X, KEYS["b"]), vote(X, KEYS["c"]), vote(Y, KEYS["y"])]
    ends = set()
    for number, order in enumerate(permutations(news)):
        book = Home(tmp_path / str(number), listed=(A, B, C, X, Y)).open()
        for item in order:
            book.accept(item)
        ends.add(book.tombstones)
    assert ends == {frozenset({X, Y})}


def test_a_smaller_roster_can_make_old_votes_bind(tmp_path: Path) -> None:
    book = Home(tmp_path, listed=(A, B, C, D, X)).open()
    book.accept(vote(X, KEYS["b"]))
    book.accept(vote(X, KEYS["c"]))
    assert book.tombstones == frozenset()
    book.set_listed((A, B, C, X))
    assert book.tombstones == {X}
    book.set_listed((A, B, C, D, X))
    assert book.tombstones == {X}


def test_revocations_of_keys_never_listed_are_kept_up_to_a_bound(tmp_path: Path) -> None:
    home = Home(tmp_path, limits=BookLimits(unlisted_subjects=2))
    book = home.open()
    assert book.accept(vote(X, KEYS["b"]))
    assert book.accept(vote(Y, KEYS["y"]))
    assert refusal(book, vote(Z, KEYS["z"])) == "too-many"
    assert book.accept(vote(X, KEYS["x"]))
    assert book.accept(vote(C, KEYS["c"]))
    home.listed = (A, B, C, X, Y)
    assert home.open().good() == {A, B}


def test_a_key_that_was_never_listed_here_needs_no_receipt(tmp_path: Path) -> None:
    book = Home(tmp_path).open()
    book.accept(vote(X, KEYS["x"]))
    assert book.tombstones == {X}
    assert book.unconfirmed() == frozenset()


def test_revoking_suspends_at_once_and_restoring_lifts_that_and_not_the_vote(tmp_path: Path) -> None:
    home = Home(tmp_path)
    book = home.open()
    book.accept(told(KEYS["b"], [generator(B)]))
    news = book.revoke(KEYS["a"], B, "a reason")
    assert book.suspended == {B}
    assert book.standing(B) is Standing.SUSPENDED
    assert book.word().offers() == {}
    assert view(home.open()) == view(book)
    book.restore(B)
    assert book.standing(B) is Standing.LISTED
    assert book.word().offers().keys() == {generator(B).pair}
    assert book.votes(B) == {A}
    assert book.revoke(KEYS["a"], B, "another reason") == news
    assert book.suspended == {B}


def test_a_vote_that_binds_at_once_suspends_nobody(tmp_path: Path) -> None:
    book = Home(tmp_path).open()
    book.accept(vote(B, KEYS["c"]))
    book.revoke(KEYS["a"], B, "a reason")
    assert book.tombstones == {B}
    assert book.suspended == frozenset()


def test_a_suspended_peer_can_be_restored_and_a_revoked_one_can_not(tmp_path: Path) -> None:
    book = Home(tmp_path).open()
    book.suspend(C, "a reason")
    assert book.good() == {A, B}
    book.accept(told(KEYS["c"], [generator(C)]))
    book.restore(C)
    assert book.word().offers().keys() == {generator(C).pair}
    book.accept(vote(B, KEYS["b"]))
    for peer in (B, C):
        with pytest.raises(RefusedError):
            book.restore(peer)


def test_only_listed_peers_are_suspended_and_only_known_ones_revoked(tmp_path: Path) -> None:
    book = Home(tmp_path).open()
    before = view(book)
    for peer in (A, X):
        with pytest.raises(RefusedError):
            book.suspend(peer, "a reason")
    with pytest.raises(RefusedError):
        book.revoke(KEYS["a"], X, "a reason")
    for reason in ("", "x" * 501):
        with pytest.raises(RefusedError):
            book.revoke(KEYS["a"], B, reason)
    assert view(book) == before


def test_a_peer_hears_revocations_first_then_catalogues_then_receipts(tmp_path: Path) -> None:
    book = Home(tmp_path, listed=(A, B, C, D)).open()
    book.accept(receipt(KEYS["b"]))
    book.accept(told(KEYS["b"], [generator(B)]))
    book.publish(KEYS["a"], [], [])
    book.accept(told(KEYS["c"]))
    book.accept(vote(C, KEYS["c"]))
    told_first = book.news(D)
    assert [news.kind for news in told_first] == ["revocation", "catalogue", "catalogue", "receipt"]
    other = Home(tmp_path, "d", listed=(A, B, C)).open()
    assert [other.accept(news) for news in told_first] == [True] * 4
    assert other.word().offers() == book.word().offers()
    assert other.tombstones == {C}


def test_a_revoked_peer_hears_only_what_is_about_itself(tmp_path: Path) -> None:
    book = Home(tmp_path, listed=(A, B, C, X)).open()
    book.publish(KEYS["a"], [], [])
    leaves = {subject: vote(subject, key) for subject, key in ((B, KEYS["b"]), (C, KEYS["c"]))}
    for news in leaves.values():
        book.accept(news)
    receipts = {peer: book.confirm(KEYS["a"], [peer], [], []) for peer in (B, C)}
    assert book.news(B) == [leaves[B], receipts[B]]
    book.suspend(X, "a reason")
    assert book.news(X) == []
    assert book.news(Y) == []


def test_who_has_left_tells_nothing_but_that_and_publishes_nothing_more(tmp_path: Path) -> None:
    home = Home(tmp_path)
    book = home.open()
    book.accept(told(KEYS["b"], [generator(B)]))
    book.publish(KEYS["a"], [], [])
    leave = book.revoke(KEYS["a"], A, "we close")
    assert book.tombstones == {A}
    assert book.news(B) == book.news() == home.open().news() == [leave]
    with pytest.raises(RefusedError):
        book.publish(KEYS["a"], [], [])
    home.clock.now += 2 * DAY
    assert book.renew(KEYS["a"]) is None


def test_a_sequence_is_never_used_twice_and_each_catalogue_names_the_one_before(tmp_path: Path) -> None:
    home = Home(tmp_path)
    other = Home(tmp_path, "b").open()
    before: Catalogue | None = None
    for sequence in (1, 2, 3):
        news = home.open().publish(KEYS["a"], ["bee", "ant"], [])
        said, signers = Catalogue.read(news.envelope)
        assert (said.sequence, said.previous) == (sequence, before and before.digest)
        assert (said.publishes, tuple(signers)) == (("ant", "bee"), (A,))
        assert said.fresh_until == NOW + FRESH_SECONDS
        assert other.accept(news)
        before = said


def test_our_manifests_are_signed_kept_and_listed(tmp_path: Path) -> None:
    home = Home(tmp_path)
    book = home.open()
    manifest = generator(A)
    book.add_manifest(KEYS["a"], manifest)
    assert book.word().offers() == {}
    assert home.open().word().manifests == {manifest.digest: manifest}
    news = home.open().publish(KEYS["a"], [], [manifest.digest])
    other = Home(tmp_path, "b").open()
    assert other.accept(news)
    assert other.word().offers() == home.open().word().offers() == {manifest.pair: manifest}


def test_a_manifest_of_another_issuer_or_contract_is_not_added_and_an_unknown_one_not_listed(tmp_path: Path) -> None:
    book = Home(tmp_path).open()
    before = view(book)
    for manifest in (generator(B), generator(A, contract=OTHER)):
        with pytest.raises(PeerError):
            book.add_manifest(KEYS["a"], manifest)
    with pytest.raises(KeyError):
        book.publish(KEYS["a"], [], [generator(A).digest])
    assert view(book) == before


def test_a_node_restored_from_a_backup_goes_on_from_its_own_highest_sequence(tmp_path: Path) -> None:
    book = Home(tmp_path).open()
    manifest = generator(A)
    assert book.accept(told(KEYS["a"], [manifest], sequence=9))
    said, _ = Catalogue.read(book.publish(KEYS["a"], [], [manifest.digest]).envelope)
    assert said.sequence == 10
    assert book.accept(told(KEYS["a"], sequence=10 + 2 * MAX_JUMP))


def test_a_catalogue_is_signed_again_after_a_day(tmp_path: Path) -> None:
    home = Home(tmp_path)
    book = home.open()
    assert book.renew(KEYS["a"]) is None
    manifest = generator(A)
    book.add_manifest(KEYS["a"], manifest)
    book.publish(KEYS["a"], ["ant"], [manifest.digest])
    home.clock.now += DAY - 1
    assert book.renew(KEYS["a"]) is None
    home.clock.now += 1
    news = book.renew(KEYS["a"])
    assert news is not None
    said, _ = Catalogue.read(news.envelope)
    assert (said.sequence, said.publishes, said.manifests) == (2, ("ant",), (manifest.digest,))
    assert said.fresh_until == NOW + DAY + FRESH_SECONDS
    assert book.renew(KEYS["a"]) is None


def test_a_catalogue_signed_while_the_clock_was_ahead_is_signed_again_once_it_is_right(tmp_path: Path) -> None:
    home = Home(tmp_path)
    book = home.open()
    home.clock.now += 1000 * DAY
    book.publish(KEYS["a"], ["ant"], [])
    home.clock.now -= 1000 * DAY
    news = book.renew(KEYS["a"])
    assert news is not None
    assert Catalogue.read(news.envelope)[0].created == NOW
    home.clock.now -= 60
    assert book.renew(KEYS["a"]) is None


def test_a_receipt_confirms_what_was_revoked_and_reports_what_was_erased(tmp_path: Path) -> None:
    home = Home(tmp_path)
    book, ledger = home.open(), home.ledger()
    erased = [Pair(B, digest("1")), Pair(A, digest("2"))]
    for pair in erased:
        ledger.record_erasure(pair, "generator")
    book.accept(vote(B, KEYS["b"]))
    assert book.unconfirmed() == {B}
    news = book.confirm(KEYS["a"], book.unconfirmed(), erased, [digest("3")])
    assert book.unconfirmed() == home.open().unconfirmed() == frozenset()
    assert ledger.unreported() == frozenset()
    other = Home(tmp_path, "c").open()
    assert other.accept(news)
    assert not other.accept(news)
    (said,) = other.receipts()
    assert (said.issuer, said.revoked, said.erased, said.rebuilt) == (A, (B,), tuple(sorted(erased)), (digest("3"),))
    assert other.unconfirmed() == frozenset()


def test_what_is_too_much_for_one_receipt_stays_for_the_next(tmp_path: Path) -> None:
    peers = [identity(number).peer_id for number in range(100, 100 + MAX_REVOKED + 1)]
    home = Home(tmp_path, listed=tuple(peers))
    ledger = home.ledger()
    with ledger.transaction("erasure"):
        for number in range(MAX_ERASED + 1):
            ledger.record_erasure(Pair(B, digest(str(number))), "generator")
        ledger.add_tombstones(peers)
    book = home.open()
    for left in (1, 0):
        book.confirm(KEYS["a"], book.unconfirmed(), ledger.unreported(), [])
        assert (len(book.unconfirmed()), len(ledger.unreported())) == (left, left)


def test_a_key_that_a_statement_names_many_times_is_checked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    erased = tuple(sorted(Pair(B, digest(f"weights {number}")) for number in range(100)))
    sealed = Receipt(contract=CONTRACT.id, created=NOW, issuer=A, revoked=(), erased=erased, rebuilt=()).seal(KEYS["a"])
    checked: list[bytes] = []
    check = curve.check_public_key
    monkeypatch.setattr(curve, "check_public_key", lambda public: (checked.append(public), check(public)))
    Receipt.read(sealed)
    assert len(checked) <= 4


def test_another_node_s_receipt_reports_nothing_of_ours(tmp_path: Path) -> None:
    home = Home(tmp_path)
    book, ledger = home.open(), home.ledger()
    pair = Pair(C, digest("1"))
    ledger.record_erasure(pair, "generator")
    book.accept(vote(C, KEYS["c"]))
    other = Home(tmp_path, "b").open()
    book.accept(other.confirm(KEYS["b"], [C], [pair], []))
    assert ledger.unreported() == {pair}
    assert book.unconfirmed() == {C}


def test_the_receipts_kept_of_a_peer_are_bounded_and_do_not_depend_on_their_order(tmp_path: Path) -> None:
    news = [receipt(KEYS["b"], [C], NOW), *(receipt(KEYS["b"], created=NOW + number) for number in (1, 2))]
    for number, order in enumerate(permutations(news)):
        book = Home(tmp_path / str(number), limits=BookLimits(receipts=2)).open()
        for item in order:
            book.accept(item)
        assert {(said.created, said.revoked) for said in book.receipts()} == {(NOW, (C,)), (NOW + 2, ())}
        assert not any(book.accept(item) for item in news)


def test_the_manifests_kept_of_a_peer_are_bounded(tmp_path: Path) -> None:
    one = generator(B, weights="1")
    size = len(one.seal(KEYS["b"]))
    book = Home(tmp_path, limits=BookLimits(manifest_bytes=size + 10)).open()
    assert book.accept(told(KEYS["b"], [one]))
    assert refusal(book, told(KEYS["b"], [generator(B, weights="2")], sequence=2)) == "too-many"
    assert book.accept(told(KEYS["c"], [generator(C)]))


def test_statements_of_an_earlier_contract_are_out_of_sight_and_tombstones_stay(tmp_path: Path) -> None:
    home = Home(tmp_path)
    book = home.open()
    book.publish(KEYS["a"], [], [])
    book.accept(told(KEYS["b"], [generator(B)]))
    book.accept(vote(C, KEYS["c"]))
    home.contract = WIDE
    again = home.open()
    assert again.word().catalogues == {}
    assert again.tombstones == {C}
    said, _ = Catalogue.read(again.publish(KEYS["a"], [], []).envelope)
    assert said.sequence == 1


def test_a_damaged_statement_in_the_ledger_is_one_sentence(tmp_path: Path) -> None:
    home = Home(tmp_path)
    home.open().accept(told(KEYS["b"]))
    ledger = home.ledger()
    (record,) = ledger.statements("catalogue")
    ledger.drop_statement("catalogue", record.digest)
    ledger.put_statement(type(record)(**{**record.__dict__, "envelope": record.envelope[:-9]}))
    with pytest.raises(StorageError, match="damaged"):
        home.open()


def equivocate(book: Book) -> None:
    with pytest.raises(PeerError):
        book.accept(told(KEYS["y"]))
        book.accept(told(KEYS["y"], publishes=("bee",)))
        raise PeerError("known", "The evidence was known before.")


EXPERT = expert(C, [generator(B).pair, generator(C).pair])
STEPS: tuple[Callable[[Book], object], ...] = (
    lambda book: book.accept(told(KEYS["b"], [generator(B)])),
    lambda book: C in book.tombstones or book.accept(told(KEYS["c"], [generator(C), EXPERT])),
    lambda book: book.add_manifest(KEYS["a"], generator(A)),
    lambda book: book.word().catalogues.get(A) or book.publish(KEYS["a"], ["ant"], [generator(A).digest]),
    lambda book: book.suspend(D, "a reason"),
    lambda book: book.accept(vote(C, KEYS["c"])),
    lambda book: book.unconfirmed() and book.confirm(KEYS["a"], [C], [], []),
    lambda book: book.accept(receipt(KEYS["b"], [C])),
    equivocate,
    lambda book: D in book.suspended and book.restore(D),
    lambda book: book.revoke(KEYS["a"], X, "a reason"),
)


def live(home: Home) -> Book:
    """All steps, as often as one likes: what was done before is not done again."""
    book = home.open()
    for step in STEPS:
        step(book)
    return book


BOOK_FAILPOINTS = sorted(
    f"ledger.{moment}.{name}"
    for moment in ("commit", "committed")
    for name in ("catalogue", "manifest", "quarantine", "receipt", "revocation", "roster", "standing", "schema")
)
EVERYONE = (A, B, C, D, X, Y)


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory) -> tuple[object, ...]:
    """What a book says after a life without crashes."""
    return view(live(Home(tmp_path_factory.mktemp("reference"), listed=EVERYONE)))


def test_every_failpoint_of_the_book_is_one_there_is() -> None:
    assert set(BOOK_FAILPOINTS) <= failpoints.NAMES


@pytest.mark.parametrize("failpoint", BOOK_FAILPOINTS)
def test_a_kill_anywhere_leaves_a_whole_view_and_the_rest_can_be_done_again(
    tmp_path: Path, reference: tuple[object, ...], failpoint: str
) -> None:
    home = Home(tmp_path, listed=EVERYONE)
    assert dies_at(failpoint, lambda: live(home))
    whole = {manifest.pair for manifest in (generator(A), generator(B), generator(C), EXPERT)}
    assert home.open().word().offers().keys() <= whole
    assert view(live(home)) == view(home.open()) == reference


@pytest.mark.parametrize("name", ["catalogue", "manifest", "quarantine", "receipt", "revocation", "standing"])
def test_a_full_disk_keeps_nothing_and_memory_says_the_same_as_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    home = Home(tmp_path, listed=EVERYONE)
    book = home.open()
    monkeypatch.setenv("FEDNODE_FAILPOINT", f"ledger.commit.{name}:enospc")
    with pytest.raises(StorageError):
        for step in STEPS:
            before = view(book)
            step(book)
    if name != "quarantine":
        assert view(book) == before
    monkeypatch.delenv("FEDNODE_FAILPOINT")
    assert view(home.open()) == view(book)


def evaluation(
    by: Identity, *parts: Manifest, created: int = NOW, labels: Sequence[str] = ("ant", "bee"), images: int = 5
) -> News:
    """What an issuer counted about these artifacts."""
    row = Row(label=labels[0], answered=((0, images),), losses=(0,))
    statement = Evaluation(
        contract=CONTRACT.id,
        created=created,
        issuer=by.peer_id,
        grid=digest("grid"),
        labels=tuple(labels),
        lineage=tuple(sorted(part.pair for part in parts)),
        scores=(Scores(cell="experts", rows=(row,)),),
    )
    return News("evaluation", statement.seal(by))


def counted(book: Book) -> dict[PeerId, int]:
    """When each party in good standing counted last."""
    return {peer: found.created for peer, found in book.evaluations().items()}


def test_of_an_issuers_evaluations_the_newest_is_kept_and_told(tmp_path: Path) -> None:
    home = Home(tmp_path)
    book = home.open()
    ant = generator(B)
    book.accept(told(KEYS["b"], [ant]))
    newer = evaluation(KEYS["c"], ant, created=NOW + 1)
    assert book.accept(evaluation(KEYS["c"], ant))
    assert book.accept(newer)
    assert not book.accept(newer)
    assert not book.accept(evaluation(KEYS["c"], ant))
    assert not book.accept(evaluation(KEYS["c"], ant, created=NOW + 1, images=9))
    assert counted(book) == {C: NOW + 1}
    assert book.news()[-1] == newer
    assert counted(home.open()) == {C: NOW + 1}
    assert len(home.ledger().statements("evaluation")) == 1


def test_our_own_evaluation_is_kept_told_and_no_news_from_others(tmp_path: Path) -> None:
    home = Home(tmp_path)
    book = home.open()
    ant = generator(A)
    book.add_manifest(home.key, ant)
    book.publish(home.key, ["ant"], [ant.digest])
    statement, _ = Evaluation.read(evaluation(home.key, ant).envelope)
    news = book.evaluate(home.key, statement)
    assert book.news()[-1] == news
    assert not book.accept(evaluation(home.key, ant, created=NOW + 9))
    assert counted(home.open()) == {A: NOW}


@pytest.mark.parametrize(
    ("news", "code"),
    [
        (evaluation(KEYS["x"], generator(B)), "stranger"),
        (evaluation(KEYS["b"], generator(B), labels=("bee", "ant")), "bad-evaluation"),
        (evaluation(KEYS["b"], generator(B), labels=("ant", "zebra")), "bad-evaluation"),
        (evaluation(KEYS["b"], generator(B), created=NOW + DAY), "clock"),
        (News("evaluation", evaluation(KEYS["b"], generator(B)).envelope[:-9]), "bad-statement"),
        (News("evaluation", receipt(KEYS["b"]).envelope), "bad-statement"),
    ],
)
def test_an_evaluation_is_refused(tmp_path: Path, news: News, code: str) -> None:
    assert refusal(Home(tmp_path).open(), news) == code


def test_an_evaluation_that_another_signed_is_refused(tmp_path: Path) -> None:
    statement, _ = Evaluation.read(evaluation(KEYS["b"], generator(B)).envelope)
    assert refusal(Home(tmp_path).open(), News("evaluation", statement.seal(KEYS["c"]))) == "not-signed"


def test_an_evaluation_of_what_was_never_heard_of_waits_and_one_of_what_is_void_is_dropped(tmp_path: Path) -> None:
    home = Home(tmp_path)
    book = home.open()
    ant, bee = generator(B, "ant"), generator(B, "bee")
    book.accept(told(KEYS["b"], [ant]))
    assert book.accept(evaluation(KEYS["c"], ant, bee))
    book.forget_void()
    assert counted(book) == {C: NOW}
    book.accept(told(KEYS["b"], [ant, bee], sequence=2))
    book.forget_void()
    assert counted(book) == {C: NOW}
    book.accept(told(KEYS["b"], [bee], sequence=3))
    book.forget_void()
    assert counted(book) == {}
    assert home.ledger().statements("evaluation") == []
    assert not book.accept(evaluation(KEYS["c"], ant, bee, created=NOW + 1))
    assert book.accept(evaluation(KEYS["c"], bee, created=NOW + 1))


def test_evaluations_of_and_about_a_revoked_peer_are_dropped_and_those_about_a_suspended_one_come_back(
    tmp_path: Path,
) -> None:
    book = Home(tmp_path).open()
    ant = generator(B)
    book.accept(told(KEYS["b"], [ant]))
    book.accept(evaluation(KEYS["c"], ant))
    book.accept(evaluation(KEYS["b"], ant))
    book.suspend(B, "a test")
    book.forget_void()
    assert counted(book) == {C: NOW}
    book.restore(B)
    assert counted(book) == {B: NOW, C: NOW}
    book.accept(vote(B, KEYS["b"]))
    book.forget_void()
    assert counted(book) == {}
    assert not book.accept(evaluation(KEYS["c"], ant, created=NOW + 1))
