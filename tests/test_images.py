"""Image files of every mode become arrays of the contract's shape, or are refused with the reason."""

import io

import numpy as np
import pytest
from PIL import Image

from fednode.contract import ImageShape
from fednode.learning.images import BadImageError, Look, Pixels, decode, look, look_of, resize

GREY = ImageShape(size=4, channels=1)
COLOUR = ImageShape(size=4, channels=3)


def encoded(picture: Image.Image, kind: str = "PNG", **options: object) -> bytes:
    buffer = io.BytesIO()
    picture.save(buffer, kind, **options)
    return buffer.getvalue()


def plain(mode: str, colour: object, side: int = 4) -> Image.Image:
    return Image.new(mode, (side, side), colour)  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", ["PNG", "BMP", "TIFF", "WEBP", "PPM", "GIF"])
def test_a_grey_image_keeps_its_value_in_every_lossless_format(kind: str) -> None:
    options = {"lossless": True} if kind == "WEBP" else {}
    assert decode(encoded(plain("L", 100), kind, **options), GREY).tolist() == [[[100] * 4] * 4]


def test_a_jpeg_is_read() -> None:
    pixels = decode(encoded(plain("RGB", (200, 30, 60)), "JPEG", quality=95), COLOUR)
    assert np.abs(pixels.astype(int).mean((1, 2)) - [200, 30, 60]).max() < 4


def test_grey_becomes_three_equal_channels_where_colour_is_asked_for() -> None:
    assert decode(encoded(plain("L", 7)), COLOUR).tolist() == [[[7] * 4] * 4] * 3


def test_colour_becomes_luma_where_grey_is_asked_for() -> None:
    pixels = decode(encoded(plain("RGB", (255, 0, 0))), GREY)
    assert set(pixels.flatten().tolist()) == {76}  # 0.299 of 255 (ITU-R 601)


@pytest.mark.parametrize(
    ("mode", "colour", "expected"),
    [
        ("1", 1, 255),
        ("L", 9, 9),
        ("P", 0, 0),
        ("RGB", (50, 50, 50), 50),
        ("CMYK", (0, 0, 0, 0), 255),
        ("LA", (90, 255), 90),
        ("RGBA", (90, 90, 90, 255), 90),
        ("RGBA", (90, 90, 90, 0), 0),
        ("LA", (90, 0), 0),
        ("I;16", 65535, 255),
        ("I;16", 257 * 40, 40),
    ],
)
def test_every_usual_mode_becomes_eight_bits(mode: str, colour: object, expected: int) -> None:
    pixels = decode(encoded(plain(mode, colour), "TIFF"), GREY)
    assert set(pixels.flatten().tolist()) == {expected}


def test_half_transparent_white_is_half_grey_on_black() -> None:
    pixels = decode(encoded(plain("RGBA", (255, 255, 255, 128))), GREY)
    assert set(pixels.flatten().tolist()) == {128}


def test_the_transparent_colour_of_a_palette_becomes_black() -> None:
    picture = plain("RGB", (200, 200, 200)).quantize(2)
    pixels = decode(encoded(picture, transparency=picture.getpixel((0, 0))), GREY)
    assert set(pixels.flatten().tolist()) == {0}


def test_a_sixteen_bit_png_is_scaled_by_its_full_range() -> None:
    wide = np.full((4, 4), 257 * 123, np.uint16)
    assert set(decode(encoded(Image.fromarray(wide)), GREY).flatten().tolist()) == {123}


@pytest.mark.parametrize("mode", ["F", "I"])
def test_modes_without_a_known_range_are_refused_by_name(mode: str) -> None:
    with pytest.raises(BadImageError, match=f"mode {mode} "):
        decode(encoded(plain(mode, 5), "TIFF"), GREY)


def test_an_image_is_turned_as_its_exif_orientation_says() -> None:
    picture = Image.fromarray(np.array([[10, 20], [30, 40]], np.uint8))
    exif = Image.Exif()
    exif[0x0112] = 6  # the top of the image is its right side: turn by 90 degrees clockwise to show it
    pixels = decode(encoded(picture, exif=exif), ImageShape(size=4, channels=1))
    corners = pixels[0][[0, 0, -1, -1], [0, -1, 0, -1]].tolist()
    assert [round(corner, -1) for corner in corners] == [30, 10, 40, 20]


def test_an_image_of_the_asked_size_is_not_touched() -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (4, 4), np.uint8)
    assert (decode(encoded(Image.fromarray(pixels)), GREY)[0] == pixels).all()


def test_shrinking_averages_and_does_not_skip_pixels() -> None:
    checkers = (np.indices((64, 64)).sum(0) % 2 * 255).astype(np.uint8)
    assert np.abs(resize(checkers, GREY).astype(int) - 127).max() <= 3


def test_a_wide_image_is_stretched_and_nothing_is_cut_off() -> None:
    wide: Pixels = np.zeros((4, 40), np.uint8)
    wide[:, 30:] = 255
    row = resize(wide, GREY)[0, 0].tolist()
    assert row[0] == 0
    assert row[3] > 200


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "not an image"),
        (b"GIF89a but not really", "not an image|damaged"),
        (encoded(plain("L", 1, 200))[:60], "damaged"),
        (
            encoded(Image.fromarray(np.random.default_rng(1).integers(0, 256, (64, 64), np.uint8)), "JPEG")[:900],
            "damaged",
        ),
    ],
)
def test_what_is_no_whole_image_is_refused(data: bytes, reason: str) -> None:
    with pytest.raises(BadImageError, match=reason):
        decode(data, GREY)


def test_a_file_of_several_frames_is_refused() -> None:
    data = encoded(plain("L", 1), "GIF", save_all=True, append_images=[plain("L", 200)])
    with pytest.raises(BadImageError, match="2 frames"):
        decode(data, GREY)


def test_an_image_bomb_is_refused_by_its_claimed_size() -> None:
    bomb = encoded(Image.new("1", (30_000, 30_000)))
    with pytest.raises(BadImageError, match="pixels"):
        decode(bomb, GREY)


def test_a_tag_of_a_type_that_it_can_not_have_is_refused_and_raises_nothing_else() -> None:
    exif = Image.Exif()
    exif[0x0112], exif[0x010E] = 6, "text"
    whole = encoded(plain("RGB", (9, 9, 9)), "JPEG", exif=exif)
    with pytest.raises(BadImageError, match="damaged"):
        decode(whole.replace(b"\x01\x0e\x00\x02", b"\x01\x08\x00\x02"), GREY)


@pytest.mark.parametrize("kind", ["EPS", "DDS", "ICO", "TGA"])
def test_formats_that_are_not_listed_are_not_even_opened(kind: str) -> None:
    with pytest.raises(BadImageError, match="known format"):
        decode(encoded(plain("L" if kind == "EPS" else "RGB", 5), kind), GREY)


@pytest.mark.parametrize(
    ("mode", "colour", "channels"),
    [("L", 9, 1), ("1", 1, 1), ("LA", (9, 255), 1), ("I;16", 257, 1), ("RGB", (1, 2, 3), 3)],
)
def test_the_look_of_a_file_is_its_shorter_side_and_whether_it_has_colour(
    mode: str, colour: object, channels: int
) -> None:
    picture = Image.new(mode, (7, 5), colour)  # type: ignore[arg-type]
    assert look(encoded(picture, "TIFF")) == Look(5, channels)


def test_the_look_of_an_array_is_told_by_its_shape_and_a_file_without_one_is_refused() -> None:
    shapes = {(5, 7): 1, (5, 7, 1): 1, (5, 7, 3): 3}
    assert {shape: look_of(np.zeros(shape, np.uint8)) for shape in shapes} == {
        shape: Look(5, channels) for shape, channels in shapes.items()
    }
    with pytest.raises(BadImageError):
        look(b"no image")
