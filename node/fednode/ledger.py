"""The ledger: what the node must not forget, in one SQLite file. It stores and returns values, and holds no rules.

Rule 1: whatever a method has written is on the disk when the method, or the transaction around it, returns.
Rule 2: what is deleted is overwritten (secure_delete); `vacuum` also drops the pages and the log that held it.
"""

import contextlib
import json
import sqlite3
import time
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

from fednode import disk, failpoints
from fednode.errors import StorageError
from fednode.lineage import Pair
from fednode.records import SCHEMA, VERSION, Erasure, Event, JobRecord, Record, Verdict
from fednode_crypto.digest import sha256_hex
from fednode_crypto.identity import PeerId

MAX_EVENTS = 10_000
EVENT_FIELDS = frozenset(
    {
        "bytes",
        "code",
        "count",
        "digest",
        "direction",
        "job",
        "kind",
        "label",
        "peer",
        "product",
        "seconds",
        "sequence",
        "state",
    }
)

Direction = Literal["sent", "received"]
Traffic = Literal["generator", "classifier", "expert", "statement"]


class Ledger:
    """The open ledger, for one thread. Raises StorageError if it is damaged, too new, or the disk is full."""

    def __init__(self, path: Path) -> None:
        with _errors():
            disk.make_folder(path.parent)
            disk.write_at(path, 0, b"")
            self._db = sqlite3.connect(path, isolation_level=None, timeout=10)
            for pragma in ("journal_mode=WAL", "synchronous=FULL", "secure_delete=ON"):
                self._db.execute(f"PRAGMA {pragma}")
            self._migrate()

    def close(self) -> None:
        """Close the file; nothing is lost without it."""
        self._db.close()

    @contextlib.contextmanager
    def transaction(self, name: str) -> Iterator[None]:
        """All writes inside happen, or none. Inside another transaction it is a part of that one. `name`: of failpoints."""
        if self._db.in_transaction:
            yield
            return
        with _errors():
            self._db.execute("BEGIN IMMEDIATE")
            try:
                yield
                failpoints.hit(f"ledger.commit.{name}")
                self._db.execute("COMMIT")
            except BaseException:
                if self._db.in_transaction:
                    self._db.execute("ROLLBACK")
                raise
        failpoints.hit(f"ledger.committed.{name}")

    def vacuum(self) -> None:
        """Leave nothing of what was deleted in the files."""
        with _errors():
            self._db.execute("VACUUM")
            self._db.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    def put_statement(self, record: Record) -> None:
        """Keep a statement; the same envelope is kept once."""
        row = (sha256_hex(record.envelope), record.kind, record.digest, record.issuer, record.subject, record.sequence)
        values = (*row, record.envelope, record.received)
        self._write(record.kind, "INSERT OR IGNORE INTO statements VALUES (?, ?, ?, ?, ?, ?, ?, ?)", values)

    def drop_statement(self, kind: str, digest: str) -> None:
        """Forget the statements of this kind and digest."""
        self._write(kind, "DELETE FROM statements WHERE kind = ? AND digest = ?", (kind, digest))

    def statements(self, kind: str) -> list[Record]:
        """The statements of a kind, oldest first."""
        columns = "kind, digest, issuer, envelope, subject, sequence, received"
        rows = self._read(f"SELECT {columns} FROM statements WHERE kind = ? ORDER BY rowid", (kind,))  # noqa: S608
        return [Record(*row) for row in rows]

    def add_listed(self, peers: Collection[PeerId]) -> None:
        """Note that these peers are, or were, listed; this is for ever."""
        self._add("listed", "listed", peers)

    def ever_listed(self) -> frozenset[PeerId]:
        """Every peer that was ever listed."""
        return self._peers("listed")

    def add_tombstones(self, peers: Collection[PeerId]) -> None:
        """Mark these peers as revoked; this is for ever."""
        self._add("revocation", "tombstones", peers)

    def tombstones(self) -> frozenset[PeerId]:
        """The peers that were marked as revoked."""
        return self._peers("tombstones")

    def suspend(self, peer: PeerId, reason: str) -> None:
        """Mark a peer as suspended by us."""
        self._write("standing", "INSERT OR REPLACE INTO suspended VALUES (?, ?)", (peer, reason))

    def suspended(self) -> dict[PeerId, str]:
        """The suspended peers, each with the reason."""
        return {PeerId(peer): reason for peer, reason in self._read("SELECT peer, reason FROM suspended")}

    def quarantine(self, peer: PeerId, evidence: Mapping[str, bytes]) -> None:
        """Mark a peer as quarantined, and keep the evidence: envelopes by statement digest."""
        with self.transaction("quarantine"):
            self._add("quarantine", "quarantined", [peer])
            for digest, envelope in evidence.items():
                self._write("quarantine", "INSERT OR IGNORE INTO evidence VALUES (?, ?, ?)", (peer, digest, envelope))

    def quarantined(self) -> frozenset[PeerId]:
        """The quarantined peers."""
        return self._peers("quarantined")

    def evidence(self) -> dict[PeerId, dict[str, bytes]]:
        """All evidence that was ever kept: peer -> statement digest -> envelope."""
        found: dict[PeerId, dict[str, bytes]] = {}
        for peer, digest, envelope in self._read("SELECT peer, digest, envelope FROM evidence ORDER BY rowid"):
            found.setdefault(PeerId(peer), {})[digest] = envelope
        return found

    def restore(self, peer: PeerId) -> None:
        """Lift suspension and quarantine; evidence stays."""
        with self.transaction("standing"):
            self._write("standing", "DELETE FROM suspended WHERE peer = ?", (peer,))
            self._write("standing", "DELETE FROM quarantined WHERE peer = ?", (peer,))

    def start_job(self, digest: str, kind: str, spec: Mapping[str, Any]) -> None:
        """Note that a job runs."""
        row = (digest, kind, _dump(spec), "running", None, "", time.time())
        self._write("job", "INSERT OR REPLACE INTO jobs VALUES (?, ?, ?, ?, ?, ?, ?)", row)

    def finish_job(self, digest: str, result: Mapping[str, Any]) -> None:
        """Note what a job gave."""
        change = "UPDATE jobs SET state = 'done', result = ?, reason = '', at = ? WHERE digest = ?"
        self._write("job", change, (_dump(result), time.time(), digest))

    def fail_job(self, digest: str, reason: str) -> None:
        """Note why a job failed."""
        change = "UPDATE jobs SET state = 'failed', result = NULL, reason = ?, at = ? WHERE digest = ?"
        self._write("job", change, (reason, time.time(), digest))

    def drop_job(self, digest: str) -> None:
        """Forget a job, so that it can run again."""
        self._write("job", "DELETE FROM jobs WHERE digest = ?", (digest,))

    def jobs(self) -> list[JobRecord]:
        """All jobs, oldest first."""
        rows = self._read("SELECT digest, kind, spec, state, result, reason, at FROM jobs ORDER BY at, digest")
        return [
            JobRecord(digest, kind, json.loads(spec), state, result and json.loads(result), reason, at)
            for digest, kind, spec, state, result, reason, at in rows
        ]

    def withdraw(self, label: str) -> None:
        """Note that the operator has withdrawn a label."""
        self._write("withdrawn", "INSERT OR IGNORE INTO withdrawn VALUES (?)", (label,))

    def withdrawn(self) -> frozenset[str]:
        """The labels that the operator has withdrawn."""
        return frozenset(label for (label,) in self._read("SELECT label FROM withdrawn"))

    def override(self, weights: str, reason: str) -> None:
        """Note why a generator, by weight digest, is published in spite of its failed audit."""
        self.set("overrides", self.overrides() | {weights: reason})

    def overrides(self) -> dict[str, str]:
        """The reasons of the operator to publish generators in spite of a failed audit, by weight digest."""
        return dict(self.get("overrides", {}))

    def record_check(self, pair: Pair, good: bool, reason: str = "") -> None:
        """Note what checking weights found."""
        self._write("check", "INSERT OR REPLACE INTO checks VALUES (?, ?, ?, ?)", (*pair, int(good), reason))

    def checks(self) -> dict[Pair, Verdict]:
        """What checking weights found."""
        rows = self._read("SELECT issuer, digest, good, reason FROM checks")
        return {Pair(PeerId(issuer), digest): Verdict(bool(good), reason) for issuer, digest, good, reason in rows}

    def record_erasure(self, pair: Pair, kind: str) -> None:
        """Note that something was, or is about to be, erased."""
        self._write("erasure", "INSERT INTO erasures VALUES (?, ?, ?, ?, 0)", (*pair, kind, time.time()))

    def erasures(self) -> list[Erasure]:
        """All erasures, oldest first."""
        rows = self._read("SELECT issuer, digest, kind, at, reported FROM erasures ORDER BY rowid")
        return [Erasure(Pair(PeerId(peer), digest), kind, at, bool(said)) for peer, digest, kind, at, said in rows]

    def unreported(self) -> frozenset[Pair]:
        """What was erased and no receipt names yet."""
        rows = self._read("SELECT DISTINCT issuer, digest FROM erasures WHERE reported = 0")
        return frozenset(Pair(PeerId(issuer), digest) for issuer, digest in rows)

    def mark_reported(self, pairs: Collection[Pair]) -> None:
        """Note that a receipt names these erasures."""
        with self.transaction("erasure"):
            for pair in pairs:
                self._write("erasure", "UPDATE erasures SET reported = 1 WHERE issuer = ? AND digest = ?", pair)

    def count_bytes(self, direction: Direction, kind: Traffic, size: int) -> None:
        """Add to the bytes that crossed the wire."""
        change = (
            "INSERT INTO bytes VALUES (?, ?, ?) ON CONFLICT (direction, kind) DO UPDATE SET size = size + excluded.size"
        )
        self._write("bytes", change, (direction, kind, size))

    def byte_counts(self) -> dict[tuple[str, str], int]:
        """Bytes on the wire by (direction, kind)."""
        rows = self._read("SELECT direction, kind, size FROM bytes")
        return {(direction, kind): size for direction, kind, size in rows}

    def record_event(self, kind: str, /, **fields: str | float | None) -> None:
        """Add to the history, which keeps the last MAX_EVENTS. Raises ValueError for a field that is not allowed."""
        if wrong := fields.keys() - EVENT_FIELDS:
            raise ValueError(f"an event may not have the field {min(wrong)!r}")
        with self.transaction("event"):
            row = (time.time(), kind, _dump(fields))
            self._write("event", "INSERT INTO events (at, kind, fields) VALUES (?, ?, ?)", row)
            self._write("event", "DELETE FROM events WHERE id <= (SELECT max(id) FROM events) - ?", (MAX_EVENTS,))

    def events(self, last: int = MAX_EVENTS) -> list[Event]:
        """The last events, oldest first."""
        rows = self._read("SELECT at, kind, fields FROM events ORDER BY id DESC LIMIT ?", (last,))
        return [Event(at, kind, json.loads(fields)) for at, kind, fields in reversed(rows)]

    def set(self, key: str, value: Any) -> None:
        """Keep a setting of the node: any JSON value."""
        self._write("setting", "INSERT OR REPLACE INTO settings VALUES (?, ?)", (key, _dump(value)))

    def get(self, key: str, default: Any = None) -> Any:
        """A setting of the node."""
        rows = self._read("SELECT value FROM settings WHERE key = ?", (key,))
        return json.loads(rows[0][0]) if rows else default

    def set_scan(self, scan: Any) -> None:
        """Keep what the last scan of the own images found: any JSON value, None for not known."""
        with self.transaction("scan"):
            self.set("scan", scan)

    def scan(self) -> Any:
        """What the last scan of the own images found."""
        return self.get("scan")

    def _migrate(self) -> None:
        (version,) = self._read("PRAGMA user_version")[0]
        if version > VERSION:
            raise StorageError("The ledger was written by a newer fednode.", "Install that version again.")
        if version == 0:
            with self.transaction("schema"):
                for table in SCHEMA:
                    self._db.execute(table)
                self._db.execute(f"PRAGMA user_version = {VERSION}")

    def _add(self, name: str, table: str, peers: Collection[PeerId]) -> None:
        with self.transaction(name):
            self._db.executemany(f"INSERT OR IGNORE INTO {table} VALUES (?)", [(peer,) for peer in sorted(peers)])  # noqa: S608

    def _peers(self, table: str) -> frozenset[PeerId]:
        return frozenset(PeerId(peer) for (peer,) in self._read(f"SELECT peer FROM {table}"))  # noqa: S608

    def _write(self, name: str, command: str, values: tuple[Any, ...]) -> None:
        with self.transaction(name):
            self._db.execute(command, values)

    def _read(self, query: str, values: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
        with _errors():
            return self._db.execute(query, values).fetchall()


@contextlib.contextmanager
def _errors() -> Iterator[None]:
    with disk.storage_errors():
        try:
            yield
        except sqlite3.Error as error:
            full = getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_FULL
            sentence = "The disk is full." if full else f"The ledger can't be used: {error}."
            raise StorageError(sentence, "Free some space; the node goes on by itself." if full else "") from error


def _dump(value: Any) -> str:
    return json.dumps(value, sort_keys=True)
