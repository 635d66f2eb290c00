"""`fednode budget`: turns a wish in minutes into a count of images, so that what is fitted never depends on a clock."""

import asyncio
import os
from pathlib import Path
from typing import Annotated, Any

import typer

from fednode.config import Settings
from fednode.peersfile import load
from fednode.presets import Recipes, generator_architecture, recipes
from fednode.workers import Worker, WorkerSettings
from fednode_cli import connect
from fednode_cli.options import AsJson, NumberType, PeersFile, PresetName
from fednode_cli.output import note, report

MEASURED_SECONDS = 5
IDLE_SECONDS = 3600.0

MOST_IMAGES = 10**9  # what the setting takes


def budget(
    minutes: Annotated[float, typer.Argument(min=0.01, max=1e6, help="How long the fit of one generator may take.")],
    preset: PresetName = None,
    dtype: NumberType = None,
    peers: PeersFile = None,
    as_json: AsJson = False,
) -> None:
    """Measure how many images a fit sees in so many minutes.

    Prints the count to give to `fednode start --fit-images`, from a fit of a few seconds; --dtype bfloat16 tells whether this
    machine is faster with it. What the machine does meanwhile counts: measure while it is as busy as it will be.
    """
    settings = connect.settings({"peers": peers, "preset": preset, "dtype": dtype})
    image = load(settings.peers, None).contract.image
    made = recipes(image, settings.preset, dtype=settings.dtype)
    architecture = generator_architecture(made.preset, image).model_dump(mode="json")
    rate = asyncio.run(_rate(settings, architecture, made))
    batch = made.generator.batch
    images = min(max(1, int(minutes * 60 * rate) // batch) * batch, MOST_IMAGES)
    numbers = f" --dtype {settings.dtype}" if settings.dtype else ""
    document = {
        "fit_images": images,
        "images_per_second": round(rate, 1),
        "preset": made.preset,
        "dtype": made.generator.dtype,
        "minutes": minutes,
    }
    passes = made.generator.max_passes
    report(document, [f"{images} images: fednode start --preset {made.preset}{numbers} --fit-images {images}"], as_json)
    note(
        f"A label of fewer than {-(-images // passes)} images is fitted for less: it sees each at most {passes} times."
    )


async def _rate(settings: Settings, architecture: dict[str, Any], made: Recipes) -> float:
    """Images a second in a fit, by a worker of our own."""
    with Path(os.devnull).open("ab") as log:
        worker = Worker("build", WorkerSettings(settings.device, settings.threads, IDLE_SECONDS, log))
        fields = {"architecture": architecture, "recipe": made.generator.model_dump(mode="json")}
        try:
            result = await worker.ask("pace", {**fields, "seconds": MEASURED_SECONDS})
        finally:
            await worker.close()
    return float(result["images_per_second"])
