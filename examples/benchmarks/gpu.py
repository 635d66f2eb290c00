"""What an accelerator does, in one run of at most ten minutes: speed, a comparison, an audit, and equal digests.

    python examples/benchmarks/gpu.py [--device auto] [--smoke]

Everything is bounded by counts, and by the very functions of the other benchmarks and of the workers:

    speed   steps a second of the presets, and of `xs` in float32, bfloat16 and compiled, in turns (generator.py)
    silos   one draw of the digits, one label a node: pooled data, experts, products, `auto` (silos.py)
    equal   one generator of the digits, fitted and audited twice, each time by new worker processes: digests and verdicts

Prints one JSON object. A part that fails says why in `error`, and the others run. Ends with 1 if a part failed or the digests
differ. `--smoke` takes a small share of each, in this process, to try the script on a CPU in seconds.
"""

import argparse
import contextlib
import json
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import generator as speeds
import silos
import torch
from comparison.crew import Crew, Job
from comparison.shelf import Record, Shelf

from fednode.contract import ImageShape
from fednode.learning.dataset import DataSettings, load
from fednode.learning.fitting import CompileError
from fednode.learning.session import Session, make_deterministic, open_session
from fednode.presets import PRESETS, generator_architecture
from fednode.recipe import AuditRecipe, Preset, SamplerRecipe

IMAGE = ImageShape(size=8, channels=1)
LABELS = [str(number) for number in range(10)]
LABEL = "3"
ROUNDS = 20
METHODS = "pooled,centralised,experts,product,generative,both,auto"

Part = dict[str, Any]


def speed(session: Session, smoke: bool) -> Part:
    """Presets and layouts as generator.py measures them; `compile_error` instead of compiled networks where there are none.

    A preset that is too large for the device says so in its place.
    """
    names: list[Preset] = ["nano"] if smoke else list(PRESETS)
    compared: Preset = "nano" if smoke else "xs"
    rounds = 1 if smoke else ROUNDS
    found: Part = {"presets": {name: tried(lambda name=name: _pace(name, rounds, session)) for name in names}}
    plain = speeds.VARIANTS
    if smoke:
        return {**found, "layouts": speeds.layouts(compared, rounds, plain, session.device)}
    try:
        return {**found, "layouts": speeds.layouts(compared, rounds, plain | speeds.COMPILED, session.device)}
    except CompileError as error:
        layouts = speeds.layouts(compared, rounds, plain, session.device)
        return {**found, "layouts": layouts, "compile_error": str(error)}


def _pace(name: Preset, rounds: int, session: Session) -> Part:
    return speeds.presets([name], rounds, 1, session.device)[name]


def comparison(session: Session, smoke: bool, folder: Path) -> Part:
    """The table of one draw of the digits."""
    words = ["--data", "digits", "--jobs", "1", "--device", str(session.device)]
    words += ["--cache", str(folder / "cache"), "--out", str(folder / "out")]
    few = ["--budget", "smoke", "--methods", "product,generative", "--labels", "0,1", "--test-images", "30"]
    with contextlib.redirect_stdout(sys.stderr):
        code = silos.main([*words, *(few if smoke else ["--budget", "gpu", "--methods", METHODS])])
    if code:
        raise RuntimeError(f"silos.py ended with {code}")
    found: Part = json.loads((folder / "out" / "results.json").read_text())
    return found


def equal(session: Session, smoke: bool, folder: Path) -> Part:
    """Digests and verdicts of two runs of one fit and one audit, and whether they are the same."""
    runs = [_fit_and_audit(Crew(1 if smoke else 2, session, Shelf(folder / name)), smoke) for name in ("one", "two")]
    digests = [(run["generator"], run["report"]) for run in runs]
    return {"runs": runs, "equal": digests[0] == digests[1]}


def _fit_and_audit(crew: Crew, smoke: bool) -> Part:
    recipe, audit = PRESETS["nano"].recipe, AuditRecipe()
    if smoke:
        recipe = recipe.model_copy(update={"images": 256})
        audit = audit.model_copy(update={"samples": 20, "sampler": SamplerRecipe(steps=3, batch=20)})
    data = DataSettings(source="digits", labels=(LABEL,))
    common = {
        "architecture": generator_architecture("nano", IMAGE).model_dump(mode="json"),
        "label": LABEL,
        "images": load(data, IMAGE, LABELS).labels[LABEL].digest,
    }
    fields = {"data": data.model_dump(mode="json"), "image": IMAGE.model_dump(mode="json"), "labels": LABELS}
    fitted = _made(crew, Job("fit", {"job": "fit", "recipe": recipe.model_dump(mode="json"), **common}, fields))
    spec = {"job": "audit", "recipe": audit.model_dump(mode="json"), "weights": fitted["digest"], **common}
    audited = _made(crew, Job("audit", spec, {**fields, "weights": fitted["file"]}))
    return {
        "generator": fitted["digest"],
        "report": audited["digest"],
        "passed": audited["passed"],
        "reasons": audited["reasons"],
        "seconds": {"fit": fitted["seconds"], "audit": audited["seconds"]},
    }


class _Quiet:
    """A progress bar that nobody sees."""

    def set(self, done: float) -> None:
        """Show nothing."""


def _made(crew: Crew, job: Job) -> Record:
    return crew.make([job], _Quiet())[0]


def tried(part: Callable[[], Part]) -> Part:
    """What a part has found, or its error; and its seconds."""
    began = time.monotonic()
    try:
        found = part()
    except Exception as error:
        found = {"error": f"{type(error).__name__}: {error}"}
    return {**found, "seconds": round(time.monotonic() - began, 1)}


def main() -> int:
    """Print one JSON object; the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="auto", help="cpu, cuda, cuda:N or auto")
    parser.add_argument("--smoke", action="store_true")
    asked = parser.parse_args()
    make_deterministic(1)
    session = open_session(asked.device, 1)
    with tempfile.TemporaryDirectory() as folder:
        here = Path(folder)
        parts = {
            "speed": tried(lambda: speed(session, asked.smoke)),
            "silos": tried(lambda: comparison(session, asked.smoke, here)),
            "equal": tried(lambda: equal(session, asked.smoke, here)),
        }
    print(json.dumps({"numerics": session.numerics, "cuda": torch.version.cuda, **parts}, indent=2))
    return 0 if parts["equal"].get("equal") and not any("error" in part for part in parts.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
