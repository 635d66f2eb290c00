"""Answers: which product speaks, what it descends from, and that nothing tainted is ever handed out.

Rule 1: what the federated evaluation speaks for answers, within the operator's limit of latency, and where nothing is within it
        the fastest; without enough counts the current experts, and while there are none the generative product, or the ensemble
        of the live classifiers if these know more labels. What is asked for by name answers or fails.
Rule 2: every answer carries its lineage, and is thrown away and asked again if that became void while it was computed.
Rule 3: a request waits through the restart of the serve worker.
"""

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from fednode.contract import Contract
from fednode.core import Sight
from fednode.errors import NoAnswerError, WorkerError
from fednode.grid import CELLS, PLAIN_MILLI, able
from fednode.inventory import Inventory
from fednode.lineage import Lineage, Pair
from fednode.manifest import Manifest
from fednode.parts import common_fields, product_fields
from fednode.presets import Recipes
from fednode.scoring import parts_of
from fednode.store import Store
from fednode.workers import Fields, Worker

MAX_CRASHES = 2
PRODUCTS = ("auto", "experts", "generative", "both", "ensemble")
COUNTED, DEFAULT, ASKED = "federated evaluation", "default", "asked"
FASTEST = "the fastest, for nothing is within max-latency"

log = logging.getLogger("fednode.answers")

Document = dict[str, Any]


@dataclass(frozen=True)
class Way:
    """A way to answer: a cell of the grid (empty: nothing can answer), a temperature in thousandths, and why it was taken."""

    cell: str
    temperature_milli: int
    chosen_by: str

    @property
    def product(self) -> str:
        """experts, generative, both, ensemble, or none."""
        return CELLS[self.cell].product if self.cell else "none"

    def fields(self) -> Document:
        """The way as a worker is told of it."""
        cell = CELLS[self.cell]
        return {"product": cell.product, "levels": cell.levels, "temperature_milli": self.temperature_milli}

    def document(self) -> Document:
        """The way as a person reads of it."""
        levels = CELLS[self.cell].levels if self.product in ("generative", "both") else None
        return {"levels": levels, "temperature": self.temperature_milli / 1000, "chosen_by": self.chosen_by}


@dataclass(frozen=True)
class Choice:
    """The way to answer, the parts that it needs, and what else it was chosen by."""

    way: Way
    experts: Mapping[Pair, Manifest]
    generators: Mapping[Pair, Manifest]
    counted: Lineage = frozenset()
    classifiers: Mapping[Pair, Manifest] = field(default_factory=dict)

    @property
    def lineage(self) -> Lineage:
        """The pairs of the product's parts, of their inputs, and of what was scored to choose it."""
        inputs = {pair for manifest in self.experts.values() for pair in manifest.lineage}
        parts = self.experts.keys() | self.generators.keys() | self.classifiers.keys()
        return frozenset(inputs | parts | self.counted)

    def labels(self, contract: Contract) -> list[str]:
        """The labels that the parts tell apart, in the contract's order."""
        if self.experts:
            names = {name for manifest in self.experts.values() for name in manifest.names()}
        else:
            names = _known(self.generators or self.classifiers)
        return [label for label in contract.labels if label in names]


def way_of(sight: Sight, product: str = "auto") -> Way:
    """The way in which `product` answers, or for `auto` the best one (Rule 1).

    Raises NoAnswerError for a product that there is not.
    """
    if product not in PRODUCTS:
        raise NoAnswerError(f"There is no product {product!r}.", f"Choose one of {', '.join(PRODUCTS)}.")
    if product != "auto":
        cells = [cell for cell, parts in CELLS.items() if parts.product == product]
        return _with_temperature(sight, sight.tally.best(cells) or cells[0], ASKED)
    able = _able(sight.stock)
    if best := sight.tally.best(sight.fast & able):
        return _with_temperature(sight, best, COUNTED)
    if not sight.fast & able and (measured := able & sight.latency.keys()):
        fastest = min(sorted(measured), key=lambda cell: sight.latency[cell])
        return _with_temperature(sight, fastest, FASTEST)
    if sight.stock.experts:
        return _with_temperature(sight, "experts", DEFAULT)
    known = {"generative": _known(sight.stock.generators), "ensemble": _known(sight.stock.classifiers)}
    most = max(known, key=lambda cell: len(known[cell]))  # the first of equals
    return Way(most if len(known[most]) > 1 else "", PLAIN_MILLI, DEFAULT)  # else there is nothing to tell apart


def choose(sight: Sight, product: str) -> Choice:
    """The way to answer and its parts. Raises NoAnswerError if a part is missing."""
    way, stock = way_of(sight, product), sight.stock
    _check(way, stock)
    return Choice(
        way,
        stock.experts if way.product in ("experts", "both") else {},
        stock.generators if way.product in ("generative", "both") else {},
        parts_of(stock) if sight.tally.tells else frozenset(),
        stock.classifiers if way.product == "ensemble" else {},
    )


def _check(way: Way, stock: Inventory) -> None:
    drawn, hint = _known(stock.generators), "`fednode status` shows what the node waits for."
    if way.product == "ensemble" and not stock.classifiers:
        raise NoAnswerError("No live classifier is here yet.", hint)
    if way.product != "ensemble" and not stock.experts and len(drawn) == 1:
        raise NoAnswerError(
            f"Generators of one label alone are here, {min(drawn)}, so there is nothing to tell apart.", hint
        )
    if way.product == "none":
        raise NoAnswerError("No generator and no classifier of two labels is here yet, so there is no answer.", hint)
    if way.product in ("experts", "both") and not stock.experts:
        raise NoAnswerError("No current expert is here yet, so there is no answer.", hint)
    if way.product in ("generative", "both") and not drawn:
        raise NoAnswerError("No live generator is here yet.", hint)


def _able(stock: Inventory) -> frozenset[str]:
    """The cells whose parts are here, whatever the counts of others speak for."""
    return frozenset(
        able(bool(stock.experts), *(len(_known(live)) > 1 for live in (stock.generators, stock.classifiers)))
    )


def _known(live: Mapping[Pair, Manifest]) -> set[str]:
    return {name for manifest in live.values() for name in manifest.seen()}


def _with_temperature(sight: Sight, cell: str, chosen_by: str) -> Way:
    return Way(cell, sight.tally.temperature(cell), chosen_by)


def _draws(sight: Sight) -> Choice:
    """All live generators. Raises NoAnswerError if there is none."""
    if not sight.stock.generators:
        raise NoAnswerError("No live generator is here yet.", "`fednode status` shows what the node waits for.")
    return Choice(Way("generative", PLAIN_MILLI, ASKED), {}, sight.stock.generators)


class Answers:
    """Asks the serve worker. `sight` gives what there is to choose by at this very moment."""

    def __init__(
        self, sight: Callable[[], Sight], store: Store, serve: Worker, contract: Contract, recipes: Recipes
    ) -> None:
        self._sight = sight
        self._store = store
        self._serve = serve
        self._contract = contract
        self._recipes = recipes

    async def predict(self, images: list[Document], product: str) -> Document:
        """Answers for images [{name, data: base64 text}]; see `predict` in docs/json.md."""

        def fields(choice: Choice) -> Fields:
            return {**choice.way.fields(), "images": images, **self._parts(choice)}

        choice, result = await self._ask("predict", lambda sight: choose(sight, product), fields)
        covered = self._sight().stock.covered(self._contract.labels)
        return {
            "answers": result["answers"],
            "product": choice.way.product,
            **choice.way.document(),
            "experts": len(choice.experts),
            "lineage": [list(pair) for pair in sorted(choice.lineage)],
            "uncovered": [label for label in self._contract.labels if label not in covered],
        }

    async def evaluate(self, fields: Fields) -> Document:
        """Measures of every product that knows all labels, and of what `auto` takes, on the test part of a data source."""

        def everything(sight: Sight) -> Choice:
            way, stock = choose(sight, "auto").way, sight.stock
            generators, classifiers = (
                live if set(stock.covered(labels)) <= _known(live) else {}
                for live in (stock.generators, stock.classifiers)
            )
            return Choice(way, stock.experts, generators, parts_of(stock), classifiers)

        def request(choice: Choice) -> Fields:
            return {**fields, "contract_labels": labels, "chosen": choice.way.fields(), **self._parts(choice)}

        labels = list(self._contract.labels)
        choice, result = await self._ask("evaluate", everything, request)
        for pair, expert in zip(sorted(choice.experts), result["experts"], strict=True):
            expert["issuer"] = pair.issuer
        chosen = {"product": choice.way.product, **choice.way.document(), **result["chosen"]}
        return {**result, "chosen": chosen, "default": choice.way.product}

    async def samples(self, fields: Fields) -> Document:
        """A picture of what the live generators draw."""
        common = {**common_fields(self._contract, self._recipes), "labels": list(self._contract.labels)}
        _, result = await self._ask(
            "samples",
            _draws,
            lambda choice: {**fields, **common, "generators": self._parts(choice)["generators"]},
        )
        return result

    async def _ask(
        self, op: str, select: Callable[[Sight], Choice], fields: Callable[[Choice], Fields]
    ) -> tuple[Choice, Document]:
        crashes = 0
        while True:
            choice = select(self._sight())
            try:
                result = await self._serve.ask(op, fields(choice), choice.lineage)
            except WorkerError as error:
                crashes += error.code != "cancelled"
                again = error.code in ("cancelled", "crash") and crashes <= MAX_CRASHES
                if self._stands(choice) and not again:
                    raise
                log.info("asking again: %s", error.message)
                continue
            if self._stands(choice):
                return choice, result

    def _stands(self, choice: Choice) -> bool:
        return choice.lineage <= self._sight().stock.offered.keys()

    def _parts(self, choice: Choice) -> Document:
        return {
            "labels": choice.labels(self._contract),
            **product_fields(choice.experts, choice.generators, choice.classifiers, self._store),
            **common_fields(self._contract, self._recipes),
        }
