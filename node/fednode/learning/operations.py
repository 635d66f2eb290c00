"""The ops that make things: scan, fit, audit, check and expert. Each takes a request and returns its result."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch

from fednode.contract import Value
from fednode.errors import FednodeError
from fednode.learning import generator, weights
from fednode.learning.audit import Exhibit, examine, expert_membership, write_page
from fednode.learning.checkpoint import Checkpoint
from fednode.learning.dataset import LabelImages
from fednode.learning.describe import describe as describe_source
from fednode.learning.expert import Pool
from fednode.learning.expert import fit as fit_expert
from fednode.learning.expert import load as load_expert
from fednode.learning.networks import tensors_of
from fednode.learning.requests import Audit, Check, Describe, Distil, Expert, Fit, InputFile, Scan, WithData
from fednode.learning.seeds import seed_of
from fednode.learning.session import Report, Session
from fednode.learning.specs import Input
from fednode.learning.synthesis import Donor, samples
from fednode.learning.training import Lesson, pools
from fednode_crypto import strict_json
from fednode_crypto.digest import digest_json

Result = dict[str, Any]


class DataChangedError(FednodeError):
    """The images are no longer those that a spec names."""


def spec_digest(spec: Value) -> str:
    """SHA-256 (hex) that names a job."""
    return digest_json("fednode/spec/v1", spec.model_dump(mode="json"))


def spec_seed(spec: Value, purpose: str) -> int:
    """The seed of a job, which follows from its spec and from nothing else."""
    return seed_of(spec_digest(spec), purpose)


def describe(request: Describe, session: Session, report: Report) -> Result:
    """The labels of a source, the shape in which its images are best used, how many there are, and those that are bad."""
    found = describe_source(request.source)
    return {
        "labels": found.labels,
        "size": found.image.size,
        "channels": found.image.channels,
        "counts": [asdict(one) for one in found.counts],
        "bad": [asdict(one) for one in found.bad],
    }


def scan(request: Scan, session: Session, report: Report) -> Result:
    """Labels in the contract's order with counts and digests, and the images that were skipped; reads the data anew."""
    session.forget_data()
    data = session.data(request.data, request.image, request.labels)
    found = [
        {
            "label": own.label,
            "images": len(own.train),
            "holdout": len(own.holdout),
            "patients": own.patients,
            "digest": own.digest,
        }
        for own in data.labels.values()
    ]
    return {"labels": found, "bad": [asdict(bad) for bad in data.bad]}


def fit(request: Fit, session: Session, report: Report) -> Result:
    """Fits the generator of the spec's label and writes its weights to `out`; until then its state is kept beside it.

    `numerics` in the result: those of a team, where one has fitted it.
    """
    spec = request.spec
    own = images_of(request, session, spec.label, spec.images)
    checkpoint = checkpoint_of(spec, request.out, session)
    tensors = generator.fit(
        torch.from_numpy(own.train),
        spec.architecture,
        spec.recipe,
        spec_seed(spec, "fit"),
        lambda done, total: report(f"fit {spec.label}", done, total),
        session.device,
        generator.Aids(torch.from_numpy(own.holdout), checkpoint, bytes.fromhex(request.secret or ""), session.team),
    )
    if session.team.rank == 0:
        generator.save(Path(request.out), tensors)
        checkpoint.remove()
    return {"images": len(own.train), "numerics": session.numerics}


def audit(request: Audit, session: Session, report: Report) -> Result:
    """Draws the recipe's samples, examines the generator by them, and writes the report to `out` and the page beside it."""
    spec, out = request.spec, Path(request.out)
    own = images_of(request, session, spec.label, spec.images)
    report(f"audit {spec.label}", 0, 3)
    donor = Donor(
        spec.weights, spec.label, len(own.train), session.generator(request.weights, spec.weights, spec.architecture)
    )
    drawn = samples(donor, range(spec.recipe.samples), spec.recipe.sampler, session.numerics)
    report(f"audit {spec.label}", 1, 3)
    exhibit = Exhibit(drawn, torch.from_numpy(own.train), torch.from_numpy(own.holdout), donor.denoiser)
    found = examine(exhibit, spec.recipe, spec_digest(spec), session.device)
    report(f"audit {spec.label}", 2, 3)
    write_page(out.with_suffix(".html"), spec.label, exhibit, found)
    out.write_bytes(strict_json.dumps(found.report))
    return {"passed": found.report["passed"], "reasons": found.report["reasons"]}


def check(request: Check, session: Session, report: Report) -> Result:
    """Raises BadWeightsError unless the file is what its architecture says."""
    weights.check_file(Path(request.weights), tensors_of(request.architecture))
    return {}


def expert(request: Expert, session: Session, report: Report) -> Result:
    """Draws what is missing, trains the expert of the spec, writes its weights to `out`, and tells what they give away.

    `dropped` in the result: how many samples of each donor were left out. `samples`: of how many of a donor the generative
    product was asked, and to how many of these it gives another label than the donor does.
    """
    spec, out = request.spec, Path(request.out)
    own = {label: images_of(request, session, label, digest) for label, digest in spec.own}
    train = {label: torch.from_numpy(one.train) for label, one in own.items()}
    lesson = Lesson(spec.labels, train, donors_of(spec.inputs, request.generators, session), spec.recipe)
    left = Left()
    tensors = fit_expert(
        _counted(pools(lesson, session, report), left),
        spec.architecture,
        spec.recipe,
        spec_seed(spec, "expert"),
        lambda done, total: report("train", done, total),
        session.device,
    )
    weights.save(out, tensors)
    told = expert_membership(load_expert(out, spec.architecture, session.device), own, spec.labels, session.device)
    return {"images": lesson.counts, "dropped": dict(left.dropped), "samples": left.samples(), "membership": told}


def checkpoint_of(spec: Value, out: str, session: Session) -> Checkpoint:
    """Where the state of the job of this spec is kept until its result is at `out`."""
    bound = {"spec": spec.model_dump(mode="json"), "numerics": session.numerics}
    return Checkpoint(Path(f"{out}.checkpoint"), digest_json("fednode/checkpoint/v1", bound))


def images_of(request: WithData | Expert | Distil, session: Session, label: str, digest: str) -> LabelImages:
    """The images of one label. Raises DataChangedError unless they are those of the digest."""
    found = session.data(request.data, request.image, request.labels).labels if request.data else {}
    return unchanged(found, label, digest)


def unchanged(found: Mapping[str, LabelImages], label: str, digest: str) -> LabelImages:
    """The images of one label of those found. Raises DataChangedError unless they are those of the digest."""
    own = found.get(label)
    if own is None or own.digest != digest:
        raise DataChangedError(f"The images of label {label!r} have changed since they were scanned.")
    return own


@dataclass
class Left:
    """What pools say of their donors' samples: how many were left out, and how many are doubted."""

    dropped: Counter[str] = field(default_factory=Counter)
    doubted: dict[tuple[str, str], tuple[int, int]] = field(default_factory=dict)

    def samples(self) -> list[Result]:
        """For a person, by label and donor."""
        return [
            {"label": label, "donor": donor, "asked": asked, "doubted": doubted}
            for (label, donor), (asked, doubted) in self.doubted.items()
        ]


def _counted(made: Iterable[Pool], left: Left) -> Iterator[Pool]:
    """The pools as they come, while what each says of its samples is kept."""
    for pool in made:
        left.dropped.update(pool.dropped)
        left.doubted.update(pool.doubted)
        yield pool


def donors_of(inputs: Iterable[Input], files: Mapping[str, InputFile], session: Session) -> dict[str, list[Donor]]:
    """The generators of a spec, by label; `files` are by weight digest."""
    donors: dict[str, list[Donor]] = {}
    for one in inputs:
        file, (label, count) = files[one.weights], one.labels[0]
        denoiser = session.generator(file.weights, one.weights, one.architecture)
        derived = Path(file.derived) if file.derived else None
        donors.setdefault(label, []).append(Donor(one.weights, label, count, denoiser, derived))
    return donors
