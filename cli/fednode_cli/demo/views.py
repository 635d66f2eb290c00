"""What the demo found, for people: tables in the order in which one asks."""

from collections.abc import Sequence

from fednode_cli import units
from fednode_cli.demo.budgets import budgets
from fednode_cli.demo.goals import Document
from fednode_cli.demo.homes import shares
from fednode_cli.demo.stages import PHASES
from fednode_cli.output import Block, Grid


def blocks(found: Document) -> list[Block]:
    """The whole view of the demo's document."""
    return [
        f"{found['nodes']} nodes on {found['data']}, accuracy on test images"
        + (
            " (a folder has no test part: these are the training images)" if found["data"].startswith("folder:") else ""
        ),
        _nodes(found),
        _products(found),
        _traffic(found["bytes"]),
        _unlearning(found),
        _seconds(found),
    ]


def verdict(identical: bool | None) -> str:
    """Whether unlearning was exact, in a word."""
    return {True: "yes", False: "NO", None: "not verified"}[identical]


def _nodes(found: Document) -> Block:
    before, after = found["accuracy"], found["after"]
    rebuilt: Sequence[float | None] = [*after["experts"], None]
    rows = zip(
        shares(found["labels"], found["nodes"]).items(), before["alone"], before["experts"], rebuilt, strict=True
    )
    cells = tuple(
        (name, " ".join(labels), units.number(alone), units.number(expert), units.number(later))
        for (name, labels), alone, expert, later in rows
    )
    return Grid("Nodes", ("node", "own labels", "alone", "expert", "rebuilt expert"), cells)


def _products(found: Document) -> Block:
    before, after = found["accuracy"], found["after"]
    title = f"All nodes, and after {found['unlearning']['peer']} left (labels {' '.join(after['labels'])})"
    named = {"product": "product of experts", "generative": "generative product", "chosen": "what predict uses"}
    rows = tuple((text, units.number(before[name]), units.number(after[name])) for name, text in named.items())
    return Grid(title, ("", "all", "after"), (*rows, ("pooled real data", units.number(before["pooled"]), "-")))


def _traffic(counts: Document) -> Block:
    rows = tuple((name, units.size(counts[name])) for name in ("generators", "experts", "wire"))
    return Grid("Sent by all nodes until all experts were everywhere", ("what", "size"), rows)


def _unlearning(found: Document) -> Block:
    seen = found["unlearning"]
    rows = (
        ("last tainted answer after the signature", f"{seen['stopped_ms']:.0f} ms"),
        ("tainted answers after the signature", str(seen["tainted_answers_seen"])),
        ("answers before and after", f"{seen['answers_before']} and {seen['answers_after']}"),
        ("questions that failed", str(seen["answers_failed"])),
        ("longest wait for an answer", units.duration(seen["slowest_answer_s"])),
        ("rebuilt experts stand after", units.duration(seen["rebuilt_s"])),
        ("erased on all nodes", ", ".join(f"{count} {kind}s" for kind, count in seen["erased"].items()) or "nothing"),
        ("bit-identical to a federation without it", verdict(seen["bit_identical"])),
    )
    return Grid(f"{seen['peer']} leaves", (), rows)


def _seconds(found: Document) -> Block:
    spent = found["seconds"]
    allowed = budgets(shares(found["labels"], found["nodes"])) if found["data"].startswith("digits") else {}
    rows = [(name, units.duration(spent[name]), units.duration(allowed.get(name))) for name in PHASES]
    total = ("total", units.duration(spent["total"]), units.duration(sum(allowed.values()) if allowed else None))
    return Grid("Time (budget: digits on two cores)", ("phase", "took", "budget"), (*rows, total))
