"""What the demo found, for people: tables in the order in which one asks."""

from collections.abc import Iterator, Sequence

from fednode_cli import units
from fednode_cli.demo.budgets import budgets
from fednode_cli.demo.goals import Document
from fednode_cli.demo.stages import PHASES
from fednode_cli.output import Block, Grid

NAMED = {
    "product": "product of experts",
    "generative": "generative product",
    "ensemble": "ensemble of the classifiers",
    "chosen": "what predict uses",
}
NO_TEST_PART = "A folder has no test part, so these are accuracies on the training images."


def blocks(found: Document) -> list[Block]:
    """The whole view of the demo's document."""
    return list(_blocks(found))


def _blocks(found: Document) -> Iterator[Block]:
    left = found["unlearning"]["peer"]
    yield f"Accuracy of {found['nodes']} nodes on {found['data']}, before and after {left} left"
    if found["data"].startswith("folder:"):
        yield NO_TEST_PART
    yield _nodes(found)
    yield _products(found)
    yield f"After the leave only the labels that are still covered count: {' '.join(found['after']['labels'])}"
    yield Grid("Sent by all nodes before the leave", ("what", "size"), _traffic(found["bytes"]))
    yield Grid(f"{left} leaves", (), _unlearning(found["unlearning"]))
    yield Grid("Time, budgets for digits on two cores", ("phase", "took", "budget"), _seconds(found))


def verdict(identical: bool | None) -> str:
    """Whether unlearning was exact, in a word."""
    return {True: "yes", False: "NO", None: "not verified"}[identical]


def _nodes(found: Document) -> Grid:
    before = found["accuracy"]
    after: Sequence[float | None] = [*found["after"]["experts"], None]
    own = found["own"].items()
    rows = tuple(
        (name, " ".join(labels), units.number(alone), units.number(expert), units.number(rebuilt))
        for (name, labels), alone, expert, rebuilt in zip(own, before["alone"], before["experts"], after, strict=True)
    )
    return Grid("", ("node", "own labels", "alone", "expert", "rebuilt expert"), rows)


def _products(found: Document) -> Grid:
    before, after = found["accuracy"], found["after"]
    shown = {name: text for name, text in NAMED.items() if before[name] is not None}
    rows = [(text, units.number(before[name]), units.number(after[name])) for name, text in shown.items()]
    return Grid(
        "", ("all nodes", "before", "after"), (*rows, ("pooled real data", units.number(before["pooled"]), "-"))
    )


def _traffic(counts: Document) -> tuple[tuple[str, ...], ...]:
    kinds = ("generators", "classifiers", "experts")
    parts = {**counts, "statements": counts["wire"] - sum(counts[kind] for kind in kinds)}
    return tuple((name, units.size(parts[name])) for name in (*kinds, "statements", "wire") if parts[name])


def _unlearning(seen: Document) -> tuple[tuple[str, ...], ...]:
    return (
        ("last tainted answer after the signature", f"{seen['stopped_ms']:.0f} ms"),
        ("tainted answers after the signature", str(seen["tainted_answers_seen"])),
        ("answers before and after", f"{seen['answers_before']} and {seen['answers_after']}"),
        ("questions that failed", str(seen["answers_failed"])),
        ("longest wait for an answer", units.duration(seen["slowest_answer_s"])),
        ("rebuilt experts stand after", units.duration(seen["rebuilt_s"])),
        ("erased on all nodes", ", ".join(f"{count} {kind}s" for kind, count in seen["erased"].items()) or "nothing"),
        ("bit-identical to a federation without it", verdict(seen["bit_identical"])),
    )


def _seconds(found: Document) -> tuple[tuple[str, ...], ...]:
    spent = found["seconds"]
    known = found["data"].startswith("digits") and found["exchange"] == "generators"
    allowed = budgets(found["own"]) if known else {}
    rows = [(name, units.duration(spent[name]), units.duration(allowed.get(name))) for name in PHASES]
    total = sum(allowed.values()) if allowed else None
    return (*rows, ("total", units.duration(spent["total"]), units.duration(total)))
