"""Answers: which product speaks, what it descends from, and that nothing tainted is ever handed out.

Rule 1: the current experts answer, and while there are none the generative product; what is asked for by name answers or fails.
Rule 2: every answer carries its lineage, and is thrown away and asked again if that became void while it was computed.
Rule 3: a request waits through the restart of the serve worker.
"""

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from fednode.contract import Contract
from fednode.errors import NoAnswerError, WorkerError
from fednode.inventory import Inventory
from fednode.lineage import Lineage, Pair
from fednode.manifest import Manifest
from fednode.recipe import Recipes
from fednode.store import Store
from fednode.workers import Fields, Worker

MAX_CRASHES = 2
PRODUCTS = ("auto", "experts", "generative")

log = logging.getLogger("fednode.answers")

Document = dict[str, Any]


@dataclass(frozen=True)
class Choice:
    """The product that answers, and all that the answer descends from."""

    product: str
    experts: Mapping[Pair, Manifest]
    generators: Mapping[Pair, Manifest]

    @property
    def lineage(self) -> Lineage:
        """The pairs of the product's parts and of their inputs."""
        inputs = {pair for manifest in self.experts.values() for pair in manifest.lineage}
        return frozenset(inputs | self.experts.keys() | self.generators.keys())

    def labels(self, contract: Contract) -> list[str]:
        """The labels that the parts tell apart, in the contract's order."""
        names = {name for manifest in (self.experts or self.generators).values() for name in manifest.names()}
        return [label for label in contract.labels if label in names]


def default_product(stock: Inventory) -> str:
    """The product that answers when none is named; with one label there is nothing to tell apart."""
    if stock.experts:
        return "experts"
    return "generative" if len(_drawn(stock)) > 1 else "none"


def _drawn(stock: Inventory) -> set[str]:
    return {name for manifest in stock.generators.values() for name in manifest.names()}


def choose(stock: Inventory, product: str) -> Choice:
    """The parts of the product. Raises NoAnswerError if it has none."""
    named = default_product(stock) if product == "auto" else product
    if named == "experts" and stock.experts:
        return Choice("experts", stock.experts, {})
    if named == "generative" and len(_drawn(stock)) > 1:
        return Choice("generative", {}, stock.generators)
    if only := _drawn(stock):
        raise NoAnswerError(
            f"Generators of one label alone are here, {min(only)}, so there is nothing to tell apart.",
            "`fednode status` shows what the node waits for.",
        )
    if named in ("experts", "none"):
        raise NoAnswerError(
            f"No {'current expert' if named == 'experts' else 'generator'} is here yet, so there is no answer.",
            "`fednode status` shows what the node waits for.",
        )
    if named == "generative":
        raise NoAnswerError("No live generator is here yet.", "`fednode status` shows what the node waits for.")
    raise NoAnswerError(f"There is no product {product!r}.", f"Choose one of {', '.join(PRODUCTS)}.")


def _draws(stock: Inventory) -> Choice:
    """All live generators. Raises NoAnswerError if there is none."""
    if not stock.generators:
        raise NoAnswerError("No live generator is here yet.", "`fednode status` shows what the node waits for.")
    return Choice("generative", {}, stock.generators)


class Answers:
    """Asks the serve worker. `stock` gives the inventory of this very moment."""

    def __init__(
        self, stock: Callable[[], Inventory], store: Store, serve: Worker, contract: Contract, recipes: Recipes
    ) -> None:
        self._stock = stock
        self._store = store
        self._serve = serve
        self._contract = contract
        self._recipes = recipes

    async def predict(self, images: list[Document], product: str) -> Document:
        """Answers for images [{name, data: base64 text}]; see `predict` in docs/json.md."""

        def fields(choice: Choice) -> Fields:
            return {"product": choice.product, "images": images, **self._parts(choice)}

        choice, result = await self._ask("predict", lambda stock: choose(stock, product), fields)
        covered = self._stock().covered(self._contract.labels)
        return {
            "answers": result["answers"],
            "product": choice.product,
            "experts": len(choice.experts),
            "lineage": [list(pair) for pair in sorted(choice.lineage)],
            "uncovered": [label for label in self._contract.labels if label not in covered],
        }

    async def evaluate(self, fields: Fields) -> Document:
        """Measures of every product on the test part of a data source."""

        def both(stock: Inventory) -> Choice:
            choose(stock, "auto")
            return Choice("both", stock.experts, stock.generators)

        fields = {**fields, "contract_labels": list(self._contract.labels)}
        choice, result = await self._ask("evaluate", both, lambda choice: {**fields, **self._parts(choice)})
        for pair, expert in zip(sorted(choice.experts), result["experts"], strict=True):
            expert["issuer"] = pair.issuer
        return {**result, "default": default_product(self._stock())}

    async def samples(self, fields: Fields) -> Document:
        """A picture of what the live generators draw."""
        _, result = await self._ask(
            "samples",
            _draws,
            lambda choice: {**fields, "labels": list(self._contract.labels), **self._drawing(choice)},
        )
        return result

    async def _ask(
        self, op: str, select: Callable[[Inventory], Choice], fields: Callable[[Choice], Fields]
    ) -> tuple[Choice, Document]:
        crashes = 0
        while True:
            choice = select(self._stock())
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
        return choice.lineage <= self._stock().offered.keys()

    def _parts(self, choice: Choice) -> Document:
        return {
            "experts": [self._part(pair, manifest) for pair, manifest in sorted(choice.experts.items())],
            "labels": choice.labels(self._contract),
            **self._drawing(choice),
        }

    def _drawing(self, choice: Choice) -> Document:
        generators = [
            {**self._part(pair, manifest), "labels": [[count.label, count.images] for count in manifest.labels]}
            for pair, manifest in sorted(choice.generators.items())
        ]
        return {
            "generators": generators,
            "image": self._contract.image.model_dump(mode="json"),
            "recipe": self._recipes.expert.model_dump(mode="json"),
        }

    def _part(self, pair: Pair, manifest: Manifest) -> Document:
        return {
            "digest": pair.digest,
            "weights": str(self._store.path(pair)),
            "architecture": manifest.architecture.model_dump(mode="json"),
        }
