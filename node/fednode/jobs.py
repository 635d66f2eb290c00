"""Jobs: runs what a plan says, one build at a time, and remembers what came of it.

Rule 1: a job that the newest plan does not name any more is cancelled.
Rule 2: own images that can't be used end a job for good; a crash or want of memory is tried again after a pause that grows,
        and after MAX_TRIES waits for a restart or a rescan; want of space is tried again for ever.
Rule 3: building waits for a slot; checking and answering never do.
Rule 4: the work folder holds what belongs to a job of the newest plan, and nothing else: a fit's state is own data.
"""

import asyncio
import logging
import os
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fednode import audits
from fednode import core as cores
from fednode.core import Core
from fednode.disk import storage_errors
from fednode.errors import DataError, FednodeError, StorageError, WorkerError
from fednode.evaluation import counts_digest
from fednode.fields import data_fields, made_fields, score_fields
from fednode.lineage import Lineage, Pair
from fednode.planned import (
    CLASSIFIER,
    AuditJob,
    Check,
    Expert,
    Fit,
    Job,
    OwnLabel,
    Scan,
    Score,
    key,
    title,
)
from fednode.scoring import grid_of
from fednode.slots import slot_names, slots
from fednode.specs import input_digests, own_digests, seen_labels
from fednode.workers import Fields, Worker
from fednode_crypto.digest import sha256_hex

MAX_TRIES = 5
FIRST_PAUSE_SECONDS = 2.0
LONG_PAUSE_SECONDS = 3600.0 * 24 * 365

BuildJob = Scan | Fit | AuditJob | Expert | Score

log = logging.getLogger("fednode.jobs")


@dataclass
class Failure:
    """Why a job failed, how often, and from when on it may be tried again (steady clock)."""

    job: str
    code: str
    reason: str
    tries: int
    not_before: float

    def given_up(self, now: float) -> bool:
        """Whether only a restart or a rescan tries it again."""
        return self.not_before > now + LONG_PAUSE_SECONDS / 2


class Jobs:
    """Runs builds on the build worker and checks on the serve worker; `changed` is called when one has ended."""

    def __init__(self, core: Core, build: Worker, serve: Worker, changed: Callable[[], None]) -> None:
        self._core = core
        self._build = build
        self._serve = serve
        self._changed = changed
        self._running: tuple[str, asyncio.Task[None]] | None = None
        self._checking: asyncio.Task[None] | None = None
        self.progress: dict[str, Any] | None = None
        self.failures: dict[str, Failure] = {}
        self.seconds: defaultdict[str, float] = defaultdict(float)
        self.fatal: FednodeError | None = None

    def take(self, jobs: tuple[Job, ...]) -> None:
        """Run the first build and the first check of these that may run now; cancel a build that is not among them."""
        names = {key(job) for job in jobs}
        if self._running is not None and self._running[0] not in names:
            self._running[1].cancel()
        self.failures = {name: failure for name, failure in self.failures.items() if name in names}
        self._sweep(names)
        if self._running is None and (build := next(self._ready(jobs, (Scan, Fit, AuditJob, Expert, Score)), None)):
            self._running = (key(build), asyncio.create_task(self._run(build)))
        if self._checking is None and (check := next(self._ready(jobs, (Check,)), None)):
            self._checking = asyncio.create_task(self._run(check))

    def retry_at(self) -> float | None:
        """When the next failed job may be tried again (steady clock)."""
        return min((failure.not_before for failure in self.failures.values()), default=None)

    def blocked(self) -> bool:
        """Whether a job has failed so often that only a restart or a rescan tries it again; a score hinders nothing."""
        now = time.monotonic()
        return any(failure.given_up(now) and failure.job != "score" for failure in self.failures.values())

    def hopeless(self) -> dict[str, str]:
        """The jobs on the present images that can't succeed, each with the reason."""
        digests, overrides = {own.digest for own in self._core.scanned or ()}, self._core.ledger.overrides()
        return {
            f"{job.kind} {job.spec.get('label', CLASSIFIER)}": job.reason
            or "; ".join((job.result or {}).get("reasons", ()))
            for job in self._core.ledger.jobs()
            if job.kind in ("fit", "audit")
            and own_digests(job.spec) <= digests
            and (job.state == "failed" or (job.result or {}).get("passed") is False)
            and job.spec.get("weights") not in overrides
        }

    def forgive(self) -> None:
        """Let everything that failed be tried again at once, and a scan that runs begin anew: it may have read old images."""
        self.failures.clear()
        if self._running is not None and self._running[0] == key(Scan()):
            self._running[1].cancel()

    async def close(self) -> None:
        """Wait for the tasks to end after their workers were ended."""
        tasks = [task for task in (self._running and self._running[1], self._checking) if task]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _sweep(self, names: set[str]) -> None:
        """Rule 4. Before the own images are known, jobs that were begun may be planned again if nothing that they see is gone."""
        if key(Scan()) in names:
            withdrawn = self._core.ledger.withdrawn()
            live = {pair.digest for pair in cores.stock(self._core).live}
            names = names | {
                job.digest
                for job in self._core.ledger.jobs()
                if not seen_labels(job.spec) & withdrawn and input_digests(job.spec) <= live
            }
        with storage_errors():
            for path in self._core.home.work.glob("*.safetensors*"):
                if path.name.partition(".")[0] not in names:
                    path.unlink(missing_ok=True)

    def _ready(self, jobs: tuple[Job, ...], kinds: tuple[type, ...]) -> Iterator[Job]:
        now = time.monotonic()
        for job in jobs:
            failure = self.failures.get(key(job))
            if isinstance(job, kinds) and (failure is None or failure.not_before <= now):
                yield job

    async def _run(self, job: Job) -> None:
        began = time.monotonic()
        try:
            await self._do(job)
            self.failures.pop(key(job), None)
        except FednodeError as error:
            self._failed(job, error)
        except Exception as error:
            log.exception("a job met an internal error")
            self._failed(job, WorkerError("internal", f"The job {title(job)} met an internal error ({error})."))
        finally:
            if isinstance(job, Check):
                self._checking = None
            else:
                self._running, self.progress = None, None
                self.seconds[title(job).split()[0]] += time.monotonic() - began
            self._changed()

    async def _do(self, job: Job) -> None:
        match job:
            case Scan():
                await self._scan()
            case Check(pair=pair):
                await self._check(pair)
            case Fit():
                await self._make(job, frozenset())
            case AuditJob(weights=weights):
                await self._audit(job, Pair(self._core.me, weights))
            case Expert(inputs=inputs):
                await self._make(job, frozenset(inputs))
            case Score():
                await self._score(job)

    async def _scan(self) -> None:
        result = await self._ask(Scan(), "scan", data_fields(self._core), frozenset())
        scanned = tuple(OwnLabel(**found) for found in result["labels"])
        if lost := cores.given(self._core) - {own.label for own in scanned}:
            raise DataError(
                f"The images of {', '.join(sorted(lost))} are gone from {self._core.settings.data}, and peers have that label.",
                "Put them back, or take the label back with `fednode withdraw`.",
            )
        self._core.ledger.set_scan(result)
        self._core.ledger.record_event("scanned", count=len(scanned))
        self._core.scanned = scanned

    async def _check(self, pair: Pair) -> None:
        manifest = cores.stock(self._core).offered.get(pair)
        if manifest is None or pair not in self._core.store.files():
            return
        fields = {
            "kind": manifest.kind,
            "architecture": manifest.architecture.model_dump(mode="json"),
            "weights": str(self._core.store.path(pair)),
        }
        try:
            await self._serve.ask("check", fields, frozenset({pair}))
        except WorkerError as error:
            if error.code != "bad-weights":
                raise
            self._core.ledger.record_check(pair, False, error.message)
            self._core.ledger.record_event("bad-weights", digest=pair.digest, peer=pair.issuer)
        else:
            self._core.ledger.record_check(pair, True)

    async def _make(self, job: Fit | Expert, uses: Lineage) -> None:
        out = self._scratch(job)
        fields = {**made_fields(self._core, job), "spec": dict(job.spec), "out": str(out)}
        result = await self._build_in_slot(job, fields, uses)
        pieces = self._core.store.ingest(out, self._core.me)
        out.unlink(missing_ok=True)
        self._done(job, {**result, "digest": pieces.digest, "size": pieces.size, "piece_size": pieces.piece_size})

    async def _audit(self, job: AuditJob, pair: Pair) -> None:
        out = self._core.store.derived(pair) / audits.REPORT
        fields = {
            **data_fields(self._core),
            "spec": dict(job.spec),
            "weights": str(self._core.store.path(pair)),
            "out": str(out),
        }
        result = await self._build_in_slot(job, fields, frozenset({pair}))
        report = out.read_bytes()
        self._done(job, {**result, "digest": sha256_hex(report)})
        if not result["passed"]:
            reasons = "; ".join(result["reasons"])
            what = f"generator of {job.label}" if job.label else "classifier"
            log.warning("The %s is not published (see `fednode audit`): %s", what, reasons)

    async def _score(self, job: Score) -> None:
        fields = {**score_fields(self._core, job), "spec": dict(job.spec)}
        result = await self._build_in_slot(job, fields, frozenset(job.lineage))
        grid, scores = grid_of(self._core.recipes).digest, result["scores"]
        digest = counts_digest(grid, tuple(job.spec["labels"]), scores) if scores else None
        self._core.ledger.set("latency", result["latency"])
        self._done(job, {**result, "digest": digest})
        self._forget_scores(but=key(job))

    def _forget_scores(self, but: str) -> None:
        for record in self._core.ledger.jobs():
            if record.kind == "score" and record.digest != but:
                self._core.ledger.drop_job(record.digest)

    async def _build_in_slot(
        self, job: Fit | AuditJob | Expert | Score, fields: Fields, uses: Lineage
    ) -> dict[str, Any]:
        await self._build.start()
        settings = self._core.settings
        together = job.spec["job"] == "fit" and not job.spec["recipe"]["privacy"]
        several = settings.processes if together else 1
        names = slot_names(self._build.device, settings.threads, os.cpu_count() or 1, several)
        self.progress = {
            "job": title(job),
            "phase": "waiting for a free core",
            "done": 0,
            "total": 0,
            "rate": None,
            "eta": None,
        }
        async with slots(self._core.home.slots, names):
            began = time.monotonic()
            self._core.ledger.start_job(key(job), title(job).split()[0], job.spec)
            result = await self._ask(job, job.spec["job"], fields, uses)
            return {"numerics": dict(self._build.numerics), **result, "seconds": round(time.monotonic() - began, 3)}

    async def _ask(self, job: Job, op: str, fields: Fields, uses: Lineage) -> dict[str, Any]:
        def progress(report: Fields) -> None:
            self.progress = {
                "job": title(job),
                **{name: report[name] for name in ("phase", "done", "total", "rate", "eta")},
            }

        return await self._build.ask(op, fields, uses, progress)

    def _done(self, job: Fit | AuditJob | Expert | Score, result: dict[str, Any]) -> None:
        self._core.ledger.finish_job(key(job), result)
        self._core.ledger.record_event("job", job=title(job), state="done", seconds=result["seconds"])
        log.info("%s is done in %.1f s", title(job), result["seconds"])

    def _failed(self, job: Job, error: FednodeError) -> None:
        code = getattr(error, "code", "data" if isinstance(error, DataError) else "storage")
        if code == "cancelled":
            return
        log.warning("%s failed: %s", title(job), error)
        try:
            self._remember(job, code, error)
        except StorageError as full:
            self._pause(job, "storage", full)

    def _remember(self, job: Job, code: str, error: FednodeError) -> None:
        if code == "data-changed":
            self._core.scanned = None
        elif isinstance(error, DataError) and isinstance(job, Fit | AuditJob | Expert | Score):
            self._core.ledger.fail_job(key(job), str(error))
        else:
            self._pause(job, code, error)
        if isinstance(job, Scan) and isinstance(error, DataError) and self._core.ledger.scan() is None:
            self.fatal = error
        self._core.ledger.record_event("job", job=title(job), state="failed", code=code)

    def _pause(self, job: Job, code: str, error: FednodeError) -> None:
        tries = self.failures[key(job)].tries + 1 if key(job) in self.failures else 1
        again = isinstance(error, StorageError) or (tries < MAX_TRIES and not isinstance(error, DataError))
        pause = FIRST_PAUSE_SECONDS * 4 ** min(tries - 1, MAX_TRIES - 2) if again else LONG_PAUSE_SECONDS
        self.failures[key(job)] = Failure(title(job), code, str(error), tries, time.monotonic() + pause)

    def _scratch(self, job: Job) -> Path:
        self._core.home.work.mkdir(mode=0o700, exist_ok=True)
        return self._core.home.work / f"{key(job)}.safetensors"
