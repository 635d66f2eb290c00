"""Whether the audit works: how often it fails generators that must fail, and how often those that should pass.

    python examples/benchmarks/audit.py [--fits 60] [--cache FOLDER] [--smoke] [--json]

Digits, one label a fit, with the very functions that the workers call:

    default        the label's training images (about 118) and the default budget: should pass
    over-trained   the same budget spent on 8 or 16 of them (1,440 or 720 passes over each), held-out images as before: must fail
    smallest       the same budget on as few images as the audit accepts (28, 411 passes), and 4 held out: what can be told by 4

`--fits` is the number of each kind, at most 60: six splits of ten labels. The audit's minimum of images is lifted. A fit takes
some 6 s of one core. Weights and reports are kept in the cache by the digests of all that they follow from, so that a run that
was cut short goes on where it was, and one with another audit repeats no fit. `--smoke` takes tiny fits, to try the script.
"""

import argparse
import json
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.progress import track
from rich.table import Table
from torch import Tensor

from fednode.contract import ImageShape
from fednode.learning import generator
from fednode.learning.audit import Exhibit, chance, examine
from fednode.learning.audit.examination import failures
from fednode.learning.dataset import DataSettings, load
from fednode.learning.seeds import seed_of
from fednode.learning.session import Session, make_deterministic, open_session
from fednode.learning.synthesis import Donor, samples
from fednode.presets import PRESETS, generator_architecture
from fednode.recipe import AuditRecipe, GeneratorRecipe, SamplerRecipe
from fednode_crypto.digest import digest_json, sha256_hex

IMAGE = ImageShape(size=8, channels=1)
LABELS = [str(number) for number in range(10)]
SPLITS = 6
FEW = (8, 16)
TESTS = [f"{space} {test}" for space in ("pixels", "features") for test in ("distance", "carlini_ratio", "visits")]
TESTS += ["loss", "sima", "any test"]


@dataclass(frozen=True)
class Case:
    """One fit: its kind, the split of the digits, the label, and how many images it learns from (None: all)."""

    kind: str
    seed: int
    label: str
    images: int | None


@dataclass(frozen=True)
class Bench:
    """The recipes of all fits, where things are kept, and the device."""

    fit: GeneratorRecipe
    audit: AuditRecipe
    cache: Path
    session: Session


def cases(fits: int, minimum: int) -> Iterator[Case]:
    """The first `fits` cases of each kind."""
    places = [(seed, label) for seed in range(SPLITS) for label in LABELS][:fits]
    for at, (seed, label) in enumerate(places):
        yield Case("default", seed, label, None)
        yield Case("over-trained", seed, label, FEW[at % len(FEW)])
        yield Case("smallest", seed, label, minimum)


def images_of(case: Case) -> tuple[Tensor, Tensor]:
    """Training and held-out images of a case."""
    source = DataSettings(source=f"digits:{case.seed}", labels=(case.label,))
    own = load(source, IMAGE, LABELS).labels[case.label]
    train, holdout = torch.from_numpy(own.train), torch.from_numpy(own.holdout)
    held = len(holdout) if case.kind != "smallest" else (case.images or 0) // 8
    return train[: case.images - held if case.kind == "smallest" and case.images else case.images], holdout[:held]


def weights_of(case: Case, train: Tensor, bench: Bench) -> Path:
    """The file of a case's generator, fitted if it is not there."""
    key = {**asdict(case), "recipe": bench.fit.digest, "torch": torch.__version__}
    digest = digest_json("fednode/bench/audit/fit", key)
    path = bench.cache / f"{digest}.safetensors"
    if not path.exists():
        architecture, seed = generator_architecture("nano", IMAGE), seed_of(digest, "fit")
        tensors = generator.fit(train, architecture, bench.fit, seed, lambda *_: None, bench.session.device)
        generator.save(path.with_suffix(".part"), tensors)
        path.with_suffix(".part").rename(path)
    return path


def outcome(case: Case, bench: Bench) -> dict[str, Any]:
    """What the audit says of a case: the tests that it failed, and the whole report."""
    train, holdout = images_of(case)
    weights = weights_of(case, train, bench)
    key = {"weights": sha256_hex(weights.read_bytes()), "audit": bench.audit.digest, **asdict(case)}
    digest = digest_json("fednode/bench/audit/report", key)
    kept = bench.cache / f"{digest}.json"
    if not kept.exists():
        denoiser = generator.load(weights, generator_architecture("nano", IMAGE), bench.session.device)
        donor = Donor(key["weights"], case.label, len(train), denoiser)
        drawn = samples(donor, range(bench.audit.samples), bench.audit.sampler, bench.session.numerics)
        report = examine(Exhibit(drawn, train, holdout, denoiser), bench.audit, digest, bench.session.device).report
        kept.with_suffix(".part").write_text(json.dumps(report))
        kept.with_suffix(".part").rename(kept)
    report = json.loads(kept.read_text())
    failed = sorted(failures(report, report["samples"], bench.audit))
    return {**asdict(case), "failed": failed, "report": report}


def share(found: list[dict[str, Any]], test: str) -> dict[str, Any]:
    """How many of these fits failed a test, with the exact interval of the share."""
    hits = sum(bool(one["failed"]) if test == "any test" else test in one["failed"] for one in found)
    low, high = chance.proportion(hits, len(found))
    return {"failed": hits, "fits": len(found), "share": hits / len(found), "interval": [low, high]}


def measure(bench: Bench, fits: int, shown: bool) -> dict[str, Any]:
    """For each test and kind the share of fits that failed; and each fit."""
    todo = list(cases(fits, AuditRecipe().minimum_images))
    console = Console(stderr=True, quiet=not shown)
    found = [outcome(case, bench) for case in track(todo, "fits and audits", console=console)]
    kinds = list(dict.fromkeys(case.kind for case in todo))
    rows = {
        test: {kind: share([one for one in found if one["kind"] == kind], test) for kind in kinds} for test in TESTS
    }
    return {"audit": bench.audit.model_dump(mode="json"), "tests": rows, "fits": found}


def main() -> None:
    """Print the table, or one JSON object."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--fits", type=int, default=SPLITS * len(LABELS))
    parser.add_argument("--cache", type=Path, default=Path(tempfile.gettempdir()) / "fednode-benchmark-audit")
    parser.add_argument("--smoke", action="store_true")
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args()
    make_deterministic(1)
    asked.cache.mkdir(parents=True, exist_ok=True)
    fit, audit = PRESETS["nano"].recipe, AuditRecipe(minimum_images=1)
    if asked.smoke:
        fit = fit.model_copy(update={"images": 128})
        audit = audit.model_copy(update={"samples": 20, "sampler": SamplerRecipe(steps=3, batch=20)})
    found = measure(Bench(fit, audit, asked.cache, open_session("cpu", 1)), asked.fits, not asked.json)
    if asked.json:
        json.dump(found, sys.stdout, indent=2)
        return
    kinds = next(iter(found["tests"].values())).keys()
    table = Table("test", *kinds, title="fits that failed, with exact 95 % intervals")
    for test, row in found["tests"].items():
        cells = [
            f"{one['failed']}/{one['fits']} ({one['interval'][0]:.3f}-{one['interval'][1]:.3f})" for one in row.values()
        ]
        table.add_row(test, *cells)
    Console().print(table)


if __name__ == "__main__":
    main()
