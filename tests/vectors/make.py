"""Write the vectors of a NEW format version into a folder that is not there yet: `python tests/vectors/make.py v2`.

A version that was released is never written again: what was signed once must be read for ever.
"""

import hashlib
import json
import sys
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from fednode.architecture import ExpertArchitecture, GeneratorArchitecture, ViTArchitecture
from fednode.catalogue import FRESH_SECONDS, Catalogue
from fednode.contract import Contract, ImageShape
from fednode.evaluation import Evaluation, Row, Scores
from fednode.lineage import Pair
from fednode.manifest import Audit, LabelCount, Manifest, Numerics, Privacy, Weights
from fednode.revocation import Receipt, Revocation, Rotation
from fednode.statement import Statement
from fednode_crypto.digest import sha256_hex
from fednode_crypto.identity import Identity

CREATED = 1_750_000_000
IMAGE = ImageShape(size=28, channels=3)
CONTRACT = Contract(federation="vectors", labels=("melanoma", "nevus"), image=IMAGE, quorum=2)


def key(name: str) -> Identity:
    """The key that a name stands for, the same in every version."""
    return Identity(Ed25519PrivateKey.from_private_bytes(hashlib.sha256(f"fednode vector {name}".encode()).digest()))


def digest(name: str) -> str:
    """The digest that a name stands for."""
    return sha256_hex(name.encode())


ALICE, BOB, CAROL = key("alice"), key("bob"), key("carol")
COMMON = {"contract": CONTRACT.id, "created": CREATED}


def manifest(**fields: object) -> Manifest:
    """A manifest of Alice's, with what all kinds share."""
    numerics = Numerics(device="cpu", threads=1, dtype="float32", torch="2.14.1", deterministic=True)
    shared = {**COMMON, "issuer": ALICE.peer_id, "numerics": numerics, "recipe": digest("recipe")}
    return Manifest(**shared, **fields)  # type: ignore[arg-type]


def statements() -> dict[str, tuple[Statement, tuple[Identity, ...]]]:
    """One statement of each kind and shape, and who signs it."""
    edm2 = GeneratorArchitecture(image=IMAGE, channels=(16, 32, 48), blocks=1, attention=(14, 7))
    timm = ExpertArchitecture(name="resnet18", image=IMAGE, width=32, outputs=2)
    generator = manifest(
        kind="generator",
        architecture=edm2,
        labels=(LabelCount(label="melanoma", images=120),),
        lineage=(),
        weights=Weights(digest=digest("generator"), size=3_000_000, piece_size=2**20),
        audit=Audit(digest=digest("audit"), passed=True, override=None),
        dp=Privacy(epsilon="8", delta="0.00001"),
    )
    expert = manifest(
        kind="expert",
        architecture=timm,
        labels=(LabelCount(label="melanoma", images=120), LabelCount(label="nevus", images=0)),
        lineage=tuple(sorted([generator.pair, Pair(BOB.peer_id, digest("bob's generator"))])),
        weights=Weights(digest=digest("expert"), size=20_000_000, piece_size=2**20),
        audit=Audit(digest=digest("audit"), passed=False, override="A small label; the board has agreed."),
        dp=None,
    )
    classifier = manifest(
        kind="classifier",
        architecture=timm,
        labels=(LabelCount(label="nevus", images=80),),
        lineage=(),
        weights=Weights(digest=digest("classifier"), size=1, piece_size=1024),
        audit=None,
        dp=None,
    )
    vit = ViTArchitecture(name="vit_tiny_patch16_224", image=IMAGE, patch=4, width=64, depth=4, heads=4, outputs=2)
    ready = manifest(
        kind="classifier",
        architecture=vit,
        labels=(LabelCount(label="melanoma", images=0), LabelCount(label="nevus", images=80)),
        lineage=(),
        weights=Weights(digest=digest("ready classifier"), size=400_000, piece_size=2**20),
        audit=None,
        dp=None,
    )
    listed = tuple(sorted([generator.digest, expert.digest]))
    fields = {**COMMON, "issuer": ALICE.peer_id, "fresh_until": CREATED + FRESH_SECONDS}
    first = Catalogue(**fields, sequence=1, previous=None, publishes=("melanoma",), manifests=())
    next_one = Catalogue(**fields, sequence=2, previous=first.digest, publishes=("melanoma",), manifests=listed)
    choosing = Catalogue(
        **fields, sequence=1, previous=None, publishes=(), manifests=(), holds=("melanoma", "nevus"), undecided=True
    )
    chosen = Catalogue(
        **fields,
        sequence=2,
        previous=choosing.digest,
        publishes=(),
        manifests=(ready.digest,),
        classifies=("nevus",),
        holds=("melanoma", "nevus"),
    )
    receipt = Receipt(
        **COMMON,
        issuer=ALICE.peer_id,
        revoked=(BOB.peer_id,),
        erased=(Pair(BOB.peer_id, digest("bob's generator")),),
        rebuilt=(digest("new expert"),),
    )
    rows = (Row(label="melanoma", answered=((0, 11), (1, 4)), losses=(9_000_000, 7_654_321)),)
    evaluation = Evaluation(
        **COMMON,
        issuer=ALICE.peer_id,
        grid=digest("grid"),
        labels=("melanoma", "nevus"),
        lineage=tuple(sorted([expert.pair, *expert.lineage])),
        scores=(Scores(cell="experts", rows=rows), Scores(cell="generative", rows=rows)),
    )
    return {
        "manifest-generator": (generator, (ALICE,)),
        "manifest-expert": (expert, (ALICE,)),
        "manifest-classifier": (classifier, (ALICE,)),
        "manifest-classifier-vit": (ready, (ALICE,)),
        "catalogue-choosing": (choosing, (ALICE,)),
        "catalogue-chosen": (chosen, (ALICE,)),
        "catalogue-first": (first, (ALICE,)),
        "catalogue-next": (next_one, (ALICE,)),
        "revocation": (Revocation(**COMMON, subject=BOB.peer_id, reason="Ein Grund — 理由"), (ALICE, CAROL)),
        "rotation": (Rotation(**COMMON, old=ALICE.peer_id, new=CAROL.peer_id), (ALICE, CAROL)),
        "receipt": (receipt, (ALICE,)),
        "evaluation": (evaluation, (ALICE,)),
    }


def main() -> None:
    """Write the envelopes, and what must be read from them."""
    folder = Path(__file__).parent / sys.argv[1]
    folder.mkdir()
    expected = {}
    for name, (statement, signers) in statements().items():
        (folder / f"{name}.json").write_bytes(statement.seal(*signers))
        expected[name] = {
            "digest": statement.digest,
            "signers": [signer.peer_id for signer in signers],
            "type": statement.payload_type(),
        }
    contract = {"id": CONTRACT.id, "value": CONTRACT.model_dump(mode="json")}
    text = json.dumps({"contract": contract, "statements": expected}, indent=2, sort_keys=True)
    (folder / "expected.json").write_text(text + "\n")


if __name__ == "__main__":
    main()
