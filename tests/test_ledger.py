"""The ledger: what was written is there after a crash, all of a transaction or nothing, and nothing deleted stays."""

import sqlite3
import stat
from collections.abc import Callable
from pathlib import Path

import pytest
from crashing import dies_at
from making import digest, identity

from fednode import failpoints
from fednode.errors import StorageError
from fednode.ledger import MAX_EVENTS, Ledger
from fednode.lineage import Pair
from fednode.records import Record, Verdict

A, B = identity(1).peer_id, identity(2).peer_id
PAIR = Pair(A, digest("weights"))
SPEC = {"job": "fit", "label": "ant"}

Write = Callable[[Ledger], object]
WRITES: dict[str, Write] = {
    "statement": lambda ledger: ledger.put_statement(Record("catalogue", digest("c"), A, b"envelope", None, 3, 5.0)),
    "listed": lambda ledger: ledger.add_listed([A, B]),
    "tombstones": lambda ledger: ledger.add_tombstones([B]),
    "suspended": lambda ledger: ledger.suspend(A, "a reason"),
    "quarantined": lambda ledger: ledger.quarantine(A, {digest("1"): b"one", digest("2"): b"two"}),
    "job": lambda ledger: ledger.start_job(digest("spec"), "fit", SPEC),
    "withdrawn": lambda ledger: ledger.withdraw("ant"),
    "check": lambda ledger: ledger.record_check(PAIR, False, "not finite"),
    "erasure": lambda ledger: ledger.record_erasure(PAIR, "generator"),
    "bytes": lambda ledger: ledger.count_bytes("sent", "generator", 100),
    "event": lambda ledger: ledger.record_event("erased", peer=A),
    "setting": lambda ledger: ledger.set("left", True),
    "scan": lambda ledger: ledger.set_scan([["ant", 40]]),
}


def ledger_at(tmp_path: Path) -> Ledger:
    return Ledger(tmp_path / "home" / "ledger.sqlite")


def contents(ledger: Ledger) -> dict[str, object]:
    """Everything that the ledger gives back, without the times that it put in itself."""
    return {
        "statement": ledger.statements("catalogue"),
        "listed": ledger.ever_listed(),
        "tombstones": ledger.tombstones(),
        "suspended": ledger.suspended(),
        "quarantined": (ledger.quarantined(), ledger.evidence()),
        "job": [(job.digest, job.kind, job.spec, job.state, job.result, job.reason) for job in ledger.jobs()],
        "withdrawn": ledger.withdrawn(),
        "check": ledger.checks(),
        "erasure": [(erasure.pair, erasure.kind, erasure.reported) for erasure in ledger.erasures()],
        "bytes": ledger.byte_counts(),
        "event": [(event.kind, event.fields) for event in ledger.events()],
        "setting": ledger.get("left"),
        "scan": ledger.scan(),
    }


FULL = {
    "statement": [Record("catalogue", digest("c"), A, b"envelope", None, 3, 5.0)],
    "listed": {A, B},
    "tombstones": {B},
    "suspended": {A: "a reason"},
    "quarantined": ({A}, {A: {digest("1"): b"one", digest("2"): b"two"}}),
    "job": [(digest("spec"), "fit", SPEC, "running", None, "")],
    "withdrawn": {"ant"},
    "check": {PAIR: Verdict(False, "not finite")},
    "erasure": [(PAIR, "generator", False)],
    "bytes": {("sent", "generator"): 100},
    "event": [("erased", {"peer": A})],
    "setting": True,
    "scan": [["ant", 40]],
}


def test_everything_written_is_there_after_reopening(tmp_path: Path) -> None:
    ledger = ledger_at(tmp_path)
    for write in WRITES.values():
        write(ledger)
    ledger.close()
    assert contents(ledger_at(tmp_path)) == FULL


def test_a_new_ledger_is_empty_and_private(tmp_path: Path) -> None:
    assert not any(part for part in contents(ledger_at(tmp_path)).values() if part != (frozenset(), {}))
    modes = [stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "home").iterdir()]
    assert modes
    assert all(mode == 0o600 for mode in modes)


@pytest.mark.parametrize("name", WRITES)
def test_a_transaction_that_fails_leaves_nothing(tmp_path: Path, name: str) -> None:
    ledger = ledger_at(tmp_path)
    empty = contents(ledger)
    with pytest.raises(ZeroDivisionError), ledger.transaction("catalogue"):
        WRITES[name](ledger)
        raise ZeroDivisionError
    assert contents(ledger) == empty
    WRITES[name](ledger)
    assert contents(ledger)[name] == FULL[name]


def test_a_transaction_inside_another_is_a_part_of_it(tmp_path: Path) -> None:
    ledger = ledger_at(tmp_path)
    with pytest.raises(ZeroDivisionError), ledger.transaction("catalogue"):
        with ledger.transaction("setting"):
            ledger.set("inner", 1)
        raise ZeroDivisionError
    assert ledger.get("inner") is None


def in_transaction(tmp_path: Path, name: str) -> None:
    ledger = ledger_at(tmp_path)
    with ledger.transaction(name):
        for write in WRITES.values():
            write(ledger)


def stored(tmp_path: Path) -> dict[str, object]:
    """What the file holds; closed again, since a connection that is open across a fork spoils the locks of SQLite."""
    ledger = ledger_at(tmp_path)
    try:
        return contents(ledger)
    finally:
        ledger.close()


@pytest.mark.parametrize("name", sorted(set(failpoints.TRANSACTIONS) - {"schema"}))
def test_a_kill_before_a_commit_leaves_nothing_and_after_it_everything(tmp_path: Path, name: str) -> None:
    empty = stored(tmp_path)
    assert dies_at(f"ledger.commit.{name}", lambda: in_transaction(tmp_path, name))
    assert stored(tmp_path) == empty
    assert dies_at(f"ledger.committed.{name}", lambda: in_transaction(tmp_path, name))
    assert stored(tmp_path) == FULL


@pytest.mark.parametrize("moment", ["commit", "committed"])
def test_a_kill_while_the_ledger_is_made_does_no_harm(tmp_path: Path, moment: str) -> None:
    assert dies_at(f"ledger.{moment}.schema", lambda: ledger_at(tmp_path))
    in_transaction(tmp_path, "setting")
    assert contents(ledger_at(tmp_path)) == FULL


def test_a_full_disk_leaves_the_ledger_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ledger = ledger_at(tmp_path)
    empty = contents(ledger)
    monkeypatch.setenv("FEDNODE_FAILPOINT", "ledger.commit.job:enospc")
    with pytest.raises(StorageError, match="The disk is full"):
        WRITES["job"](ledger)
    assert contents(ledger) == empty
    monkeypatch.delenv("FEDNODE_FAILPOINT")
    WRITES["job"](ledger)
    assert contents(ledger)["job"] == FULL["job"]


def test_a_job_runs_then_is_done_or_has_failed_and_can_be_forgotten(tmp_path: Path) -> None:
    ledger = ledger_at(tmp_path)
    for name in ("done", "failed", "running", "forgotten"):
        ledger.start_job(name, "fit", SPEC)
    ledger.finish_job("done", {"digest": digest("w"), "seconds": 1.5})
    ledger.fail_job("failed", "too few images")
    ledger.drop_job("forgotten")
    found = {job.digest: (job.state, job.result, job.reason) for job in ledger.jobs()}
    assert found == {
        "done": ("done", {"digest": digest("w"), "seconds": 1.5}, ""),
        "failed": ("failed", None, "too few images"),
        "running": ("running", None, ""),
    }
    ledger.start_job("failed", "fit", SPEC)
    assert {job.digest: job.state for job in ledger.jobs()}["failed"] == "running"


def test_the_same_envelope_is_kept_once_and_equal_statements_of_two_signers_twice(tmp_path: Path) -> None:
    ledger = ledger_at(tmp_path)
    for envelope in (b"signed by a", b"signed by b", b"signed by a"):
        ledger.put_statement(Record("revocation", digest("payload"), A, envelope, B))
    assert [record.envelope for record in ledger.statements("revocation")] == [b"signed by a", b"signed by b"]
    assert ledger.statements("catalogue") == []
    ledger.drop_statement("revocation", digest("payload"))
    assert ledger.statements("revocation") == []


def test_restoring_a_peer_lifts_suspension_and_quarantine_and_keeps_the_evidence(tmp_path: Path) -> None:
    ledger = ledger_at(tmp_path)
    ledger.suspend(A, "a reason")
    ledger.quarantine(A, {digest("1"): b"one"})
    ledger.suspend(B, "another")
    ledger.restore(A)
    assert ledger.suspended() == {B: "another"}
    assert ledger.quarantined() == frozenset()
    assert ledger.evidence() == {A: {digest("1"): b"one"}}


def test_an_erasure_is_unreported_until_a_receipt_names_it(tmp_path: Path) -> None:
    ledger = ledger_at(tmp_path)
    other = Pair(B, PAIR.digest)
    for pair in (PAIR, other, PAIR):
        ledger.record_erasure(pair, "generator")
    assert ledger.unreported() == {PAIR, other}
    ledger.mark_reported([PAIR])
    assert ledger.unreported() == {other}
    ledger.record_erasure(PAIR, "generator")
    assert ledger.unreported() == {PAIR, other}


def test_bytes_add_up_by_direction_and_kind(tmp_path: Path) -> None:
    ledger = ledger_at(tmp_path)
    ledger.count_bytes("sent", "generator", 2)
    ledger.count_bytes("sent", "generator", 3)
    ledger.count_bytes("received", "expert", 7)
    assert ledger.byte_counts() == {("sent", "generator"): 5, ("received", "expert"): 7}


def test_the_history_keeps_only_its_last_events(tmp_path: Path) -> None:
    ledger = ledger_at(tmp_path)
    with ledger.transaction("event"):
        for count in range(MAX_EVENTS + 3):
            ledger.record_event("counted", count=count)
    assert [event.fields["count"] for event in ledger.events()] == list(range(3, MAX_EVENTS + 3))
    assert [event.fields["count"] for event in ledger.events(2)] == [MAX_EVENTS + 1, MAX_EVENTS + 2]


def test_an_event_takes_no_field_that_could_hold_a_file_name(tmp_path: Path) -> None:
    ledger = ledger_at(tmp_path)
    with pytest.raises(ValueError, match="path"):
        ledger.record_event("scanned", path="/patients/42.png")
    assert ledger.events() == []


def test_nothing_of_what_was_deleted_is_left_in_the_files(tmp_path: Path) -> None:
    ledger = ledger_at(tmp_path)
    secret = b"an envelope of a peer that left" * 400
    ledger.put_statement(Record("manifest", digest("m"), A, secret))
    ledger.drop_statement("manifest", digest("m"))
    ledger.vacuum()
    left = b"".join(path.read_bytes() for path in (tmp_path / "home").iterdir())
    assert secret[:31] not in left


def test_settings_keep_any_json_and_have_defaults(tmp_path: Path) -> None:
    ledger = ledger_at(tmp_path)
    ledger.set("key", {"a": [1, 2.5, None]})
    assert ledger.get("key") == {"a": [1, 2.5, None]}
    assert ledger.get("absent", 7) == 7


def test_a_ledger_of_a_newer_version_is_refused_and_left_alone(tmp_path: Path) -> None:
    ledger_at(tmp_path).close()
    path = tmp_path / "home" / "ledger.sqlite"
    with sqlite3.connect(path) as raw:
        raw.execute("PRAGMA user_version = 99")
    with pytest.raises(StorageError, match="newer"):
        ledger_at(tmp_path)
    assert sqlite3.connect(path).execute("PRAGMA user_version").fetchone() == (99,)


@pytest.mark.parametrize("harm", [b"this is no database, but it is long enough to be looked at", None])
def test_a_damaged_ledger_is_one_sentence(tmp_path: Path, harm: bytes | None) -> None:
    path = tmp_path / "home" / "ledger.sqlite"
    path.parent.mkdir()
    if harm is None:
        path.mkdir()
    else:
        path.write_bytes(harm * 100)
    with pytest.raises(StorageError):
        ledger_at(tmp_path)
