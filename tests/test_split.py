"""Which images are held out: whole patients, an eighth of each label, by what the images are and by nothing else."""

import random
from collections.abc import Iterable

import pytest

from fednode.learning.split import Labelled, groups, held_out


def name(number: int) -> bytes:
    return number.to_bytes(2)


def labelled(**labels: Iterable[tuple[int, str]]) -> dict[str, dict[bytes, frozenset[str]]]:
    """label=[(number of the image, its patients one letter each)...]"""
    return {label: {name(number): frozenset(letters) for number, letters in images} for label, images in labels.items()}


def alone(numbers: Iterable[int]) -> list[tuple[int, str]]:
    return [(number, "") for number in numbers]


def numbers(held: set[bytes]) -> list[int]:
    return sorted(int.from_bytes(one) for one in held)


@pytest.mark.parametrize("count", [1, 7, 8, 9, 15, 16, 100])
def test_without_patients_the_first_eighth_is_held_out(count: int) -> None:
    held = held_out(labelled(cat=alone(range(count)), dog=alone(range(50, 60))))
    assert numbers(held["cat"]) == list(range(count // 8))
    assert numbers(held["dog"]) == [50]


def test_a_patient_is_held_out_as_a_whole() -> None:
    held = held_out(labelled(cat=[(0, "a"), (9, "a"), (14, "a"), *alone([*range(1, 9), *range(10, 14), 15])]))
    assert numbers(held["cat"]) == [0, 9, 14]


def test_a_patient_that_has_more_than_half_of_a_label_is_never_held_out() -> None:
    held = held_out(labelled(cat=[*((number, "a") for number in range(9)), *alone(range(9, 16))]))
    assert numbers(held["cat"]) == [9, 10]


def test_a_label_of_one_patient_has_nothing_held_out_and_one_of_two_has_the_smaller_half() -> None:
    assert held_out(labelled(cat=[(number, "a") for number in range(20)]))["cat"] == set()
    assert numbers(held_out(labelled(cat=[(number, "ab"[number > 10]) for number in range(20)]))["cat"]) == [
        *range(11, 20)
    ]


def test_a_patient_under_two_labels_is_on_one_side_in_both() -> None:
    held = held_out(labelled(cat=[(0, "a"), *alone(range(1, 16))], dog=[(200, "a"), *alone(range(100, 107))]))
    assert 0 in numbers(held["cat"])
    assert numbers(held["dog"]) == [200]


def test_patients_who_share_an_image_are_one_group() -> None:
    found = groups(labelled(cat=[(1, "ab"), (2, "a"), (3, "b"), (4, "bc"), (5, "c"), (6, "d")]))
    assert [[int.from_bytes(one) for one, _ in members] for members in found] == [[1, 2, 3, 4, 5], [6]]


def test_the_ids_of_patients_and_the_order_of_images_do_not_matter() -> None:
    pairs = [(number, "abcdefgh"[number * 5 % 8]) for number in range(64)]
    held = held_out(labelled(cat=pairs))
    renamed = [(number, letter.translate(str.maketrans("abcdefgh", "hgfezyxw"))) for number, letter in reversed(pairs)]
    assert held_out(labelled(cat=renamed)) == held


def test_taking_a_whole_patient_away_moves_at_most_the_last_one_held_out() -> None:
    pairs = [(number, chr(97 + number % 20)) for number in range(80)]
    before = held_out(labelled(cat=pairs))["cat"]
    for gone in "adkt":
        after = held_out(labelled(cat=[(number, letter) for number, letter in pairs if letter != gone]))["cat"]
        moved = {pairs[number][1] for number in numbers(before ^ after)} - {gone}
        assert len(moved) <= 1


def test_no_group_is_ever_divided_and_no_label_loses_more_than_half() -> None:
    chance = random.Random(7)
    for _ in range(200):
        images: Labelled = {
            label: {
                name(chance.randrange(500)): frozenset(chance.sample("abcdefghij", chance.choice((0, 1, 1, 2))))
                for _ in range(chance.randrange(1, 40))
            }
            for label in ("cat", "dog", "fox")
        }
        held = held_out(images)
        for members in groups(images):
            assert len({one in held[label] for one, label in members}) == 1
        assert all(len(held[label]) <= len(by_name) / 2 for label, by_name in images.items())
