"""Images dealt to nodes by Dirichlet shares: every one once, the same each time, in files that a node can read."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fednode.contract import ImageShape
from fednode.learning import dataset, dispatch
from fednode.learning.dataset import DataSettings
from fednode.learning.dealing import LEAST_IMAGES, shares
from fednode.learning.requests import Deal
from fednode.learning.session import open_session

IMAGE = ImageShape(size=8, channels=1)
DIGITS = tuple("0123456789")
SESSION = open_session("cpu", 1)


def asked(nodes: int, alpha_milli: int = 300, seed: int = 0, folder: Path = Path("/nowhere")) -> Deal:
    out = tuple(str(folder / f"{node}.npz") for node in range(nodes))
    return Deal(
        id=1, op="deal", source="digits:3", image=IMAGE, labels=DIGITS, alpha_milli=alpha_milli, seed=seed, out=out
    )


def ask(request: Deal) -> dict[str, Any]:
    return dispatch.outcome(request.model_dump_json().encode(), SESSION, lambda phase, done, total: None)


def load(source: str) -> dict[str, set[bytes]]:
    found = dataset.load(DataSettings(source=source), IMAGE, DIGITS).labels
    return {label: {one.tobytes() for one in np.concatenate([own.train, own.holdout])} for label, own in found.items()}


def test_nodes_read_back_every_image_of_the_source_once(tmp_path: Path) -> None:
    parts = ask(asked(4, folder=tmp_path))["result"]["parts"]
    whole, dealt = load("digits:3"), [load(f"npz:{tmp_path / f'{node}.npz'}") for node in range(4)]
    assert [list(part) for part in dealt] == [list(part) for part in parts]
    for label, images in whole.items():
        held = [part.get(label, set()) for part in dealt]
        assert sum(map(len, held)) == len(images)
        assert set().union(*held) == images


def test_the_same_request_gives_the_same_shares_and_another_seed_others() -> None:
    counts = dict.fromkeys(DIGITS, 100)
    one, again, other = (shares(asked(3, seed=seed), counts) for seed in (5, 5, 6))
    assert [[rows.tolist() for rows in part.values()] for part in one] == [
        [rows.tolist() for rows in part.values()] for part in again
    ]
    assert [len(part["0"]) for part in one] != [len(part["0"]) for part in other]


def test_a_large_alpha_gives_everybody_the_same_and_a_small_one_each_label_to_one() -> None:
    counts = dict.fromkeys(DIGITS, 300)
    even = shares(asked(3, alpha_milli=1_000_000), counts)
    assert all(80 <= len(rows) <= 120 for part in even for rows in part.values())
    uneven = shares(asked(3, alpha_milli=10), counts)
    assert sum(max(len(part[label]) for part in uneven) >= 270 for label in DIGITS) >= 8
    assert all(sum(map(len, part.values())) >= LEAST_IMAGES for part in uneven)


def test_too_few_images_for_so_many_nodes_are_refused() -> None:
    failed = ask(asked(64))
    assert (failed["code"], "too few for 64 nodes" in failed["message"]) == ("data", True)
    with pytest.raises(ValueError, match="out"):
        asked(1)
