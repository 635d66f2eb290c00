"""What the demo says in figures, from the nodes' documents: pure functions."""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from fednode_cli.demo.asking import Answer
from fednode_cli.demo.goals import Statuses

Document = dict[str, Any]


def accuracies(evaluation: Document, names: Iterable[str]) -> Document:
    """Accuracy of each node's expert, of the products (None: there is none), and of the way that `predict` answers by itself."""
    experts = {expert["peer"]: expert["accuracy"] for expert in evaluation["experts"]}
    products = {name: measures["accuracy"] for name, measures in evaluation["products"].items() if measures}
    return {
        "experts": [experts[name] for name in names],
        "product": products.get("experts"),
        "generative": products.get("generative"),
        "ensemble": products.get("ensemble"),
        "chosen": evaluation["chosen"]["accuracy"],
    }


def traffic(statuses: Statuses) -> Document:
    """Bytes between all nodes: each transfer counts once, where it was received; its sender knows of its end a little later."""
    received: Counter[str] = Counter()
    for status in statuses.values():
        received.update(status["bytes"]["received"])
    kinds = {f"{kind}s": received[kind] for kind in ("generator", "classifier", "expert")}
    return {**kinds, "wire": received.total()}


def erased(statuses: Statuses) -> Document:
    """How many artifacts of each kind all nodes together have erased."""
    gone: Counter[str] = Counter()
    for status in statuses.values():
        gone.update(status["erased"])
    return dict(sorted(gone.items()))


def taint(answers: Sequence[Answer], signed_at: float) -> Document:
    """How long after the signature (unix time, s) answers still descended from the leaver, and how many did."""
    before = [answer for answer in answers if answer.finished_at <= signed_at]
    after = [answer for answer in answers if answer.finished_at > signed_at]
    late = [answer.finished_at for answer in after if answer.tainted]
    return {
        "stopped_ms": round((max(late) - signed_at) * 1000, 1) if late else 0.0,
        "tainted_answers_seen": len(late),
        "answers_before": len(before),
        "answers_after": len(after),
        "slowest_answer_s": round(max((answer.seconds for answer in after), default=0.0), 3),
    }
