"""Which way answers: what was measured best within the limit of latency, else what there is; and what that descends from."""

import pytest
from making import CONTRACT, classifier, expert, generator, identity
from test_tally import GRID, evaluation

from fednode.answers import choose, way_of
from fednode.core import Sight
from fednode.errors import NoAnswerError
from fednode.grid import CELLS, able
from fednode.inventory import Inventory
from fednode.tally import Tally, add_up

A, B = identity(1).peer_id, identity(2).peer_id
ANT, BEE, CAT = generator(A, "ant"), generator(B, "bee"), generator(B, "cat")
LIVE = {one.pair: one for one in (ANT, BEE, CAT)}
EXPERT = expert(A, LIVE, labels=("ant", "bee", "cat"))
STOCK = Inventory({**LIVE, EXPERT.pair: EXPERT}, LIVE, {EXPERT.pair: EXPERT})
LABELS = CONTRACT.labels
SCORED = able(experts=True, generators=True, classifiers=False)
LOSSES = (9_000_000, 1_000_000, 5_000_000, 6_000_000, 7_000_000)
NOTHING = add_up(LABELS, GRID, [], {}, SCORED)


def measured(best: str) -> Tally:
    """Every cell errs on half of the ants, but for `best`."""
    ants = evaluation(A, {"ant": {"ant": 20, "bee": 20}}, LOSSES, better={best: {"ant": {"ant": 40}}})
    rest = evaluation(B, {"bee": {"bee": 40}, "cat": {"cat": 40}}, LOSSES)
    return add_up(LABELS, GRID, [ants, rest], STOCK.given(), SCORED)


def sight(tally: Tally = NOTHING, stock: Inventory = STOCK, fast: frozenset[str] = frozenset(CELLS)) -> Sight:
    return Sight(stock, tally, fast)


def test_without_counts_the_experts_answer_and_without_them_the_generators() -> None:
    way = way_of(sight())
    assert (way.product, way.temperature_milli, way.chosen_by) == ("experts", 1000, "default")
    only = Inventory(LIVE, LIVE, {})
    assert way_of(sight(stock=only)).product == "generative"
    assert way_of(sight(stock=Inventory({}, {}, {}))).product == "none"


@pytest.mark.parametrize("cell", ["experts", "both"])
def test_counts_do_not_choose_what_can_not_answer_here(cell: str) -> None:
    without_experts = Inventory(LIVE, LIVE, {})
    assert way_of(sight(measured(cell), stock=without_experts)).product == "generative"


@pytest.mark.parametrize("cell", SCORED)
def test_what_was_measured_best_answers_at_its_best_temperature(cell: str) -> None:
    way = way_of(sight(measured(cell)))
    assert (way.cell, way.temperature_milli, way.chosen_by) == (cell, 500, "federated evaluation")
    assert way.fields() == {
        "product": CELLS[cell].product,
        "levels": CELLS[cell].levels,
        "temperature_milli": 500,
    }


def test_what_is_too_slow_here_is_not_chosen() -> None:
    way = way_of(sight(measured("both"), fast=frozenset({"experts", "generative-low"})))
    assert (way.cell, way.chosen_by) == ("experts", "federated evaluation")
    assert way_of(sight(measured("both"), fast=frozenset())).chosen_by == "default"
    assert way_of(sight(measured("both"), fast=frozenset()), "both").product == "both"


def test_where_all_are_too_slow_the_fastest_that_can_answer_does_and_says_so() -> None:
    latency = {"experts": 3.0, "generative": 9.0, "generative-low": 2.0, "both": 12.0}
    slow = Sight(STOCK, measured("both"), frozenset(), latency)
    way = way_of(slow)
    assert (way.cell, way.temperature_milli) == ("generative-low", 500)
    assert way.chosen_by == "the fastest, for nothing is within max-latency"
    assert way_of(Sight(STOCK, NOTHING, frozenset(), latency)).cell == "generative-low"
    faster = {**latency, "experts": 1.0}
    assert way_of(Sight(STOCK, NOTHING, frozenset(), faster)).cell == "experts"
    assert way_of(Sight(Inventory(LIVE, LIVE, {}), NOTHING, frozenset(), faster)).cell == "generative-low"


def test_what_is_asked_for_answers_as_it_was_measured_best() -> None:
    way = way_of(sight(measured("generative-high")), "generative")
    assert (way.cell, way.temperature_milli, way.chosen_by) == ("generative-high", 500, "asked")
    assert way_of(sight(measured("generative-high")), "experts").cell == "experts"
    assert way_of(sight(), "generative").cell == "generative"


def test_an_answer_descends_from_its_parts_and_from_what_was_scored_to_choose_it() -> None:
    plain = choose(sight(), "generative")
    assert plain.lineage == LIVE.keys()
    assert choose(sight(), "experts").lineage == {EXPERT.pair, *EXPERT.lineage}
    chosen = choose(sight(measured("generative")), "auto")
    assert not chosen.experts
    assert chosen.lineage == LIVE.keys() | {EXPERT.pair}
    both = choose(sight(), "both")
    assert (both.experts.keys(), both.generators.keys()) == ({EXPERT.pair}, LIVE.keys())


@pytest.mark.parametrize("product", ["experts", "both"])
def test_what_is_asked_for_and_lacks_a_part_does_not_answer(product: str) -> None:
    with pytest.raises(NoAnswerError, match="No current expert"):
        choose(sight(stock=Inventory(LIVE, LIVE, {})), product)


def test_where_nothing_is_nothing_answers() -> None:
    empty = sight(stock=Inventory({}, {}, {}))
    with pytest.raises(NoAnswerError, match="No generator"):
        choose(empty, "auto")
    with pytest.raises(NoAnswerError, match="No live generator"):
        choose(empty, "generative")
    with pytest.raises(NoAnswerError, match="no product"):
        choose(empty, "best")


CA, CB = classifier(A, ant=40, bee=40), classifier(B, cat=40)
CLASSIFIERS = {one.pair: one for one in (CA, CB)}


def test_classifiers_answer_together_while_there_is_no_expert_and_generators_know_fewer_labels() -> None:
    stock = Inventory(CLASSIFIERS, {}, {}, classifiers=CLASSIFIERS)
    assert way_of(sight(stock=stock)).product == "ensemble"
    found = choose(sight(stock=stock), "auto")
    assert (found.lineage, found.labels(CONTRACT)) == (CLASSIFIERS.keys(), ["ant", "bee", "cat"])
    assert found.way.fields() == {"product": "ensemble", "levels": "all", "temperature_milli": 1000}
    assert found.way.document()["levels"] is None
    few = Inventory({}, {ANT.pair: ANT, BEE.pair: BEE}, {}, classifiers=CLASSIFIERS)
    assert way_of(sight(stock=few)).product == "ensemble"
    assert way_of(sight(stock=Inventory({}, LIVE, {}, classifiers=CLASSIFIERS))).product == "generative"
    alone = Inventory({}, {}, {}, classifiers={CB.pair: CB})
    assert way_of(sight(stock=alone)).product == "none"
    assert way_of(sight(stock=Inventory({}, {}, STOCK.experts, classifiers=CLASSIFIERS))).product == "experts"


def test_the_ensemble_answers_when_asked_for_if_there_is_a_classifier() -> None:
    mixed = Inventory({}, LIVE, STOCK.experts, classifiers={CA.pair: CA})
    asked = choose(sight(measured("both"), stock=mixed), "ensemble")
    assert (asked.way.product, asked.way.temperature_milli, asked.way.chosen_by) == ("ensemble", 1000, "asked")
    assert (asked.labels(CONTRACT), asked.experts, asked.generators) == (["ant", "bee"], {}, {})
    with pytest.raises(NoAnswerError, match="No live classifier"):
        choose(sight(), "ensemble")


def test_the_ensemble_answers_instead_of_the_experts_where_it_was_measured_better() -> None:
    cells = able(experts=True, generators=False, classifiers=True)
    made = expert(A, CLASSIFIERS, labels=("ant", "bee", "cat"))
    stock = Inventory({}, {}, {made.pair: made}, classifiers=CLASSIFIERS)
    better = {"ensemble": {"ant": {"ant": 40}}}
    ants = evaluation(A, {"ant": {"ant": 20, "bee": 20}}, LOSSES, better=better, cells=cells)
    rest = evaluation(B, {"cat": {"cat": 40}}, LOSSES, cells=cells)
    found = choose(sight(add_up(LABELS, GRID, [ants, rest], stock.given(), cells), stock), "auto")
    assert (found.way.cell, found.way.chosen_by) == ("ensemble", "federated evaluation")
    assert found.lineage == CLASSIFIERS.keys() | {made.pair}
    assert (found.experts, found.classifiers) == ({}, CLASSIFIERS)
