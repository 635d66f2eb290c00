"""Statements of each released format are read for ever; anything that was changed in them is refused."""

import base64
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from making import AUDIT, DENOISER, NUMERICS, digest, identity
from vectors.make import ALICE, CAROL

from fednode.architecture import ExpertArchitecture
from fednode.catalogue import FRESH_SECONDS, MAX_LISTED, Catalogue
from fednode.contract import MAX_LABELS, Contract
from fednode.errors import PeerError
from fednode.evaluation import MAX_IMAGES, MAX_LOSS_MICRO, MAX_ROWS, MAX_SCORED, MINIMUM_IMAGES, Evaluation, Row, Scores
from fednode.lineage import Pair
from fednode.manifest import MAX_INPUTS, LabelCount, Manifest, Weights
from fednode.revocation import MAX_ERASED, MAX_REBUILT, MAX_REVOKED, Receipt, Revocation, Rotation
from fednode.statement import MAX_INTEGER, Statement
from fednode_crypto.digest import sha256_hex
from fednode_crypto.envelope import seal

FOLDER = Path(__file__).parent / "vectors"
KINDS: dict[str, type[Statement]] = {
    kind.KIND: kind for kind in (Manifest, Catalogue, Revocation, Rotation, Receipt, Evaluation)
}
VECTORS = {
    f"{version.name}/{name}": (version / f"{name}.json", expected)
    for version in sorted(path for path in FOLDER.iterdir() if (path / "expected.json").exists())
    for name, expected in json.loads((version / "expected.json").read_text())["statements"].items()
}
ALL = pytest.mark.parametrize("vector", VECTORS)


def kind_of(vector: str) -> type[Statement]:
    return KINDS[vector.split("/")[1].split("-", maxsplit=1)[0]]


def envelope_of(vector: str) -> bytes:
    return VECTORS[vector][0].read_bytes()


def payload_of(vector: str) -> bytes:
    return base64.b64decode(json.loads(envelope_of(vector))["payload"])


def refused(kind: type[Statement], envelope: bytes) -> None:
    with pytest.raises(PeerError) as caught:
        kind.read(envelope)
    assert caught.value.code == "bad-statement"


def signed(vector: str, payload: bytes) -> bytes:
    """The payload, properly signed, in place of the vector's."""
    return seal(kind_of(vector).payload_type(), payload, [ALICE, CAROL])


def test_each_kind_has_a_vector() -> None:
    assert {kind_of(vector) for vector in VECTORS} == set(KINDS.values())
    assert {"v1/manifest-generator", "v1/manifest-expert", "v1/manifest-classifier"} <= VECTORS.keys()


@ALL
def test_a_vector_is_read_and_its_digest_and_signers_are_those_it_was_made_with(vector: str) -> None:
    expected = VECTORS[vector][1]
    statement, signers = kind_of(vector).read(envelope_of(vector))
    assert statement.digest == expected["digest"] == sha256_hex(payload_of(vector))
    assert list(signers) == expected["signers"]
    assert kind_of(vector).payload_type() == expected["type"] == json.loads(envelope_of(vector))["payloadType"]


@ALL
def test_signing_the_same_again_gives_the_same_bytes(vector: str) -> None:
    statement, signers = kind_of(vector).read(envelope_of(vector))
    keys = {ALICE.peer_id: ALICE, CAROL.peer_id: CAROL}
    assert statement.seal(*(keys[signer] for signer in signers)) == envelope_of(vector)


def test_the_id_of_a_contract_stays_what_it_was() -> None:
    for version in {path.parent for path, _ in VECTORS.values()}:
        contract = json.loads((version / "expected.json").read_text())["contract"]
        assert Contract.model_validate_json(json.dumps(contract["value"])).id == contract["id"]


@ALL
def test_an_envelope_with_a_byte_changed_is_refused_or_loses_a_signer(vector: str) -> None:
    envelope, kind = envelope_of(vector), kind_of(vector)
    statement, signers = kind.read(envelope)
    for at in range(0, len(envelope), 3):
        changed = envelope[:at] + bytes([envelope[at] ^ 1]) + envelope[at + 1 :]
        try:
            read, left = kind.read(changed)
        except PeerError:
            continue
        assert read == statement
        assert set(left) < set(signers)


@ALL
def test_a_cut_or_extended_envelope_is_refused(vector: str) -> None:
    envelope = envelope_of(vector)
    for changed in (b"", envelope[:-1], envelope[1:], envelope + b"}", envelope * 2):
        refused(kind_of(vector), changed)


@ALL
def test_a_statement_of_one_kind_never_passes_for_another(vector: str) -> None:
    for other in set(KINDS.values()) - {kind_of(vector)}:
        refused(other, envelope_of(vector))
        renamed = json.loads(envelope_of(vector)) | {"payloadType": other.payload_type()}
        refused(other, json.dumps(renamed).encode())


CHANGES: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
    "a field more": lambda value: value | {"note": "x"},
    "a field less": lambda value: {key: held for key, held in value.items() if key != "created"},
    "a text for a number": lambda value: value | {"created": str(value["created"])},
    "true for a number": lambda value: value | {"created": True},
    "a negative time": lambda value: value | {"created": -1},
    "a short digest": lambda value: value | {"contract": value["contract"][:-1]},
    "a digest in capitals": lambda value: value | {"contract": value["contract"].upper()},
    "null": lambda value: value | {"contract": None},
}


@ALL
@pytest.mark.parametrize("change", CHANGES)
def test_a_signed_payload_is_refused_that_has(vector: str, change: str) -> None:
    value = CHANGES[change](json.loads(payload_of(vector)))
    payload = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()
    refused(kind_of(vector), signed(vector, payload))


@ALL
def test_a_signed_payload_is_refused_that_is_not_canonical(vector: str) -> None:
    payload, kind = payload_of(vector), kind_of(vector)
    value = json.loads(payload)
    backwards = json.dumps(dict(reversed(value.items())), separators=(",", ":"), ensure_ascii=False).encode()
    created = b'"created":%d' % value["created"]
    assert created in payload
    changed = {
        "spaces": json.dumps(value, sort_keys=True, ensure_ascii=False).encode(),
        "another order": backwards,
        "a float": payload.replace(created, created + b".0"),
        "an exponent": payload.replace(created, b'"created":1750e6'),
        "a key twice": payload.replace(created, created + b"," + created),
        "no number": payload.replace(created, b'"created":NaN'),
        "a huge number": payload.replace(created, b'"created":9007199254740993'),
        "an escape": payload.replace(b'"created"', b'"\\u0063reated"'),
        "more behind": payload + b"\n",
        "a byte order mark": b"\xef\xbb\xbf" + payload,
        "bad UTF-8": payload.replace(created, b'"\xff":1,' + created),
        "deep nesting": b"[" * 5000 + b"]" * 5000,
    }
    for name, bytes_ in changed.items():
        assert bytes_ != payload, name
        refused(kind, signed(vector, bytes_))
    assert kind.read(signed(vector, payload))[0].payload() == payload


def test_an_envelope_over_its_limit_is_refused_before_it_is_read() -> None:
    refused(Revocation, b" " * (Revocation.LIMIT + 1))
    vector = "v1/revocation"
    padded = envelope_of(vector) + b" " * (Revocation.LIMIT - len(envelope_of(vector)))
    assert Revocation.read(padded)[0].digest == VECTORS[vector][1]["digest"]
    refused(Revocation, padded + b" ")


FIELDS = {
    "v1/manifest-generator": {
        "lineage": [[ALICE.peer_id, "0" * 64]],
        "audit": None,
        "labels": [],
        "kind": "expert",
        "issuer": ALICE.peer_id.upper(),
        "dp": {"epsilon": "1e3", "delta": "0"},
        "recipe": "..",
        "weights": {"digest": "0" * 64, "size": 0, "piece_size": 2**20},
        "architecture": {"family": "pickle"},
    },
    "v1/manifest-expert": {
        "lineage": [[CAROL.peer_id, "1" * 64], [ALICE.peer_id, "0" * 64], [ALICE.peer_id, "0" * 64]],
        "labels": [{"images": 1, "label": "a"}, {"images": 2, "label": "a"}],
        "audit": {"digest": "0" * 64, "override": "for fun", "passed": True},
    },
    "v1/catalogue-first": {"sequence": 0, "previous": "0" * 64, "publishes": ["b", "a"], "manifests": ["1" * 64] * 2},
    "v1/catalogue-next": {"sequence": 1, "previous": None, "publishes": ["../a"]},
    "v1/revocation": {"reason": "", "subject": "fn1-abc"},
    "v1/rotation": {"new": ALICE.peer_id},
    "v1/evaluation": {"labels": ["nevus", "nevus"], "lineage": [], "grid": "grid", "scores": []},
    "v1/receipt": {"rebuilt": ["0" * 64] * (MAX_REBUILT + 1), "revoked": ["nobody"]},
}


ROW = {"label": "melanoma", "answered": [[0, 11], [1, 4]], "losses": [9_000_000, 7_654_321]}
ROWS: dict[str, list[dict[str, Any]]] = {
    "fewer images than are scored": [ROW | {"answered": [[0, MINIMUM_IMAGES - 1]]}],
    "more images than are scored": [ROW | {"answered": [[0, MAX_IMAGES], [1, 1]]}],
    "an answer twice": [ROW | {"answered": [[0, 8], [0, 7]]}],
    "answers out of order": [ROW | {"answered": [[1, 4], [0, 11]]}],
    "an answer that is no label": [ROW | {"answered": [[0, 11], [2, 4]]}],
    "an answer for no image": [ROW | {"answered": [[0, 15], [1, 0]]}],
    "a loss below nothing": [ROW | {"losses": [-1, 0]}],
    "a loss above the clip": [ROW | {"losses": [15 * MAX_LOSS_MICRO + 1, 0]}],
    "a float for a loss": [ROW | {"losses": [0.5, 0]}],
    "a label that is not told apart": [ROW | {"label": "naevus"}],
    "a label twice": [ROW, ROW],
    "labels out of order": [ROW | {"label": "nevus"}, ROW],
    "unequal numbers of losses": [ROW, ROW | {"label": "nevus", "losses": [0]}],
    "no row": [],
}


def evaluation_with(*cells: tuple[str, list[dict[str, Any]]]) -> bytes:
    """The vector with other rows, properly signed."""
    value = json.loads(payload_of("v1/evaluation")) | {"scores": [{"cell": name, "rows": rows} for name, rows in cells]}
    payload = json.dumps(value, sort_keys=True, separators=(",", ":")).encode()
    return signed("v1/evaluation", payload)


@pytest.mark.parametrize("name", ROWS)
def test_an_evaluation_is_refused_that_has(name: str) -> None:
    assert Evaluation.read(evaluation_with(("experts", [ROW])))
    refused(Evaluation, evaluation_with(("experts", ROWS[name])))


def test_an_evaluation_is_refused_whose_cells_do_not_go_together() -> None:
    both = [ROW, ROW | {"label": "nevus"}]
    other = [ROW | {"answered": [[0, 16]]}]
    assert Evaluation.read(evaluation_with(("experts", both), ("generative", both)))
    for cells in (
        [("generative", [ROW]), ("experts", [ROW])],
        [("experts", [ROW]), ("experts", [ROW])],
        [("experts", [ROW]), ("generative", other)],
        [("experts", [ROW]), ("generative", both)],
    ):
        refused(Evaluation, evaluation_with(*cells))


@pytest.mark.parametrize(("vector", "name"), [(vector, name) for vector, names in FIELDS.items() for name in names])
def test_a_signed_statement_that_contradicts_itself_is_refused(vector: str, name: str) -> None:
    value = json.loads(payload_of(vector)) | {name: FIELDS[vector][name]}
    payload = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()
    refused(kind_of(vector), signed(vector, payload))


PEER = identity(1)
LONG = "x" * 32


def row(label: str) -> Row:
    """The row that takes most bytes for its images: each is answered with another label, all of them far down."""
    answered = tuple((index, 1) for index in range(MAX_LABELS - MINIMUM_IMAGES, MAX_LABELS))
    return Row(label=label, answered=answered, losses=(MINIMUM_IMAGES * MAX_LOSS_MICRO,) * 8)


def largest() -> list[Statement]:
    """Statements as large as their fields allow (but for the number of signers)."""
    labels = [f"{number:03}{LONG}"[:32] for number in range(MAX_LABELS)]
    pairs = [Pair(PEER.peer_id, digest(str(number))) for number in range(MAX_INPUTS)]
    fields = {"contract": digest("contract"), "created": MAX_INTEGER, "issuer": PEER.peer_id}
    architecture = ExpertArchitecture(name="resnet10t", image=DENOISER.image, width=256, outputs=1000)
    return [
        Manifest(
            **fields,
            kind="expert",
            architecture=architecture,
            recipe=digest("recipe"),
            labels=tuple(LabelCount(label=label, images=MAX_INTEGER) for label in labels),
            lineage=tuple(sorted(pairs)),
            weights=Weights(digest=digest("weights"), size=2**35, piece_size=2**20),
            numerics=NUMERICS,
            audit=AUDIT.model_copy(update={"passed": False, "override": "理" * 500}),
            dp=None,
        ),
        Catalogue(
            **fields,
            sequence=MAX_INTEGER,
            previous=digest("before"),
            fresh_until=FRESH_SECONDS,
            publishes=tuple(labels),
            manifests=tuple(sorted(digest(str(number)) for number in range(MAX_LISTED))),
        ),
        Evaluation(
            **fields,
            grid=digest("grid"),
            labels=tuple(labels),
            lineage=tuple(sorted(Pair(PEER.peer_id, digest(str(number))) for number in range(MAX_SCORED))),
            scores=tuple(Scores(cell=cell * 32, rows=tuple(map(row, labels[:MAX_ROWS]))) for cell in "abcdef"),
        ),
        Receipt(
            **fields,
            revoked=(PEER.peer_id,) * MAX_REVOKED,
            erased=tuple(pairs[:MAX_ERASED]),
            rebuilt=(digest("expert"),) * MAX_REBUILT,
        ),
    ]


@pytest.mark.parametrize("statement", largest(), ids=lambda statement: statement.KIND)
def test_the_largest_statement_that_its_fields_allow_is_within_its_limit(statement: Statement) -> None:
    assert type(statement).read(statement.seal(PEER))[0] == statement
