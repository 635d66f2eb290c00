"""Messages and values: everything survives the way there and back, and what is wrong is a peer's fault."""

import grpc
import pytest
from exchanging import CONTRACT, LIMITS, generator_of, weights
from hypothesis import given
from hypothesis import strategies as st

from fednode.book import News
from fednode.errors import PeerError
from fednode.exchange import wire
from fednode.exchange.events import Gone, Greeting, Have, Send, Want
from fednode.exchange.faults import fault_of, status_of
from fednode.exchange.limits import ExchangeLimits
from fednode.lineage import Pair
from fednode_crypto.digest import PIECE_SIZE
from fednode_crypto.identity import Identity
from fednode_protos import exchange_pb2 as pb

ISSUER = Identity.generate().peer_id
PAIR = Pair(ISSUER, "5" * 64)
MANIFEST, PIECES = generator_of(ISSUER, weights(2 * PIECE_SIZE + 5))
GREETING = Greeting("fednode 1.2.3", (1, 2), CONTRACT, 1_700_000_000.25, "0" * 64)


@pytest.mark.parametrize(
    "event",
    [
        News("catalogue", b"c", (b"one", b"two")),
        News("revocation", b"v"),
        News("receipt", b"r"),
        Want(()),
        Want((PAIR, Pair(ISSUER, "6" * 64))),
        Have(PAIR),
        Gone(PAIR),
        Send(PAIR),
    ],
)
def test_what_is_said_arrives(event):
    sent = wire.watch_message(event).SerializeToString()
    assert wire.event_of(pb.WatchMessage.FromString(sent), LIMITS) == event


def test_a_greeting_arrives():
    assert wire.greeting_of(wire.greeting_message(GREETING)) == GREETING


def test_words_of_a_later_version_are_skipped():
    assert wire.event_of(pb.WatchMessage(), LIMITS) is None
    assert wire.event_of(pb.WatchMessage(news=pb.News(kind=99, envelope=b"x")), LIMITS) is None


@pytest.mark.parametrize(
    "artifact",
    [
        pb.Artifact(),
        pb.Artifact(issuer="../../etc", digest="5" * 64),
        pb.Artifact(issuer=ISSUER.upper(), digest="5" * 64),
        pb.Artifact(issuer=ISSUER[:-1] + ("a" if ISSUER[-1] != "a" else "b"), digest="5" * 64),
        pb.Artifact(issuer=ISSUER, digest="5" * 63),
        pb.Artifact(issuer=ISSUER, digest="A" * 64),
        pb.Artifact(issuer=ISSUER, digest="5" * 64 + "\n"),
        pb.Artifact(issuer=ISSUER, digest="../" * 21 + "5"),
    ],
)
def test_an_artifact_with_a_wrong_name_is_a_fault(artifact):
    for message in (pb.WatchMessage(have=artifact), pb.WatchMessage(want=pb.Want(artifacts=[artifact]))):
        with pytest.raises(PeerError) as fault:
            wire.event_of(message, LIMITS)
        assert fault.value.code == "protocol"


@pytest.mark.parametrize(
    "message",
    [
        pb.WatchMessage(news=pb.News(kind=1)),
        pb.WatchMessage(news=pb.News(kind=1, envelope=b"x", attachments=[b""] * 6)),
        pb.WatchMessage(news=pb.News(kind=2, envelope=b"x" * 2000)),
        pb.WatchMessage(news=pb.News(kind=4, envelope=b"x", attachments=[b"x" * 6000])),
        pb.WatchMessage(want=pb.Want(artifacts=[wire.artifact_message(PAIR)] * 6)),
        pb.WatchMessage(want=pb.Want(artifacts=[pb.Artifact(issuer="x" * 2000)])),
        pb.WatchMessage(have=pb.Artifact(issuer="x" * 2000)),
    ],
)
def test_too_much_is_a_fault(message):
    limits = ExchangeLimits(small=1000, evaluation=5000, manifests=5, wants=5)
    with pytest.raises(PeerError) as fault:
        wire.event_of(message, limits)
    assert fault.value.code == "protocol"


def test_an_evaluation_may_be_longer_than_other_small_messages():
    news = News("evaluation", b"x" * 4000)
    limits = ExchangeLimits(small=1000, evaluation=5000)
    assert wire.event_of(wire.watch_message(news), limits) == news


@pytest.mark.parametrize(
    "greeting",
    [
        None,
        pb.Greeting(),
        pb.Greeting(contract="c" * 63, roster="0" * 64),
        pb.Greeting(contract=CONTRACT, roster="zero"),
        pb.Greeting(contract=CONTRACT, roster="0" * 64, protocols=range(100)),
    ],
)
def test_a_wrong_greeting_is_a_fault(greeting):
    with pytest.raises(PeerError):
        wire.greeting_of(greeting)


def test_what_a_peer_calls_itself_is_shown_as_one_short_line():
    message = wire.greeting_message(GREETING)
    message.software = "evil\n\x1b[31m" + "é" * 100
    shown = wire.greeting_of(message).software
    assert (len(shown), shown.isprintable(), shown.isascii()) == (40, True, True)


def test_an_offer_is_taken_only_with_the_piece_list_of_its_digest():
    assert wire.offered(wire.offer_message(MANIFEST.pair, PIECES)) == (MANIFEST.pair, PIECES)
    for wrong in (
        wire.offer_message(PAIR, PIECES),
        pb.Part(offer=pb.Offer(artifact=wire.artifact_message(PAIR), pieces=b"[]")),
        pb.Part(piece=pb.Piece(index=0, data=b"x")),
        pb.Part(),
        None,
    ):
        with pytest.raises(PeerError):
            wire.offered(wrong)


@pytest.mark.parametrize("first", [0, 1, 2, 3])
def test_any_piece_or_none_can_be_the_first_that_is_asked_for(first):
    missing = range(first, 3)
    assert wire.asked_first(wire.ask_first(missing, PIECES), PIECES) == first


@pytest.mark.parametrize("ask", [None, pb.Ask(), pb.Ask(first=4), wire.ask_artifact(PAIR)])
def test_a_wrong_first_piece_is_a_fault(ask):
    with pytest.raises(PeerError):
        wire.asked_first(ask, PIECES)


@pytest.mark.parametrize(
    ("part", "code"),
    [
        (None, "cut"),
        (pb.Part(), "protocol"),
        (wire.piece_message(2, b"12345"), "protocol"),
        (wire.piece_message(1, b"1234"), "bad-piece"),
        (wire.piece_message(1, b"123456"), "bad-piece"),
    ],
)
def test_a_piece_that_is_not_the_next_one_is_a_fault(part, code):
    with pytest.raises(PeerError) as fault:
        wire.piece_of(part, 1, 5)
    assert fault.value.code == code


def test_the_next_piece_is_taken():
    assert wire.piece_of(wire.piece_message(1, b"12345"), 1, 5) == b"12345"


@given(st.binary(max_size=200))
def test_any_bytes_are_a_message_or_nothing_and_never_an_exception_of_another_kind(data):
    for kind, read in (
        (pb.WatchMessage, lambda message: wire.event_of(message, LIMITS)),
        (pb.Greeting, wire.greeting_of),
        (pb.Part, wire.offered),
        (pb.Ask, wire.asked_artifact),
        (pb.Part, lambda message: wire.piece_of(message, 0, 5)),
    ):
        message = wire.lenient(kind.FromString)(data)
        try:
            if message is not None:
                read(message)
        except PeerError:
            pass


@pytest.mark.parametrize("code", ["bad-statement", "bad-piece", "not-allowed", "protocol"])
def test_a_peer_is_told_a_code_and_no_sentence(code):
    assert status_of(PeerError(code, "a secret path /home/x"))[1] == code


@pytest.mark.parametrize(
    ("status", "details", "code", "said"),
    [
        (grpc.StatusCode.UNAVAILABLE, "errors resolving x: y", "unreachable", "can't be resolved"),
        (grpc.StatusCode.UNAVAILABLE, "WRONG_VERSION_NUMBER", "not-tls", "does not speak TLS"),
        (grpc.StatusCode.DEADLINE_EXCEEDED, "", "unreachable", "did not answer in time"),
        (grpc.StatusCode.UNIMPLEMENTED, "", "other-version", "another protocol"),
        (grpc.StatusCode.RESOURCE_EXHAUSTED, "busy", "busy", "no more calls"),
        (grpc.StatusCode.FAILED_PRECONDITION, "contract: a\x1b[ there", "other-contract", "contract: a?[ there"),
        (grpc.StatusCode.UNKNOWN, "a\nlong\nstory", "cut", "unknown"),
    ],
)
def test_an_error_of_grpc_becomes_one_sentence(status, details, code, said):
    error = grpc.aio.AioRpcError(status, grpc.aio.Metadata(), grpc.aio.Metadata(), details)
    fault = fault_of(error, ISSUER, "192.0.2.7:7777")
    assert fault.code == code
    assert said in str(fault)
    assert "\n" not in str(fault)
