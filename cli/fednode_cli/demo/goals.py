"""How far a federation is, read from the status documents of its nodes, by name."""

from collections.abc import Mapping
from typing import Any

from fednode_cli.demo.homes import Shares

Document = dict[str, Any]
Statuses = Mapping[str, Document]


def fitted(statuses: Statuses, shares: Shares) -> bool:
    """Whether every node has live generators or a classifier of its own labels."""
    return all(_has(statuses[name], name, labels) for name, labels in shares.items())


def gathered(statuses: Statuses, shares: Shares) -> bool:
    """Whether every node has live generators or a classifier of every label of every node."""
    return all(_has(statuses[me], name, labels) for me in shares for name, labels in shares.items())


def ready(statuses: Statuses, shares: Shares) -> bool:
    """Whether every node is done, and its product consists of one expert of each node and nothing else."""
    return all(
        statuses[me]["phase"] == "ready" and sorted(product_peers(statuses[me])) == sorted(shares) for me in shares
    )


def scored(statuses: Statuses, shares: Shares) -> bool:
    """Whether all is done, and every node has the same nodes' counts of how the products do."""
    said = [statuses[me]["evaluation"] for me in shares]
    return ready(statuses, shares) and not any(
        found["scoring"] or found["lacking"] or found["nodes"] != said[0]["nodes"] for found in said
    )


def product_peers(status: Document) -> list[str]:
    """The names of those whose experts are in the product."""
    return [expert["peer"] for expert in status["product"]["experts"]]


def own_experts(statuses: Statuses, shares: Shares) -> dict[str, str]:
    """The weight digest of each node's own expert."""
    return {
        me: next(expert["digest"] for expert in statuses[me]["product"]["experts"] if expert["peer"] == me)
        for me in shares
    }


def hopeless(status: Document) -> str | None:
    """Why a node will not get any further by itself, if that is so; a score that fails is only not taken into account."""
    for failed in status["failed"]:
        if failed["retry_in"] is None and failed["job"] != "score":
            return f"{failed['job']}: {failed['reason']}"
    return str(status["last_error"] or "it is blocked") if status["phase"] == "blocked" else None


def position(statuses: Statuses) -> str:
    """A text that is another one whenever anything has moved anywhere."""
    moving = ("phase", "jobs", "gamma", "classifiers", "product", "waiting")
    return repr([[status[part] for part in moving] for status in statuses.values()])


def _has(status: Document, name: str, labels: tuple[str, ...]) -> bool:
    seen = [one["labels"] for one in status["classifiers"] if one["peer"] == name]
    return set(labels) <= set(status["gamma"].get(name, {})).union(*seen)
