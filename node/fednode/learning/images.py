"""One image file to one array of the contract's shape, whatever mode the file has.

Rule 1: an image is turned as its EXIF orientation says, brought to 8 bits, to grey or RGB, and then to the square size.
Rule 2: transparent parts are composited on black; the whole image is stretched to the square, so nothing is cut off.
Rule 3: 16-bit values are divided by 257 (0..65535 to 0..255); 32-bit and floating-point images have no known range and are
        refused.
"""

import contextlib
import io
import warnings
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageFile, ImageOps, UnidentifiedImageError

from fednode.contract import ImageShape

Pixels = npt.NDArray[np.uint8]

MAX_FILE_BYTES = 256 << 20
MAX_PIXELS = 100_000_000
SIXTEEN_BIT_MODES = ("I;16", "I;16L", "I;16B", "I;16N")
COLOUR_MODES = ("RGB", "P", "CMYK", "YCbCr", "RGBX")
GREY_MODES = ("L", "1")
FORMATS = ("BMP", "GIF", "JPEG", "PNG", "PPM", "TIFF", "WEBP")  # others are rare, and one of them runs a program
ALPHA_MODES = ("RGBA", "LA", "PA", "RGBa", "La")
ONE_CHANNEL_MODES = (*GREY_MODES, *SIXTEEN_BIT_MODES, "LA", "La")

ImageFile.LOAD_TRUNCATED_IMAGES = False


class BadImageError(Exception):
    """An image that can't be used; the message says why, without the image's name."""


@dataclass(frozen=True)
class Look:
    """What an image has of itself: its shorter side in pixels, and 1 (grey) or 3 (colour) channels."""

    side: int
    channels: int


def decode(data: bytes, image: ImageShape) -> Pixels:
    """The pixels of an image file, uint8 (C, H, W) in the contract's shape.

    Raises BadImageError: no image, truncated, too large, several frames, or a mode without a known range.
    """
    if len(data) > MAX_FILE_BYTES:
        raise BadImageError(f"the file has {len(data)} bytes, more than {MAX_FILE_BYTES}")
    try:
        with _quietly(), Image.open(io.BytesIO(data), formats=FORMATS) as opened:
            _check(opened)
            eight_bits = _eight_bits(ImageOps.exif_transpose(opened))
    except (BadImageError, MemoryError):
        raise
    except UnidentifiedImageError:
        raise BadImageError("the file is not an image of a known format") from None
    except Image.DecompressionBombError:
        raise BadImageError(f"the image has more than {MAX_PIXELS} pixels") from None
    except Exception as error:  # whatever a decoder makes of hostile bytes
        raise BadImageError(f"the image is damaged ({_reason(error)})") from None
    return resize(np.asarray(eight_bits), image)


def look(data: bytes) -> Look:
    """What the header of an image file says. Raises BadImageError."""
    try:
        with _quietly(), Image.open(io.BytesIO(data), formats=FORMATS) as opened:
            return Look(min(opened.size), 1 if opened.mode in ONE_CHANNEL_MODES else 3)
    except Exception as error:  # whatever a decoder makes of hostile bytes
        raise BadImageError(f"the image is damaged ({_reason(error)})") from None


def look_of(pixels: Pixels) -> Look:
    """The same for an array, uint8 (H, W), (H, W, 1) or (H, W, 3)."""
    return Look(min(pixels.shape[:2]), 3 if pixels.shape[2:] == (3,) else 1)


def resize(pixels: Pixels, image: ImageShape) -> Pixels:
    """uint8 (H, W), (H, W, 1) or (H, W, 3) to uint8 (C, size, size): grey or RGB, then antialiased bicubic."""
    flat = pixels[..., 0] if pixels.ndim == 3 and pixels.shape[-1] == 1 else pixels
    picture = Image.fromarray(np.ascontiguousarray(flat)).convert("L" if image.channels == 1 else "RGB")
    if picture.size != (image.size, image.size):
        picture = picture.resize((image.size, image.size), Image.Resampling.BICUBIC)
    array = np.asarray(picture, dtype=np.uint8)
    return np.ascontiguousarray(array[None] if image.channels == 1 else array.transpose(2, 0, 1))


@contextlib.contextmanager
def _quietly() -> Iterator[None]:
    """Without warnings: what matters about an image is an answer, or an error."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def _check(opened: Image.Image) -> None:
    if opened.width * opened.height > MAX_PIXELS:
        raise BadImageError(f"the image has more than {MAX_PIXELS} pixels")
    frames = getattr(opened, "n_frames", 1)
    if frames != 1:
        raise BadImageError(f"the file has {frames} frames, and one image a file is expected")


def _eight_bits(picture: Image.Image) -> Image.Image:
    """Grey ("L") or "RGB" with 8 bits a channel, by Rules 2 and 3."""
    if picture.mode in ALPHA_MODES or "transparency" in picture.info:
        coloured = picture.convert("RGBA")
        black = Image.new("RGBA", coloured.size, (0, 0, 0, 255))
        return Image.alpha_composite(black, coloured).convert("RGB")
    if picture.mode in GREY_MODES:
        return picture.convert("L")
    if picture.mode in COLOUR_MODES:
        return picture.convert("RGB")
    if picture.mode in SIXTEEN_BIT_MODES:
        wide = np.asarray(picture).astype(np.uint32)
        return Image.fromarray(((wide + 128) // 257).astype(np.uint8))
    raise BadImageError(f"images of mode {picture.mode} have no known range; 8 or 16 bits a channel are expected")


def _reason(error: Exception) -> str:
    return (str(error) or type(error).__name__).splitlines()[0][:120]
