"""The status document of a node as a view: pure, one small function for each part, nothing where there is nothing to say."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from fednode_cli import units
from fednode_cli.output import Block, Grid

Document = Mapping[str, Any]

NARROW, WIDE = 4, 12  # with more labels than these, Γ shows fewer digits; then it lists the labels


def status_blocks(status: Document, now: float) -> list[Block]:
    """All parts of the view, in the order in which a person asks; `now` is unix time in seconds."""
    parts: list[Iterable[Block]] = [
        [_headline(status)],
        [f"Waits for {what}" for what in status["waiting"]],
        _jobs(status["jobs"]),
        _failed(status["failed"]),
        _overridden(status["overridden"]),
        _data(status["data"]),
        _exchange(status["exchange"]),
        _gamma(status["gamma"], status["labels"]),
        _classifiers(status["classifiers"]),
        _peers(status["peers"], now),
        _product(status["product"]),
        _evaluation(status["evaluation"]),
        _samples(status["expert"]),
        _lists(status),
        _revocations(status["revocations"]),
        _withdrawals(status["withdrawals"]),
        _traffic(status["bytes"]),
        _seconds(status["seconds"]),
        [_workers(status["workers"])],
        [f"Last error: {status['last_error']}"] if status["last_error"] else [],
    ]
    return [block for part in parts for block in part]


def _headline(status: Document) -> str:
    return (
        f"{status['name']} in {status['federation']}: {status['phase']}, listening on {status['listen']}, "
        f"peer id {status['peer_id']}"
    )


def _workers(workers: Mapping[str, str]) -> str:
    return "Workers: " + ", ".join(f"{name} {state}" for name, state in workers.items())


def _jobs(jobs: Sequence[Document]) -> list[Block]:
    rows = [
        (
            job["job"],
            job["phase"],
            units.bar(job["done"], job["total"]),
            f"{job['rate']:.1f}/s" if job["rate"] else "",
            units.duration(job["eta"]),
        )
        for job in jobs
    ]
    return _grid("Jobs", ("job", "phase", "progress", "rate", "time left"), rows)


def _failed(failed: Sequence[Document]) -> list[Block]:
    rows = [(job["job"], job["code"], _again(job["retry_in"]), job["reason"]) for job in failed]
    return _grid("Failed jobs", ("job", "code", "tried again", "reason"), rows)


def _again(seconds: float | None) -> str:
    return "after `fednode rescan`" if seconds is None else f"in {units.duration(seconds)}"


def _overridden(entries: Sequence[Document]) -> list[Block]:
    rows = [(one["peer"], one["label"] or "classifier", one["digest"][:8], one["reason"]) for one in entries]
    return _grid("Published in spite of a failed audit", ("peer", "label", "weights", "reason"), rows)


def _data(data: Document | None) -> list[Block]:
    if data is None:
        return ["Own data: none"]
    rows = [
        (row["label"], *map(units.count, (row["images"], row["holdout"], row["patients"]))) for row in data["labels"]
    ]
    bad = [(image["name"], image["reason"]) for image in data["bad"]]
    return [
        *_grid(f"Own data ({data['source']})", ("label", "images", "held out", "patients"), rows),
        *_grid("Images left out", ("image", "reason"), bad),
    ]


def _gamma(gamma: Mapping[str, Mapping[str, str]], labels: Sequence[str]) -> list[Block]:
    title = "Generators (Γ)"
    if len(labels) > WIDE:
        rows = [(peer, str(len(row)), " ".join(sorted(row))) for peer, row in gamma.items()]
        return _grid(title, ("peer", "count", "labels"), rows)
    digits = 8 if len(labels) <= NARROW else 4
    cells = [(peer, *(row.get(label, "")[:digits] or "-" for label in labels)) for peer, row in gamma.items()]
    return _grid(title, ("peer", *labels), cells)


def _exchange(found: Document) -> list[Block]:
    """One line where it is not the default."""
    if found["asked"] == "generators":
        return []
    kinds = " and ".join(f"{kind}s" for kind in found["kinds"]) or "nothing yet"
    return [
        f"Exchanges {kinds} ({found['asked']}: {found['why']})" if found["asked"] == "auto" else f"Exchanges {kinds}"
    ]


def _classifiers(found: Sequence[Document]) -> list[Block]:
    rows = [
        (
            one["peer"],
            one["digest"][:8],
            " ".join(f"{label}:{images}" for label, images in one["labels"].items()),
            "passed" if one["audited"] else "NOT AUDITED",
        )
        for one in found
    ]
    return _grid("Classifiers", ("peer", "classifier", "labels and images", "audit"), rows)


def _peers(peers: Sequence[Document], now: float) -> list[Block]:
    rows = [
        (
            peer["name"],
            peer["standing"],
            "connected" if peer["connected"] else _ago(peer["last_contact"], now),
            peer["address"] or "dials us",
            " ".join(peer["missing"]) or "-",
            _why(peer),
        )
        for peer in peers
    ]
    return _grid("Peers", ("peer", "standing", "contact", "address", "missing", "reason"), rows)


def _ago(moment: float | None, now: float) -> str:
    return "never" if moment is None else f"{units.duration(max(now - moment, 0.0))} ago"


def _why(peer: Document) -> str:
    skew = peer["skew"]
    clock = f"its clock is {skew:+.0f} s from ours" if skew and abs(skew) >= 1 else ""
    return "; ".join(filter(None, (peer["reason"], clock))) or "-"


def _product(product: Document) -> list[Block]:
    experts = ", ".join(f"{expert['peer']} ({expert['digest'][:8]})" for expert in product["experts"])
    answers = {
        "experts": f"Predictions come from the experts of {experts}",
        "generative": "Predictions come from the generative product",
        "both": f"Predictions come from the generative product and the experts of {experts}",
        "ensemble": "Predictions come from the ensemble of the classifiers",
        "none": "Predictions: nothing can answer yet",
    }
    stale = [(expert["peer"], expert["digest"][:8], expert["reason"]) for expert in product["stale"]]
    return [answers[product["default"]], *_grid("Stale experts", ("peer", "expert", "reason"), stale)]


def _evaluation(found: Document) -> list[Block]:
    """One line: what the counts of all nodes say of the way that answers."""
    if found["lacking"] and not found["nodes"]:
        return [f"Federated evaluation waits for the experts of {', '.join(found['lacking'])}"]
    if not found["nodes"]:
        return []
    levels = f" at its {found['levels']} levels" if found["levels"] in ("low", "high") else ""
    taken = f"{found['product']}{levels}, temperature {found['temperature']:g} ({found['chosen_by']})"
    share = (found["accuracy"] and f"{units.share(found['accuracy'])} on ") or ""
    return [
        f"Federated evaluation by {', '.join(found['nodes'])}: {taken} has {share}{found['images']} held-out images "
        f"of {found['labels']} labels"
    ]


def _samples(expert: Document | None) -> list[Block]:
    """The donors whose samples the generative product doubts; nothing of the others, for they are as they should be."""
    rows = [
        (
            one["label"],
            ", ".join(one["peers"]) or "-",
            one["digest"][:8],
            f"{one['doubted']} of {one['asked']}",
            str(one["dropped"]),
        )
        for one in (expert["samples"] if expert else ())
        if one["doubted"] or one["dropped"]
    ]
    columns = ("label", "donor", "generator", "doubted", "left out")
    return _grid("Samples to which the generators together give another label", columns, rows)


def _lists(status: Document) -> list[Block]:
    erased = [f"{count} {kind}{'' if count == 1 else 's'}" for kind, count in status["erased"].items()]
    named = {"Uncovered labels": status["uncovered"], "Withdrawn labels": status["withdrawn"], "Erased here": erased}
    return [f"{title}: {', '.join(items)}" for title, items in named.items() if items]


def _revocations(entries: Sequence[Document]) -> list[Block]:
    rows = [
        (
            entry["name"],
            "everywhere" if entry["binding"] else "here only",
            str(entry["votes"]) if entry["binding"] else f"{entry['votes']} of {entry['needed']}",
            *_receipts(entry),
        )
        for entry in entries
    ]
    return _grid("Revocations", ("of", "binds", "votes", "confirmed by", "waiting for"), rows)


def _withdrawals(entries: Sequence[Document]) -> list[Block]:
    rows = [(entry["digest"][:8], *_receipts(entry)) for entry in entries]
    return _grid("Own models taken back", ("weights", "confirmed by", "waiting for"), rows)


def _receipts(entry: Document) -> tuple[str, str]:
    return ", ".join(entry["confirmed"]) or "-", ", ".join(entry["waiting"]) or "-"


def _traffic(counts: Mapping[str, Mapping[str, int]]) -> list[Block]:
    sent, received = counts["sent"], counts["received"]
    kinds = dict.fromkeys([*sent, *received])
    rows = [(kind, units.size(sent.get(kind, 0)), units.size(received.get(kind, 0))) for kind in kinds]
    return _grid("Traffic", ("what", "sent", "received"), rows)


def _seconds(seconds: Mapping[str, float]) -> list[Block]:
    spent = ", ".join(f"{phase} {units.duration(value)}" for phase, value in seconds.items())
    return [f"Time spent: {spent}"] if spent else []


def _grid(title: str, columns: Sequence[str], rows: Sequence[tuple[str, ...]]) -> list[Block]:
    return [Grid(title, tuple(columns), tuple(rows))] if rows else []
