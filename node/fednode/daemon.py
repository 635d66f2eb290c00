"""The daemon: observes, plans, does what is missing, and plans again, until it is told to stop.

Rule 1: nothing here learns; whatever loads weights or images is a worker.
Rule 2: whenever something may have changed, plan() is asked afresh; there is no other way to know what to do.
Rule 3: what is void is out of use before its bytes are erased, and workers that hold it in memory end first.
"""

import asyncio
import contextlib
import logging
import os
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from fednode import core as cores
from fednode import modes, ready, source
from fednode.answers import Answers
from fednode.book import Book, News
from fednode.config import Home, Lock, Settings, ensure_home
from fednode.control.service import ControlServer
from fednode.core import Core
from fednode.desk import NodeDesk
from fednode.errors import (
    ConfigError,
    DataError,
    ExitCode,
    FednodeError,
    IdentityError,
    PeerError,
    RefusedError,
    StorageError,
)
from fednode.exchange.exchange import Exchange
from fednode.exchange.limits import ExchangeLimits
from fednode.gather import Gather
from fednode.inventory import Missing
from fednode.jobs import Jobs
from fednode.ledger import Ledger
from fednode.lineage import Pair
from fednode.peersfile import load as load_peers
from fednode.plan import plan
from fednode.planned import Confirm, Job, Plan, Publish, Sign, SignEvaluation
from fednode.presets import recipes
from fednode.report import View, report
from fednode.scoring import was_scored_with
from fednode.signing import evaluation_of, manifest_of
from fednode.store import Store
from fednode.verbs import Verbs
from fednode.vit_recipe import vit_recipes
from fednode.workers import Worker, WorkerSettings
from fednode_crypto.errors import KeyFileError
from fednode_crypto.identity import Identity

IDLE_SECONDS = 30.0
WAITING_SECONDS = 1.0
STOP_GRACE_SECONDS = 3.0
MAX_ROUNDS = 100
TELL_SECONDS = 0.02
PROMISED = "promised"  # the setting that holds what protects the own images

log = logging.getLogger("fednode.daemon")


def run(home: Home, settings: Settings) -> int:
    """Run the daemon of a home until it is stopped; the exit code. Raises FednodeError if it can't start."""
    os.umask(0o077)  # whatever this process makes is for its owner alone
    ensure_home(home)
    with Lock(home), open_core(home, settings) as core, (home.logs / "workers.log").open("ab") as worker_log:
        _check_data(core)
        _check_privacy(settings)
        _check_promises(core)
        _check_processes(core)
        cores.check_secret(core)
        device, threads, idle = settings.device, settings.threads, settings.idle_timeout
        return asyncio.run(_run(core, WorkerSettings(device, threads, idle, worker_log, settings.processes)))


async def _run(core: Core, workers: WorkerSettings) -> int:
    return await Daemon(core, workers).run()


@contextlib.contextmanager
def open_core(home: Home, settings: Settings) -> Iterator[Core]:
    """The parts of the node of this home. Raises IdentityError, ConfigError, StorageError and PeerError `other-contract`."""
    identity = _identity(home)
    peers = load_peers(settings.peers, identity.peer_id)
    ledger = Ledger(home.ledger)
    try:
        _check_contract(ledger, peers.contract.id, settings.peers)
        book = Book(ledger, peers.contract, identity.peer_id, time.time)
        book.set_listed([peer.id for peer in peers.peers])
        image, augment = peers.contract.image, settings.augment
        made = recipes(image, settings.preset, settings.fit_images, augment, settings.dp, settings.dtype)
        vits = vit_recipes(image, augment, settings.dtype or "float32")
        yield Core(home, settings, identity, peers, made, vits, ledger, Store(home.store), book)
    finally:
        ledger.close()


def _identity(home: Home) -> Identity:
    if not home.identity.exists() and home.ledger.exists():
        raise IdentityError(
            f"The identity {home.identity} is missing, but this home has a past.",
            "Put the key file back from your backup, or choose an empty home with FEDNODE_HOME.",
        )
    if not home.identity.exists():
        raise IdentityError(f"The home {home.root} has no identity yet.", "Run `fednode init` first.")
    try:
        return Identity.load(home.identity)
    except KeyFileError as error:
        raise IdentityError(error.message, error.hint) from error


def _check_data(core: Core) -> None:
    """A start that forgets the images must not unlearn them everywhere; one with a past goes on whatever the path is."""
    lost = cores.given(core)
    if core.settings.data is not None and core.ledger.scan() is None:
        source.check(core.settings.data)
    if core.settings.data is None and lost:
        raise DataError(
            f"No images are named, and peers have learned {', '.join(sorted(lost))} from this node.",
            "Start it with the same --data, or write `data` into config.yaml; `fednode withdraw` takes a label back.",
        )


def _check_privacy(settings: Settings) -> None:
    if settings.dp is not None and settings.exchange != "generators":
        raise ConfigError(
            f"With --dp only generators are exchanged: a classifier has no such privacy, and --exchange is {settings.exchange}.",
            "Leave one of the two out.",
        )


def _check_promises(core: Core) -> None:
    """What was published under a promise to protect own images is not published again under a weaker one by a forgotten flag."""
    promised, settings = core.ledger.get(PROMISED, {}), core.settings
    epsilon, seen = promised.get("dp"), promised.get("experts_see")
    if cores.given(core) and epsilon is not None and (settings.dp is None or settings.dp > epsilon):
        raise ConfigError(
            f"This node has published generators with differential privacy of epsilon {epsilon:g}, and now asks for less of it.",
            f"Start it with --dp {epsilon:g}, or write `dp` into config.yaml; without privacy, use a new home.",
        )
    if cores.given(core) and seen == "synthetic" and settings.experts_see != seen:
        raise ConfigError(
            "This node has kept its own images out of its experts, and now asks to show them.",
            "Start it with --experts-see synthetic, or write `experts_see` into config.yaml; else use a new home.",
        )
    core.ledger.set(PROMISED, {"dp": settings.dp, "experts_see": settings.experts_see})


def _check_processes(core: Core) -> None:
    """Several processes take one accelerator each, from the first on, and an equal share of each batch."""
    processes, device, batch = core.settings.processes, core.settings.device, core.recipes.generator.batch
    if processes > 1 and device.startswith("cuda:"):
        raise ConfigError(
            f"{processes} processes can't share the one device {device}.", "Start it with --device cuda, or without."
        )
    if batch % processes:
        raise ConfigError(
            f"{processes} processes can't share batches of {batch} images alike.",
            f"Use a number of processes that divides {batch}.",
        )


def _check_contract(ledger: Ledger, contract: str, source: Path) -> None:
    held = ledger.get("contract")
    if held is None:
        ledger.set("contract", contract)
    elif held != contract:
        raise PeerError(
            "other-contract",
            f"This home belongs to the contract {held[:12]}, and {source} describes {contract[:12]}.",
            "Use the peers.yaml of this home's federation, or another FEDNODE_HOME for the new one.",
        )


class Daemon:
    """One running node: its exchange, its control service, its workers, and the loop that plans."""

    def __init__(self, core: Core, workers: WorkerSettings) -> None:
        self.core = core
        self._build = Worker("build", workers)
        self._serve = Worker("serve", workers)
        self._wake = asyncio.Event()
        self._stopping = asyncio.Event()
        self._settling = asyncio.Lock()
        self._desk = NodeDesk(core, self._wake.set)
        self._exchange = Exchange(core.identity, core.contract.id, self._desk, ExchangeLimits())
        self._jobs = Jobs(core, self._build, self._serve, self._wake.set)
        self._gather = Gather(core.settings.gather_deadline)
        self._experts = Gather(core.settings.gather_deadline)
        self._words = Gather(core.settings.gather_deadline)
        self._plan: Plan | None = None
        self._listen = ""
        self._trouble = ""
        self.answers = Answers(lambda: cores.sight(core), core.store, self._serve, core.contract, core.recipes)

    async def run(self) -> int:
        """Serve until told to stop; the exit code."""
        self._watch_signals()
        control = ControlServer(self.core.home.control_socket, Verbs(self).handlers())
        try:
            await self._start(control)
            await self._loop()
        finally:
            await self._close(control)
        if self._jobs.fatal is not None:
            raise self._jobs.fatal
        return ExitCode.OK

    async def import_classifier(self, file: str, model: str, labels: Sequence[str]) -> dict[str, Any]:
        """Check a ready classifier, and offer it from now on; see ready.py."""
        return await ready.take(self.core, self._serve, file, model, labels)

    def broadcast(self, news: News) -> list[str]:
        """Tell all connected peers at once; the names of those."""
        self._exchange.broadcast(news)
        return sorted(self.core.name_of(peer) for peer, link in self._exchange.links().items() if link.connected)

    async def settle(self) -> None:
        """Plan, and do at once what needs no worker; then hand on the rest."""
        async with self._settling:
            told = False
            for _ in range(MAX_ROUNDS):
                self.core.book.forget_void()
                current = self._observe()
                signing = [job for job in current.jobs if isinstance(job, Sign | Publish | Confirm | SignEvaluation)]
                for job in signing:
                    self._sign(job)
                if not signing and not current.erase:
                    break
                if not signing and told:
                    self._erase(current.erase)
                elif not signing:  # peers hear of it before this disk is busy
                    await asyncio.sleep(TELL_SECONDS)
                    told = True
            self._hand_on(current)

    def _hand_on(self, current: Plan) -> None:
        self._plan = current
        self._exchange.want(current.fetch)
        for pair in self.core.store.partials() - set(current.fetch):
            self.core.store.erase(pair)
        self._jobs.take(current.jobs)

    def status(self) -> dict[str, Any]:
        """The status document."""
        states = {worker.kind: worker.state for worker in (self._build, self._serve)}
        self._desk.flush()
        links = self._exchange.links()
        view = View(self.core, self._plan, self._jobs, links, self._desk, self._listen, states, self._trouble)
        return report(view)

    async def reload(self) -> None:
        """Read peers.yaml and the own images again. Raises ConfigError, and RefusedError for another contract."""
        peers = load_peers(self.core.settings.peers, self.core.me)
        if peers.contract.id != self.core.contract.id:
            raise RefusedError("peers.yaml describes another contract now.", "Another contract needs another home.")
        self.core.peers = peers
        self.core.book.set_listed([peer.id for peer in peers.peers])
        self.core.scanned = None if self.core.settings.data else ()
        self._jobs.forgive()
        await self._dial()
        self._wake.set()

    def stop(self) -> None:
        """Begin to stop."""
        self._stopping.set()
        self._wake.set()

    def _watch_signals(self) -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._on_stop_signal)
        loop.add_signal_handler(signal.SIGHUP, self._on_reload_signal)

    def _on_stop_signal(self) -> None:
        if self._stopping.is_set():
            os._exit(ExitCode.INTERRUPTED)
        self.stop()

    def _on_reload_signal(self) -> None:
        task = asyncio.ensure_future(self.reload())
        task.add_done_callback(_log_failure)

    async def _start(self, control: ControlServer) -> None:
        await self._dial()
        port = await self._exchange.start(self.core.settings.listen)
        self._listen = f"{self.core.settings.listen.rpartition(':')[0]}:{port}"
        if self.core.settings.data is None:
            self.core.scanned = ()
        await self.settle()
        await control.start()
        log.info("%s (%s) listens on %s", self.core.settings.name, self.core.me, self._listen)

    async def _dial(self) -> None:
        await self._exchange.set_peers({peer.id: peer.address for peer in self.core.peers.peers})

    async def _loop(self) -> None:
        while not self._stopping.is_set() and self._jobs.fatal is None:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._wake.wait(), self._pause())
            self._wake.clear()
            self._trouble = await self._tried()
            if self._trouble:
                await asyncio.sleep(WAITING_SECONDS)
                self._wake.set()

    async def _tried(self) -> str:
        """What went wrong with a tick, in words; it is tried again, since a node that ends helps nobody."""
        try:
            await self._tick()
        except StorageError as error:
            log.warning("%s", error)
            return str(error)
        except Exception as error:
            log.exception("planning met an internal error")
            return f"Planning met an internal error ({error})."
        return ""

    async def _tick(self) -> None:
        await self.settle()
        self._desk.flush()
        for worker in (self._build, self._serve):
            worker.end_if_idle()
        if renewed := self.core.book.renew(self.core.identity):
            self.broadcast(renewed)

    def _pause(self) -> float:
        """Seconds until something is due without an event."""
        now = time.monotonic()
        due = [IDLE_SECONDS]
        if self._plan is not None and self._plan.missing:
            due.append(max(self._gather.passes_at() - now, WAITING_SECONDS))
        if self._plan is not None and self._plan.lacking and not self._experts.passed(now):
            due.append(max(self._experts.passes_at() - now, WAITING_SECONDS))
        for at in (self._jobs.retry_at(), self._build.idle_until(), self._serve.idle_until()):
            if at is not None:
                due.append(max(at - now, WAITING_SECONDS))
        return min(due)

    def _observe(self) -> Plan:
        now = time.monotonic()
        silent = [Missing(peer, None) for peer in modes.silent(self.core.book.word(), self.core.me)]
        self._words.note(silent, frozenset(), now)
        cores.choose(self.core, self._words.passed(now))
        current = plan(cores.state(self.core, waited=False))
        self._gather.note(current.missing, current.inventory.live, now)
        self._experts.note([Missing(peer, None) for peer in current.lacking], frozenset(current.inventory.experts), now)
        late = bool(current.missing) and self._gather.passed(now)
        lacking = bool(current.lacking) and self._experts.passed(now)
        return plan(cores.state(self.core, late, lacking)) if late or lacking else current

    def _erase(self, pairs: tuple[Pair, ...]) -> None:
        """Rule 3. What was recorded and not erased when a crash came is planned, and so erased, again."""
        gone = frozenset(pairs)
        for worker in (self._build, self._serve):
            if worker.holds(gone):
                worker.end("it holds weights that are void")
        word = cores.said(self.core)
        known = {manifest.pair: manifest for manifest in word.manifests.values()} | word.offers()
        own = {pair for pair in gone & known.keys() if pair.issuer == self.core.me}
        given_up = {pair for pair in own if known[pair].kind != "expert"}  # though listed until we publish
        offered = word.offers().keys() - given_up
        with self.core.ledger.transaction("erase"):
            for pair in known.keys() & gone:
                if not {pair, *known[pair].lineage} <= offered:
                    self.core.ledger.record_erasure(pair, known[pair].kind)
            for job in self.core.ledger.jobs():
                if (self.core.me, (job.result or {}).get("digest")) in gone or was_scored_with(job.spec, gone):
                    self.core.ledger.drop_job(job.digest)
        for pair in pairs:
            self.core.store.erase(pair)
            self.core.ledger.record_event("erased", digest=pair.digest, peer=pair.issuer)
            log.info("erased %s of %s", pair.digest[:12], self.core.name_of(pair.issuer))
        self.core.ledger.vacuum()

    def _sign(self, job: Job) -> None:
        match job:
            case Sign():
                self.core.book.add_manifest(self.core.identity, manifest_of(self.core, job))
            case Publish(publishes=publishes, manifests=manifests, announced=announced):
                self.broadcast(self.core.book.publish(self.core.identity, publishes, manifests, announced))
            case Confirm(revoked=revoked, erased=erased, rebuilt=rebuilt):
                self.broadcast(self.core.book.confirm(self.core.identity, revoked, erased, rebuilt))
            case SignEvaluation():
                self.broadcast(self.core.book.evaluate(self.core.identity, evaluation_of(self.core, job)))

    async def _close(self, control: ControlServer) -> None:
        await self._exchange.stop(STOP_GRACE_SECONDS)
        for worker in (self._build, self._serve):
            worker.end("the node stops")
        await self._jobs.close()
        await control.stop(STOP_GRACE_SECONDS)
        for worker in (self._build, self._serve):
            await worker.close()
        self._desk.flush()


def _log_failure(task: "asyncio.Future[None]") -> None:
    error = task.exception()
    if isinstance(error, FednodeError):
        log.warning("%s", error)
    elif error is not None:
        print(f"fednode: {error}", file=sys.stderr)
