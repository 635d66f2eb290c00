"""The page of an audit: it shows a planted copy, cites intervals, escapes everything and loads nothing."""

import base64
import io
import re
from pathlib import Path

import numpy as np
import pytest
import torch
from audited import exhibit, images
from PIL import Image

from fednode.learning.audit import Exhibit, examine, plots, write_page
from fednode.learning.audit.copies import Points
from fednode.recipe import AuditRecipe


def written(folder: Path, shown: Exhibit, label: str = "nevus") -> str:
    found = examine(shown, AuditRecipe(), "ab" * 32, torch.device("cpu"))
    write_page(folder / "audit.html", label, shown, found)
    return (folder / "audit.html").read_text()


def pictures(page: str) -> list[np.ndarray]:
    """The images of the page, in its order."""
    found = re.findall(r'src="data:image/png;base64,([^"]+)"', page)
    return [np.asarray(Image.open(io.BytesIO(base64.b64decode(data)))) for data in found]


def test_a_planted_copy_fails_and_is_shown_beside_the_image_that_it_copies(tmp_path: Path) -> None:
    train, holdout, drawn = images(30, 1), images(9, 2), images(60, 3)
    drawn[10:50] = train[7]
    page = written(tmp_path, exhibit(drawn, train, holdout))
    assert "It failed: nobody gets it" in page
    assert "a copy of a training image" in page
    assert "Exact copies of training images: 40." in page
    pair = pictures(page)[1]
    side = 48
    sample, copied, fresh = (pair[:side, at * (side + 2) :][:, :side] for at in range(3))
    assert np.array_equal(sample, copied)
    assert np.array_equal(sample, train[7, 0].numpy().repeat(6, 0).repeat(6, 1))
    assert any(np.array_equal(fresh[::6, ::6], image[0].numpy()) for image in holdout)


def test_a_page_without_findings_says_so_with_intervals(tmp_path: Path) -> None:
    page = written(tmp_path, exhibit(images(60, 3), images(30, 1), images(9, 2)))
    assert "It passed" in page
    for words in ("random-conv-v1", "Carlini ratio", "sima", "precision", "nats"):
        assert words in page
    assert len(re.findall(r"0\.\d{4} to [01]\.\d{4}", page)) >= 10


def test_a_page_of_what_was_refused_has_the_reason_alone(tmp_path: Path) -> None:
    page = written(tmp_path, exhibit(images(9, 3), images(9, 1), images(1, 2)))
    assert "There are 10 images, and at least 32 are needed." in page
    assert pictures(page) == []


def test_a_page_escapes_what_it_is_given_and_loads_nothing(tmp_path: Path) -> None:
    page = written(tmp_path, exhibit(images(60, 3), images(30, 1), images(9, 2)), '<script>alert("x")</script>')
    assert "<script" not in page
    assert "default-src &#x27;none&#x27;" in page or "default-src 'none'" in page
    assert not re.findall(r'(?:src|href)="(?!data:)', page)
    assert "http:" not in page
    assert "https:" not in page


@pytest.mark.parametrize("channels", [1, 3])
def test_tiles_keep_every_pixel_of_grey_and_colour_images(channels: int) -> None:
    drawn = torch.randint(0, 256, (3, channels, 20, 20), dtype=torch.uint8)
    sheet = np.asarray(Image.open(io.BytesIO(plots.tiles(drawn, 2))))
    second = sheet[:60:3, 62:122:3]
    assert np.array_equal(second.reshape(20, 20, channels), drawn[1].permute(1, 2, 0).numpy())
    assert sheet.shape[:2] == (124, 124)


def test_the_map_of_the_features_is_drawn_for_enough_points() -> None:
    drawn = plots.feature_map(Points(*torch.randn(3, 12, 8, generator=torch.Generator().manual_seed(0))))
    assert drawn is not None
    assert Image.open(io.BytesIO(drawn)).size[0] > 100
    assert plots.feature_map(Points(*torch.zeros(3, 2, 8))) is None
