"""What a worker is told beside a job's spec: where the images, the weights and the results are."""

from fednode import core as cores
from fednode.core import Core
from fednode.errors import StorageError
from fednode.lineage import Pair
from fednode.parts import common_fields, product_fields
from fednode.planned import Expert, Fit, Score, key
from fednode.scoring import cells_of
from fednode.workers import Fields
from fednode_crypto.errors import KeyFileError
from fednode_crypto.secret import FIT_NOISE, derive, load_or_make


def data_fields(core: Core) -> Fields:
    """The own images and the contract's shape and labels."""
    settings, contract = core.settings, core.contract
    data = None
    if settings.data is not None:
        data = {
            "source": settings.data,
            "labels": list(settings.labels) if settings.labels else None,
            "skip_bad": settings.skip_bad,
        }
    return {"data": data, "image": contract.image.model_dump(mode="json"), "labels": list(contract.labels)}


def made_fields(core: Core, job: Fit | Expert) -> Fields:
    """For what has weights: the own images, and what else it is made from. Raises StorageError if the secret can't be read."""
    fields = data_fields(core)
    if isinstance(job, Expert):
        return {**fields, **_inputs(core, job)}
    return {**fields, "secret": _secret(core, job)} if job.spec["recipe"].get("privacy") else fields


def score_fields(core: Core, job: Score) -> Fields:
    """For the own held-out images: those, and the parts of the products."""
    stock, uses = cores.stock(core), frozenset(job.lineage)
    experts, generators, classifiers = (
        {pair: manifest for pair, manifest in live.items() if pair in uses}
        for live in (stock.experts, stock.generators, stock.classifiers)
    )
    data, cells = data_fields(core), cells_of(stock, job.spec["labels"])
    parts = product_fields(
        experts,
        generators if "generative" in cells else {},
        classifiers if "ensemble" in cells else {},
        core.store,
    )
    return {
        **parts,
        **common_fields(core.contract, core.recipes),
        "labels": job.spec["labels"],
        "contract_labels": data["labels"],
        "data": data["data"],
    }


def _inputs(core: Core, job: Expert) -> Fields:
    """Where the artifacts are that an expert is made from, by kind."""
    live = cores.stock(core).classifiers
    generators = {pair.digest: _files(core, pair) for pair in job.inputs if pair not in live}
    classifiers = {pair.digest: _files(core, pair) for pair in job.inputs if pair in live}
    given: Fields = {"generators": generators}
    return {**given, "classifiers": classifiers} if job.spec["job"] == "distil" else given


def _files(core: Core, pair: Pair) -> dict[str, str]:
    return {"weights": str(core.store.path(pair)), "derived": str(core.store.derived(pair))}


def _secret(core: Core, job: Fit) -> str:
    """What the noise of a private fit follows from: this home's secret and the spec, so that a rerun spends nothing."""
    cores.check_secret(core)
    try:
        return derive(load_or_make(core.home.secret), FIT_NOISE, key(job)).hex()
    except KeyFileError as error:
        raise StorageError(error.message, error.hint) from error
