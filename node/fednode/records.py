"""What the ledger holds: its tables, and the values that come out of them."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from fednode.lineage import Pair
from fednode_crypto.identity import PeerId

VERSION = 1

JobState = Literal["running", "done", "failed"]

SCHEMA = (
    """CREATE TABLE statements (id TEXT PRIMARY KEY, kind TEXT NOT NULL, digest TEXT NOT NULL, issuer TEXT NOT NULL,
       subject TEXT, sequence INTEGER, envelope BLOB NOT NULL, received REAL NOT NULL)""",
    """CREATE TABLE jobs (digest TEXT PRIMARY KEY, kind TEXT NOT NULL, spec TEXT NOT NULL, state TEXT NOT NULL,
       result TEXT, reason TEXT NOT NULL, at REAL NOT NULL)""",
    "CREATE TABLE listed (peer TEXT PRIMARY KEY)",
    "CREATE TABLE tombstones (peer TEXT PRIMARY KEY)",
    "CREATE TABLE suspended (peer TEXT PRIMARY KEY, reason TEXT NOT NULL)",
    "CREATE TABLE quarantined (peer TEXT PRIMARY KEY)",
    """CREATE TABLE evidence (peer TEXT NOT NULL, digest TEXT NOT NULL, envelope BLOB NOT NULL,
       PRIMARY KEY (peer, digest))""",
    "CREATE TABLE withdrawn (label TEXT PRIMARY KEY)",
    """CREATE TABLE checks (issuer TEXT NOT NULL, digest TEXT NOT NULL, good INTEGER NOT NULL, reason TEXT NOT NULL,
       PRIMARY KEY (issuer, digest))""",
    """CREATE TABLE erasures (issuer TEXT NOT NULL, digest TEXT NOT NULL, kind TEXT NOT NULL, at REAL NOT NULL,
       reported INTEGER NOT NULL)""",
    """CREATE TABLE bytes (direction TEXT NOT NULL, kind TEXT NOT NULL, size INTEGER NOT NULL,
       PRIMARY KEY (direction, kind))""",
    "CREATE TABLE events (id INTEGER PRIMARY KEY AUTOINCREMENT, at REAL NOT NULL, kind TEXT NOT NULL, fields TEXT NOT NULL)",
    "CREATE TABLE settings (key TEXT PRIMARY KEY, value TEXT NOT NULL)",
)


@dataclass(frozen=True)
class Record:
    """A stored statement: what it is, and the envelope that proves it."""

    kind: str
    digest: str
    issuer: PeerId
    envelope: bytes
    subject: PeerId | None = None
    sequence: int | None = None
    received: float = 0.0


@dataclass(frozen=True)
class JobRecord:
    """A job by the digest of its spec; `result` of a finished one, `reason` of a failed one, and when it got there."""

    digest: str
    kind: str
    spec: Mapping[str, Any]
    state: JobState
    result: Mapping[str, Any] | None
    reason: str
    at: float


@dataclass(frozen=True)
class Verdict:
    """What checking a peer's weights found."""

    good: bool
    reason: str


@dataclass(frozen=True)
class Erasure:
    """Something that was erased, and when; `reported`: a receipt names it."""

    pair: Pair
    kind: str
    at: float
    reported: bool


@dataclass(frozen=True)
class Event:
    """A line of the node's history."""

    at: float
    kind: str
    fields: Mapping[str, Any]
