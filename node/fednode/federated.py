"""The document of the federated evaluation: how well each product does on every institution's real images, label by label."""

from dataclasses import asdict
from typing import Any

from fednode import core as cores
from fednode.answers import way_of
from fednode.core import Core
from fednode.errors import NoAnswerError
from fednode.tally import Counts, Tally

Document = dict[str, Any]


def document(core: Core) -> Document:
    """See `evaluate --federation` in docs/json.md. Raises NoAnswerError while nobody has counted anything."""
    sight = cores.sight(core)
    tally, way = sight.tally, way_of(sight)
    if not tally.scorers:
        raise NoAnswerError(
            "No node has scored the products that answer now yet.",
            "It is done once every peer's expert is here, or was waited for; a label needs 5 held-out images.",
        )
    return {
        "labels": list(tally.labels),
        "unscored": [label for label in tally.labels if label not in tally.scorers],
        "nodes": sorted(core.name_of(peer) for peer in tally.issuers),
        "images": tally.images,
        "cells": {cell: _cell(tally, cell) for cell in tally.cells},
        "rows": [_row(core, tally, label) for label in tally.labels if label in tally.scorers],
        "chosen": {"cell": way.cell, "product": way.product, **way.document()},
        "latency_ms": core.ledger.get("latency", {}),
    }


def _cell(tally: Tally, cell: str) -> Document:
    temperatures = tally.grid.temperatures_milli
    return {
        **asdict(tally.accuracy(cell)),
        "temperature": tally.temperature(cell) / 1000,
        "log_loss": tally.log_loss(cell, tally.temperature(cell)),
        "log_losses": {f"{milli / 1000:g}": tally.log_loss(cell, milli) for milli in temperatures},
    }


def _row(core: Core, tally: Tally, label: str) -> Document:
    return {
        "label": label,
        "nodes": sorted(core.name_of(peer) for peer in tally.scorers[label]),
        "images": tally.cells["experts"][label].images,
        "cells": {cell: _label(tally, cell, tally.cells[cell][label]) for cell in tally.cells},
    }


def _label(tally: Tally, cell: str, counts: Counts) -> Document:
    at = tally.grid.temperatures_milli.index(tally.temperature(cell))
    return {**asdict(counts.accuracy), "log_loss": counts.log_loss(at), "answered": dict(counts.answered)}
