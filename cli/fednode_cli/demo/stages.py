"""The demo from beginning to end, stage by stage, and what came of it as one document."""

import contextlib
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from fednode.errors import FednodeError, RefusedError
from fednode.store import WEIGHTS
from fednode_cli.demo import asking, bench, goals, measures
from fednode_cli.demo.federation import POLL_SECONDS, Federation, Node
from fednode_cli.demo.goals import Document
from fednode_cli.demo.homes import Shares, Source, shares
from fednode_cli.demo.interrupts import Interrupts
from fednode_cli.demo.progress import Display
from fednode_cli.output import note

PHASES = ("start", "fit", "gather", "train", "evaluate", "baselines", "leave", "rebuild", "verify")
ANSWERS_BEFORE = 10
ANSWERS_AT_FULL_SPEED = 20
ANSWERS_SECONDS = 300.0
WORKER_LOG = "workers.log"


@dataclass(frozen=True)
class Options:
    """What was asked for: how many nodes, on which source, where the work and the report go, and whether to verify.

    With `classifiers` each node has Dirichlet shares of the labels; with `generators` labels of its own.
    """

    nodes: int
    source: str
    exchange: str
    seed: int
    work: Path
    report: Path
    verify: bool


@dataclass
class Stopwatch:
    """Seconds spent in each phase; a phase may be entered several times."""

    began: float = field(default_factory=time.monotonic)
    seconds: dict[str, float] = field(default_factory=lambda: dict.fromkeys(PHASES, 0.0))

    @contextlib.contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Count what is done inside as part of the phase `name`."""
        began = time.monotonic()
        yield
        self.seconds[name] += time.monotonic() - began

    def document(self) -> Document:
        """The seconds of each phase and the total until now."""
        total = time.monotonic() - self.began
        return {name: round(spent, 2) for name, spent in {"total": total, **self.seconds}.items()}


@dataclass
class Stage:
    """What all stages share."""

    options: Options
    source: Source
    shares: Shares
    display: Display
    watch: Stopwatch
    interrupts: Interrupts

    @property
    def leaver(self) -> str:
        """The node that will leave: the last one."""
        return list(self.shares)[-1]

    @property
    def rest(self) -> Shares:
        """The labels of the nodes that stay."""
        return {name: labels for name, labels in self.shares.items() if name != self.leaver}


def run(options: Options, interrupts: Interrupts, display: Display) -> Document:
    """Run the whole demo; the document of `fednode demo --json`. Raises FednodeError."""
    watch = Stopwatch()
    display.stage("looks at the data")
    with watch.phase("start"):
        source = bench.describe(options.source, options.work / WORKER_LOG)
        source, own = _dealt(options, source)
    stage = Stage(options, source, own, display, watch, interrupts)
    with Federation(options.work / "nodes", source, stage.shares, interrupts) as federation:
        _build(stage, federation, stage.shares)
        measured = _measure(stage, federation)
        left = _leave(stage, federation)
    digests = left.pop("digests")
    left["unlearning"]["bit_identical"] = _verify(stage, digests) if options.verify else None
    head = {"nodes": options.nodes, "seed": options.seed, "data": options.source, "labels": list(source.labels)}
    head |= {"exchange": options.exchange, "own": {name: list(labels) for name, labels in own.items()}}
    return {**head, **measured, **left, "seconds": watch.document()}


def _dealt(options: Options, source: Source) -> tuple[Source, Shares]:
    """The source as the nodes have it, and the labels of each. Raises RefusedError, DataError and WorkerError."""
    if options.exchange != "generators":
        return bench.deal(source, options.nodes, options.seed, options.work / "parts", options.work / WORKER_LOG)
    if options.nodes > len(source.labels):
        raise RefusedError(
            f"{options.source} has {len(source.labels)} labels, which is too few for {options.nodes} nodes.",
            f"Use at most --nodes {len(source.labels)}.",
        )
    return source, shares(source.labels, options.nodes)


def _build(stage: Stage, federation: Federation, names: Shares) -> None:
    with stage.watch.phase("start"):
        stage.display.stage(f"starts {len(names)} nodes")
        federation.start()
    for phase, goal, text in (
        ("fit", goals.fitted, f"the nodes fit and audit their {stage.options.exchange}"),
        ("gather", goals.gathered, f"the nodes gather each other's {stage.options.exchange}"),
        ("train", goals.ready, "the nodes train and exchange their experts"),
    ):
        stage.display.stage(text)
        with stage.watch.phase(phase):
            federation.wait(goal, names, stage.display.show)


def _measure(stage: Stage, federation: Federation) -> Document:
    """Accuracies and bytes of the whole federation, and the pictures."""
    first = next(iter(federation.nodes.values()))
    report = stage.options.report
    with stage.watch.phase("evaluate"):
        stage.display.stage("the nodes score the products on their own held-out images")
        federation.wait(goals.scored, stage.shares, stage.display.show)
        stage.display.stage("measures the experts and the products")
        evaluation = first.client.evaluate(stage.source.name, confusion_png=str(report / "confusion.png"))
    with stage.watch.phase("baselines"):
        count = len(stage.shares) + 2
        stage.display.stage(
            "trains baselines on real images alone, and draws these beside synthetic ones if there are any"
        )
        alone, pooled = bench.compare(
            stage.source,
            stage.shares,
            [drawn for node in federation.nodes.values() for drawn in _generators(node, first)],
            report / "samples.png",
            stage.options.work / WORKER_LOG,
            lambda done: stage.display.stage(f"pictures and baselines: {done} of {count}"),
        )
    accuracy = {"alone": alone, **measures.accuracies(evaluation, stage.shares), "pooled": pooled}
    return {"accuracy": accuracy, "bytes": measures.traffic(federation.statuses())}


def _generators(node: Node, holder: Node) -> Iterator[bench.Drawn]:
    """The generators of `node` as they lie in the store of `holder`."""
    for label, digest in holder.last["gamma"].get(node.name, {}).items():
        yield bench.Drawn(label, digest, holder.home.store / node.peer_id / digest / WEIGHTS)


def _leave(stage: Stage, federation: Federation) -> Document:
    """The last node leaves while all others are asked for predictions; what that did, and what was rebuilt."""
    leaver = federation.nodes[stage.leaver]
    clients = {name: federation.nodes[name].client for name in stage.rest}
    image = asking.question(stage.source.image, stage.options.seed)
    with asking.Asking(clients, image, leaver.peer_id) as questions:
        with stage.watch.phase("leave"):
            stage.display.stage("asks all nodes but the last for predictions")
            _until(questions, 0.0, ANSWERS_BEFORE, federation, stage)
            stage.display.stage(f"{leaver.name} leaves")
            signed_at: float = leaver.client.leave("the demo's last node leaves")["signed_at"]
            _until(questions, signed_at, ANSWERS_AT_FULL_SPEED, federation, stage)
        questions.slow_down()
        with stage.watch.phase("rebuild"):
            stage.display.stage(f"the others rebuild without {leaver.name}")
            statuses = federation.wait(goals.ready, stage.rest, stage.display.show)
            rebuilt_s = round(time.time() - signed_at, 2)
    if questions.failures:
        note(f"{len(questions.failures)} questions were not answered; the first: {questions.failures[0]}")
    after = _measure_again(stage, federation)
    unlearning = {
        "peer": leaver.name,
        **measures.taint(questions.answers, signed_at),
        "answers_failed": len(questions.failures),
        "rebuilt_s": rebuilt_s,
        "product": after["product"],
        "generative": after["generative"],
        "erased": measures.erased(federation.statuses()),
    }
    return {"after": after, "unlearning": unlearning, "digests": goals.own_experts(statuses, stage.rest)}


def _until(questions: asking.Asking, since: float, count: int, federation: Federation, stage: Stage) -> None:
    """Wait until every node has given that many answers since then. Raises FednodeError if one gives none for long."""
    deadline = time.monotonic() + ANSWERS_SECONDS
    while questions.least(since) < count:
        if time.monotonic() > deadline:
            why = f"The last error: {questions.failures[-1]}" if questions.failures else "None has failed."
            raise FednodeError(f"A node has not answered {count} questions in {ANSWERS_SECONDS:.0f} seconds.", why)
        stage.display.show(federation.statuses())
        time.sleep(POLL_SECONDS)


def _measure_again(stage: Stage, federation: Federation) -> Document:
    with stage.watch.phase("evaluate"):
        federation.wait(goals.scored, stage.rest, stage.display.show)
        stage.display.stage("measures the rebuilt experts and products")
        evaluation = next(iter(federation.nodes.values())).client.evaluate(stage.source.name)
    return {**measures.accuracies(evaluation, stage.rest), "labels": evaluation["labels"]}


def _verify(stage: Stage, digests: dict[str, str]) -> bool:
    """Whether a federation that never had the node that left builds the same experts, from fresh homes and keys."""
    with (
        stage.watch.phase("verify"),
        Federation(stage.options.work / "reference", stage.source, stage.rest, stage.interrupts) as reference,
    ):
        stage.display.stage(f"builds the same federation without {stage.leaver}, from nothing")
        reference.start()
        statuses = reference.wait(goals.ready, stage.rest, stage.display.show)
        return goals.own_experts(statuses, stage.rest) == digests
