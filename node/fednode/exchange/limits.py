"""Every size, count and time that a peer can choose, and the pace at which we try again."""

from dataclasses import dataclass

MIB = 2**20


@dataclass(frozen=True)
class ExchangeLimits:
    """Bytes, counts and seconds.

    A transfer is bounded by lack of progress alone: `idle` for each piece, so by (pieces x idle) in all.
    """

    message: int = 16 * MIB  # the biggest is a catalogue with all its manifests
    evaluation: int = MIB + 1024  # a message with an evaluation
    small: int = 256 * 1024  # every other message but pieces and piece lists
    manifests: int = 4096  # that come with one catalogue
    wants: int = 1000  # artifacts named in one message
    outbox: int = 10_000  # messages that wait for one peer
    streams: int = 64  # RPCs on one connection
    calls: int = 1024  # RPCs in all
    calls_per_peer: int = 32
    connections: int = 512
    fetches: int = 4  # at the same time, in all
    fetches_per_peer: int = 2
    handshake: float = 10.0
    hello: float = 20.0
    idle: float = 60.0
    first_pause: float = 0.2
    last_pause: float = 30.0
    keepalive: float = 210.0  # shorter ones are taken for abuse and end the connection
    ping: float = 20.0
    connection_age: float = 1800.0
    leaf_age: float = 24 * 3600.0
