"""Between messages and values.

Rule 1: what a peer sent is checked here before anything else sees it: ids parsed, digests matched, sizes and counts bounded.
Rule 2: a message that is wrong in any way is a PeerError `protocol`; a kind of news or word from a later version is skipped.
"""

import re
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from google.protobuf.message import DecodeError, Message

from fednode.book import News
from fednode.errors import PeerError
from fednode.exchange.events import Event, Gone, Greeting, Have, Send, Want
from fednode.exchange.limits import ExchangeLimits
from fednode.lineage import Pair
from fednode_crypto.digest import PieceList
from fednode_crypto.errors import DigestError, PeerIdError
from fednode_crypto.identity import PeerId, public_bytes
from fednode_protos import exchange_pb2 as pb

T = TypeVar("T")

_HEX = re.compile(r"[0-9a-f]{64}")
_KINDS = {
    "catalogue": pb.News.KIND_CATALOGUE,
    "revocation": pb.News.KIND_REVOCATION,
    "receipt": pb.News.KIND_RECEIPT,
    "evaluation": pb.News.KIND_EVALUATION,
}
_NAMES: dict[int, Any] = {number: name for name, number in _KINDS.items()}


def lenient(parse: Callable[[bytes], T]) -> Callable[[bytes], T | None]:
    """A parser that gives None for bytes that are no message, where gRPC would log a traceback."""

    def parsed(data: bytes) -> T | None:
        try:
            return parse(data)
        except DecodeError:
            return None

    return parsed


def printable(text: str, length: int = 200) -> str:
    """A peer's text as it may be shown: one line of ASCII, cut."""
    return "".join(char if " " <= char <= "~" else "?" for char in text[:length])


def artifact_message(pair: Pair) -> pb.Artifact:
    """The message that names an artifact."""
    return pb.Artifact(issuer=pair.issuer, digest=pair.digest)


def pair_of(message: pb.Artifact) -> Pair:
    """The artifact that a message names. Raises PeerError."""
    try:
        public_bytes(PeerId(message.issuer))
    except PeerIdError:
        raise PeerError("protocol", "An artifact is named by an issuer that is no peer id.") from None
    return Pair(PeerId(message.issuer), _digest(message.digest))


def news_message(news: News) -> pb.News:
    """The message that carries a statement."""
    return pb.News(kind=_KINDS[news.kind], envelope=news.envelope, attachments=news.attachments)


def news_of(message: pb.News, limits: ExchangeLimits) -> News | None:
    """The statement in a message, still unverified; None for a kind that we do not know. Raises PeerError."""
    if message.kind not in _NAMES:
        return None
    if len(message.attachments) > limits.manifests or not message.envelope:
        raise PeerError("protocol", "A statement came with too many attachments, or empty.")
    if message.kind != pb.News.KIND_CATALOGUE:
        _bound(message, limits.evaluation if message.kind == pb.News.KIND_EVALUATION else limits.small)
    return News(_NAMES[message.kind], message.envelope, tuple(message.attachments))


def news_size(news: News) -> int:
    """Bytes of a statement and what comes with it."""
    return len(news.envelope) + sum(map(len, news.attachments))


def watch_message(event: Event) -> pb.WatchMessage:
    """The message that says an event."""
    match event:
        case News():
            return pb.WatchMessage(news=news_message(event))
        case Want():
            return pb.WatchMessage(want=pb.Want(artifacts=map(artifact_message, event.pairs)))
        case Have():
            return pb.WatchMessage(have=artifact_message(event.pair))
        case Gone():
            return pb.WatchMessage(gone=artifact_message(event.pair))
        case Send():
            return pb.WatchMessage(send=artifact_message(event.pair))


def event_of(message: pb.WatchMessage, limits: ExchangeLimits) -> Event | None:
    """What a message says; None for something that we do not know. Raises PeerError."""
    body = message.WhichOneof("body")
    if body == "news":
        return news_of(message.news, limits)
    _bound(message, limits.small)
    if body == "want":
        if len(message.want.artifacts) > limits.wants:
            raise PeerError("protocol", f"More than {limits.wants} artifacts are wanted in one message.")
        return Want(tuple(map(pair_of, message.want.artifacts)))
    words: dict[str | None, Callable[[Pair], Event]] = {"have": Have, "gone": Gone, "send": Send}
    return words[body](pair_of(getattr(message, str(body)))) if body in words else None


def greeting_message(greeting: Greeting) -> pb.Greeting:
    """The message that says a greeting."""
    return pb.Greeting(
        software=greeting.software,
        protocols=greeting.protocols,
        contract=greeting.contract,
        clock_ms=round(greeting.clock * 1000),
        roster=greeting.roster,
    )


def greeting_of(message: pb.Greeting | None) -> Greeting:
    """What a peer says of itself. Raises PeerError."""
    if message is None or len(message.protocols) > 16:
        raise PeerError("protocol", "The greeting can't be read.")
    software = printable(message.software, 40)
    contract, roster = _digest(message.contract), _digest(message.roster)
    return Greeting(software, tuple(message.protocols), contract, message.clock_ms / 1000, roster)


def asked_artifact(message: pb.Ask | None) -> Pair:
    """The artifact that an ask names. Raises PeerError."""
    if message is None or message.WhichOneof("body") != "artifact":
        raise PeerError("protocol", "The first message of a transfer names no artifact.")
    return pair_of(message.artifact)


def ask_artifact(pair: Pair) -> pb.Ask:
    """The message that asks for an artifact."""
    return pb.Ask(artifact=artifact_message(pair))


def ask_first(missing: Sequence[int], pieces: PieceList) -> pb.Ask:
    """The message that asks for the first missing piece and all after it, or for none."""
    return pb.Ask(first=missing[0] if missing else len(pieces.pieces))


def asked_first(message: pb.Ask | None, pieces: PieceList) -> int:
    """The first piece that is asked for: 0 to their number, which asks for none. Raises PeerError."""
    if message is None or message.WhichOneof("body") != "first" or message.first > len(pieces.pieces):
        raise PeerError("protocol", "No piece of the artifact is asked for.")
    return message.first


def offer_message(pair: Pair, pieces: PieceList) -> pb.Part:
    """The message that begins a transfer."""
    return pb.Part(offer=pb.Offer(artifact=artifact_message(pair), pieces=pieces.to_bytes()))


def offered(message: pb.Part | None) -> tuple[Pair, PieceList]:
    """The artifact that a peer offers, and the piece list, whose digest is that of the artifact. Raises PeerError."""
    if message is None or message.WhichOneof("body") != "offer":
        raise PeerError("protocol", "A transfer does not begin with a piece list.")
    pair = pair_of(message.offer.artifact)
    try:
        pieces = PieceList.from_bytes(message.offer.pieces)
    except DigestError as error:
        raise PeerError("bad-pieces", f"The piece list of {pair.digest[:12]} can't be used: {error}") from None
    if pieces.digest != pair.digest:
        raise PeerError("bad-pieces", f"The piece list that was sent is not that of {pair.digest[:12]}.")
    return pair, pieces


def piece_message(index: int, data: bytes) -> pb.Part:
    """The message that carries a piece."""
    return pb.Part(piece=pb.Piece(index=index, data=data))


def piece_of(message: pb.Part | None, index: int, length: int) -> bytes:
    """Piece `index`, of that length; its hash is checked where it is written. Raises PeerError."""
    if message is None:
        raise PeerError("cut", "The stream ended.")
    if message.WhichOneof("body") != "piece" or message.piece.index != index:
        raise PeerError("protocol", f"Piece {index} was due, and something else came.")
    if len(message.piece.data) != length:
        raise PeerError("bad-piece", f"Piece {index} has {len(message.piece.data)} bytes and not {length}.")
    return message.piece.data


def _digest(text: str) -> str:
    if not _HEX.fullmatch(text):
        raise PeerError("protocol", "A digest is not 64 hex digits.")
    return text


def _bound(message: Message, most: int) -> None:
    if message.ByteSize() > most:
        raise PeerError("protocol", f"A message is longer than {most} bytes.")
