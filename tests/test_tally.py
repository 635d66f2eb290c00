"""The tally: what is added up, with which intervals, and which way to answer it speaks for."""

import math
from collections.abc import Mapping

import pytest
from making import NOW, digest, identity

from fednode.estimate import wilson
from fednode.evaluation import Evaluation, Row, Scores
from fednode.grid import GridRecipe, able, levels_of
from fednode.lineage import Pair
from fednode.recipe import TeacherRecipe
from fednode.tally import Tally, add_up
from fednode_crypto.identity import PeerId

A, B = identity(1).peer_id, identity(2).peer_id
LABELS = ("ant", "bee", "cat")
GRID = GridRecipe(teacher=TeacherRecipe())
OWN = {A: {"ant"}, B: {"bee", "cat"}}
CELLS = able(experts=True, generators=True, classifiers=False)
FLAT = (5_000_000,) * len(GRID.temperatures_milli)

Answers = Mapping[str, Mapping[str, int]]


def evaluation(
    issuer: PeerId,
    answers: Answers,
    losses: tuple[int, ...] = FLAT,
    better: Mapping[str, Answers] | None = None,
    grid: GridRecipe = GRID,
    labels: tuple[str, ...] = LABELS,
    cells: tuple[str, ...] = CELLS,
) -> Evaluation:
    """What an issuer says of every cell: true label -> answered label -> images; `better` are cells that do otherwise."""
    scores = []
    for cell in sorted(cells):
        said = (better or {}).get(cell, answers)
        rows = tuple(
            Row(label=label, answered=tuple(sorted((labels.index(to), n) for to, n in row.items())), losses=losses)
            for label, row in said.items()
        )
        scores.append(Scores(cell=cell, rows=rows))
    return Evaluation(
        contract=digest("contract"),
        created=NOW,
        issuer=issuer,
        grid=grid.digest,
        labels=labels,
        lineage=(Pair(A, digest("generator")),),
        scores=tuple(scores),
    )


def tally(*evaluations: Evaluation) -> Tally:
    return add_up(LABELS, GRID, evaluations, OWN, CELLS)


@pytest.mark.parametrize(
    ("hits", "of", "low", "high"),
    [(81, 263, 0.2553, 0.3662), (10, 10, 0.7225, 1.0), (0, 10, 0.0, 0.2775), (15, 148, 0.0624, 0.1605)],
)
def test_intervals_are_those_of_wilson(hits: int, of: int, low: float, high: float) -> None:
    found = wilson(hits, of)  # the first and the last are in Newcombe (1998), table I, method 3
    assert (found.value, found.low, found.high) == pytest.approx((hits / of, low, high), abs=5e-5)


def test_every_label_has_the_same_weight_and_knows_who_scored_it() -> None:
    found = tally(evaluation(A, {"ant": {"ant": 5}}), evaluation(B, {"bee": {"bee": 10, "ant": 10}}))
    assert found.accuracy("experts").value == pytest.approx((1 + 0.5) / 2)
    assert found.scorers == {"ant": (A,), "bee": (B,)}
    assert found.issuers == tuple(sorted((A, B)))
    assert found.images == 25
    assert found.cells["both"]["bee"].answered == {"bee": 10, "ant": 10}
    assert found.log_loss("experts", 1000) == pytest.approx((5 / 5 + 5 / 20) / 2)


def test_the_interval_of_a_mean_is_narrower_than_those_of_its_labels() -> None:
    found = tally(evaluation(A, {"ant": {"ant": 8, "bee": 2}}), evaluation(B, {"bee": {"bee": 8, "ant": 2}}))
    one, mean = wilson(8, 10), found.accuracy("experts")
    assert mean.value == 0.8
    assert mean.low == pytest.approx(0.8 - math.hypot(0.8 - one.low, 0.8 - one.low) / 2)
    assert mean.high == pytest.approx(0.8 + math.hypot(one.high - 0.8, one.high - 0.8) / 2)


def test_two_donors_of_a_label_are_added_up_and_nobody_speaks_for_labels_that_it_does_not_give() -> None:
    own = {A: {"ant"}, B: {"ant", "cat"}}
    said = [
        evaluation(A, {"ant": {"ant": 5}, "bee": {"ant": 200}}),
        evaluation(B, {"ant": {"ant": 5, "bee": 5}, "cat": {"cat": 5}}),
    ]
    found = add_up(LABELS, GRID, said, own, CELLS)
    assert found.cells["experts"]["ant"].images == 15
    assert found.cells["experts"]["ant"].accuracy.value == pytest.approx(10 / 15)
    assert found.scorers == {"ant": tuple(sorted((A, B))), "cat": (B,)}
    assert add_up(LABELS, GRID, said[::-1], own, CELLS) == found


def test_statements_of_another_grid_of_other_labels_or_of_fewer_cells_are_left_out() -> None:
    good = evaluation(A, {"ant": {"ant": 5}})
    for other in (
        evaluation(B, {"bee": {"bee": 5}}, grid=GridRecipe(teacher=TeacherRecipe(levels=9))),
        evaluation(B, {"bee": {"bee": 5}}, labels=("ant", "bee")),
        evaluation(B, {"bee": {"bee": 5}}, losses=FLAT[1:]),
        evaluation(B, {"bee": {"bee": 5}}).model_copy(update={"scores": good.scores[:4]}),
    ):
        assert tally(good, other) == tally(good)


def test_nothing_is_chosen_before_half_of_the_labels_were_scored() -> None:
    alone = tally(evaluation(A, {"ant": {"ant": 5}}, losses=(1, 2, 3, 4, 5)))
    assert not alone.tells
    assert alone.best(CELLS) is None
    assert alone.temperature("experts") == 1000
    both = tally(evaluation(A, {"ant": {"ant": 5}}), evaluation(B, {"bee": {"bee": 5}}))
    assert both.tells


def test_the_most_accurate_cell_is_taken_and_of_equals_the_cheapest() -> None:
    def found(right: int, of: int) -> Tally:
        some, all_right = {"ant": {"ant": right, "bee": of - right}}, {"ant": {"ant": of}}
        others = evaluation(B, {"bee": {"bee": of}, "cat": {"cat": of}})
        return tally(evaluation(A, some, better={"generative-low": all_right}), others)

    assert found(199, 200).best(CELLS) == "generative-low"
    assert found(150, 200).best(["both", "experts"]) == "experts"
    assert found(150, 200).best([]) is None


def test_counts_of_more_images_than_the_grid_allows_count_for_nothing() -> None:
    most = GRID.share(1)
    assert tally(evaluation(A, {"ant": {"ant": most}})).images == most
    assert tally(evaluation(A, {"ant": {"ant": most + 1}})).images == 0


def test_within_one_standard_error_is_within_a_part_of_the_interval() -> None:
    best = tally(evaluation(A, {"ant": {"ant": 200}}), evaluation(B, {"bee": {"bee": 200}})).accuracy("experts")
    error = (
        best.value - best.low
    ) / 1.959964  # both labels all right: Wilson's bound is n / (n + z^2), and MOVER's mean of two
    assert error == pytest.approx((1 - 200 / (200 + 1.959964**2)) / 2**0.5 / 1.959964)


@pytest.mark.parametrize(
    ("hundredths", "milli"),
    [((90, 30, 50, 60, 70), 500), ((5, 5, 5, 5, 5), 1000), ((90, 80, 70, 60, 45), 4000), ((0, 5, 9, 20, 40), 1000)],
)
def test_the_temperature_is_the_nearest_to_one_whose_loss_is_within_one_image_of_the_least(
    hundredths: tuple[int, ...], milli: int
) -> None:
    losses = tuple(
        5 * 10_000 * loss for loss in hundredths
    )  # hundredths of a nat an image; ten images: 0.1 is too fine
    found = tally(evaluation(A, {"ant": {"ant": 5}}, losses), evaluation(B, {"bee": {"bee": 5}}, losses))
    assert found.temperature("both") == milli


def test_the_halves_of_the_levels_are_levels_of_the_whole() -> None:
    teacher = TeacherRecipe(levels=5, sigma_min_milli=200, sigma_max_milli=3200)  # 200, 400, 800, 1600, 3200
    low, high = levels_of(teacher, "low"), levels_of(teacher, "high")
    assert (low.levels, low.sigma_min_milli, low.sigma_max_milli) == (3, 200, 800)
    assert (high.levels, high.sigma_min_milli, high.sigma_max_milli) == (3, 800, 3200)
    assert levels_of(teacher, "all") == teacher
    assert levels_of(TeacherRecipe(levels=1), "low") == TeacherRecipe(levels=1)


def test_many_labels_share_the_images_that_are_scored() -> None:
    assert GRID.share(1) == 200
    assert GRID.share(20) == 100
    assert GRID.share(GRID.most_labels) == GRID.minimum_images


@pytest.mark.parametrize(("hits", "of"), [(0, 7), (3, 7), (7, 7), (439, 450)])
def test_intervals_are_where_the_score_test_just_accepts(hits: int, of: int) -> None:
    found = wilson(hits, of)
    assert 0 <= found.low <= hits / of <= found.high <= 1
    for end in (found.low, found.high):
        if 1e-9 < end < 1 - 1e-9:
            assert abs(hits / of - end) == pytest.approx(1.959964 * math.sqrt(end * (1 - end) / of))


def test_cells_are_those_whose_parts_are_there_the_cheaper_ones_first() -> None:
    generative = ("generative", "generative-low", "generative-high")
    assert able(experts=True, generators=True, classifiers=False) == ("experts", *generative, "both")
    assert able(experts=True, generators=False, classifiers=True) == ("experts", "ensemble")
    assert able(experts=True, generators=True, classifiers=True) == ("experts", "ensemble", *generative, "both")
    assert able(experts=False, generators=True, classifiers=False) == generative
    assert able(experts=False, generators=False, classifiers=False) == ()


def test_an_evaluation_of_other_cells_than_those_that_can_answer_is_not_added_up() -> None:
    of_classifiers = able(experts=True, generators=False, classifiers=True)
    better = {"ensemble": {"ant": {"ant": 200}}}
    said = evaluation(A, {"ant": {"ant": 120, "bee": 80}}, better=better, cells=of_classifiers)
    other = evaluation(B, {"bee": {"bee": 150, "cat": 50}}, cells=of_classifiers)
    found = add_up(LABELS, GRID, [said, other], OWN, of_classifiers)
    assert found.issuers == tuple(sorted([A, B]))
    assert found.best(of_classifiers) == "ensemble"
    assert found.best(CELLS) == "experts"
    assert found.temperature("generative") == 1000
    assert not add_up(LABELS, GRID, [said], OWN, CELLS).scorers
    assert not add_up(LABELS, GRID, [evaluation(A, {"ant": {"ant": 9}})], OWN, of_classifiers).scorers
