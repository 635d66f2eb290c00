"""Arguments that the comparisons share."""

import argparse
from pathlib import Path
from typing import get_args

from platformdirs import user_cache_path
from pydantic import TypeAdapter, ValidationError

from comparison.crew import cores
from fednode.config import Epsilon
from fednode.presets import PRESETS
from fednode.recipe import Dtype
from fednode.source import KINDS


def parser(about: str) -> argparse.ArgumentParser:
    """A parser with the arguments on data, draws, generators, workers and results."""
    found = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = found.add_argument
    add("--data", default="digits", metavar="SOURCE", help=KINDS)
    add("--nodes", type=count, help="how many nodes (as many as labels)")
    add("--seeds", type=numbers, default=[0], help="seeds, with commas (0)")
    add("--preset", choices=PRESETS, help="size of the generators (by image size)")
    add("--fit-images", type=count, metavar="N", help="images that the fit of a generator sees (the budget's)")
    add("--dtype", choices=get_args(Dtype), help="what networks compute in (float32; bfloat16 where it is faster)")
    add("--labels", type=words, help="labels to keep, with commas")
    add("--per-label", type=count, metavar="N", help="training images of a label in each draw, at most")
    add("--test-images", type=count, metavar="N", help="test images, at most")
    add("--image-size", type=count, metavar="N", help="pixels a side (as the source is, at most 32)")
    add("--jobs", type=count, default=cores(), metavar="N", help="worker processes of one thread each (cores)")
    add("--device", default="auto", help="cpu, cuda, cuda:N or auto")
    add(
        "--cache",
        type=Path,
        default=user_cache_path("fednode") / "benchmarks",
        metavar="DIR",
        help="where what was made is kept (the user's cache folder)",
    )
    add("--out", type=Path, metavar="DIR", help="write results.json and pictures into this folder")
    add("--json", action="store_true", help="one JSON object instead of the table")
    return found


def count(text: str) -> int:
    """A number above 0."""
    if not (text.isascii() and text.isdigit() and int(text) > 0):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number above 0")
    return int(text)


def epsilon(text: str) -> float:
    """A budget of differential privacy that a node takes."""
    try:
        return TypeAdapter(Epsilon).validate_python(text)
    except ValidationError as error:
        raise argparse.ArgumentTypeError(f"{text!r}: {error.errors()[0]['msg']}") from None


def folds(text: str) -> int:
    """Into how many parts images are cut for testing each once."""
    if (parts := count(text)) < 2:
        raise argparse.ArgumentTypeError("2 folds or more are needed")
    return parts


def numbers(text: str) -> list[int]:
    """Different seeds, with commas."""
    try:
        seeds = [int(part) for part in text.split(",")]
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} are not seeds; use 0,1,2") from None
    if len(set(seeds)) < len(seeds) or min(seeds) < 0:
        raise argparse.ArgumentTypeError("seeds are different numbers from 0 on")
    return seeds


def words(text: str) -> list[str]:
    """Words, with commas."""
    return [part.strip() for part in text.split(",") if part.strip()]
