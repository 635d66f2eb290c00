"""Statements for tests, with fixed keys and times: what is not said does not matter to the test."""

import hashlib
from collections.abc import Iterable, Sequence

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from fednode.architecture import ExpertArchitecture, GeneratorArchitecture
from fednode.contract import Contract, ImageShape
from fednode.lineage import Pair
from fednode.manifest import Audit, LabelCount, Manifest, Numerics, Weights
from fednode.presets import vit_architecture
from fednode_crypto.identity import Identity, PeerId

NOW = 1_700_000_000
IMAGE = ImageShape(size=8, channels=1)
CONTRACT = Contract(federation="test", labels=("ant", "bee", "cat"), image=IMAGE)
DENOISER = GeneratorArchitecture(image=IMAGE, channels=(16, 32), blocks=1)
NUMERICS = Numerics(device="cpu", threads=1, dtype="float32", torch="2.14.1", deterministic=True)
AUDIT = Audit(digest=hashlib.sha256(b"report").hexdigest(), passed=True, override=None)


def digest(text: str) -> str:
    """A digest that stands for `text`."""
    return hashlib.sha256(text.encode()).hexdigest()


def identity(number: int) -> Identity:
    """Always the same identity for a number."""
    return Identity(Ed25519PrivateKey.from_private_bytes(hashlib.sha256(b"test key %d" % number).digest()))


def generator(
    issuer: PeerId, label: str = "ant", weights: str = "", contract: Contract = CONTRACT, images: int = 40
) -> Manifest:
    """The manifest of a generator; its weights are told apart by the text `weights`."""
    return Manifest(
        contract=contract.id,
        created=NOW,
        issuer=issuer,
        kind="generator",
        architecture=DENOISER.model_copy(update={"image": contract.image}),
        recipe=digest("generator recipe"),
        labels=(LabelCount(label=label, images=images),),
        lineage=(),
        weights=Weights(digest=digest(weights or f"{issuer} {label}"), size=1000, piece_size=2**20),
        numerics=NUMERICS,
        audit=AUDIT,
        dp=None,
    )


def classifier(issuer: PeerId, contract: Contract = CONTRACT, **images: int) -> Manifest:
    """The manifest of a classifier that has seen so many images of each label."""
    return Manifest(
        contract=contract.id,
        created=NOW,
        issuer=issuer,
        kind="classifier",
        architecture=vit_architecture(contract.image, len(contract.labels)),
        recipe=digest("classifier recipe"),
        labels=tuple(LabelCount(label=label, images=images.get(label, 0)) for label in contract.labels),
        lineage=(),
        weights=Weights(digest=digest(f"{issuer} {sorted(images.items())}"), size=1000, piece_size=2**20),
        numerics=NUMERICS,
        audit=AUDIT,
        dp=None,
    )


def expert(
    issuer: PeerId,
    lineage: Iterable[Pair],
    labels: Sequence[str] = ("ant", "bee"),
    weights: str = "",
    contract: Contract = CONTRACT,
) -> Manifest:
    """The manifest of an expert that was made from `lineage`."""
    pairs = tuple(sorted(lineage))
    return Manifest(
        contract=contract.id,
        created=NOW,
        issuer=issuer,
        kind="expert",
        architecture=ExpertArchitecture(name="resnet10t", image=contract.image, width=16, outputs=len(labels)),
        recipe=digest("expert recipe"),
        labels=tuple(LabelCount(label=label, images=0) for label in labels),
        lineage=pairs,
        weights=Weights(digest=digest(weights or f"{issuer} {pairs}"), size=1000, piece_size=2**20),
        numerics=NUMERICS,
        audit=None,
        dp=None,
    )
