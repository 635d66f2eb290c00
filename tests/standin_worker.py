"""A stand-in for `python -m fednode.worker` that learns nothing: weights are bytes that follow from the spec alone.

    FEDNODE_WORKER="python -S tests/standin_worker.py"   STANDIN_DIR=FOLDER

Rule 1: it speaks the worker's protocol, and equal specs give equal bytes, as of the real one.
Rule 2: it touches what the real one touches: it reads every weight file that it is given, and writes into `derived`.
Rule 3: tests steer it by files in STANDIN_DIR, where it also tells what it was asked (requests.jsonl).

A steering file is named ACTION-OP or ACTION-OP-LABEL (`hold-expert`, `crash-fit-three`). While `hold` is there, the op waits;
`crash`, `kill`, `memory` and `data` are used up by the op that they break; `bad` marks weights, which then fail the check;
`fail` lets an audit fail. While `hold-ready` is there, workers that start do not say that they are ready. `best` names the cell
that a score finds best. It imports the standard library alone and starts in a few hundredths of a second.
"""

import base64
import hashlib
import json
import os
import queue
import signal
import struct
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO

FOLDER = Path(os.environ["STANDIN_DIR"])
WEIGHT_BYTES = 6000
BAD_MARK = b"these weights are bad"
DIGITS_IMAGES = 40
HOLDOUT_SHARE = 8
POLL_SECONDS = 0.01

Document = dict[str, Any]
Op = Callable[[Document], Document]
Report = Callable[[str, int, int], None]
OPS: dict[str, Op] = {}


class FailedError(Exception):
    """The request fails with this code and sentence."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


def op(function: Op) -> Op:
    """An operation, by the name of its function."""
    OPS[function.__name__.replace("_", "-")] = function
    return function


def seed_of(value: object) -> bytes:
    """A digest that follows from a JSON value alone."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).digest()


def stream_of(seed: bytes, size: int) -> bytes:
    """`size` bytes that follow from a seed; as 16-bit floats they are all finite and below 2."""
    blocks = (hashlib.sha256(seed + struct.pack("<Q", at)).digest() for at in range(-(-size // 32)))
    raw = bytearray(b"".join(blocks)[:size])
    for high in range(1, size, 2):
        raw[high] &= 0xBF
    return bytes(raw)


def weights_of(spec: Document, bad: bool = False) -> bytes:
    """A safetensors file with one fp16 tensor."""
    mark = BAD_MARK if bad else b""
    data = mark + stream_of(seed_of(spec), WEIGHT_BYTES - len(mark))
    tensor = {"dtype": "F16", "shape": [WEIGHT_BYTES // 2], "data_offsets": [0, WEIGHT_BYTES]}
    header = json.dumps({"w": tensor}).encode()
    header += b" " * (-len(header) % 8)
    return struct.pack("<Q", len(header)) + header + data


def names(action: str, request: Document) -> list[str]:
    """The names that a steering file for this request may have."""
    label = request.get("spec", {}).get("label")
    return [f"{action}-{request['op']}"] + ([f"{action}-{request['op']}-{label}"] if label else [])


def is_told(action: str, request: Document) -> bool:
    """Whether a steering file asks for `action`."""
    return any((FOLDER / name).exists() for name in names(action, request))


def is_told_once(action: str, request: Document) -> bool:
    """The same, and the file is used up."""
    for name in names(action, request):
        try:
            (FOLDER / name).unlink()
        except FileNotFoundError:
            continue
        return True
    return False


def steer(request: Document, report: Report) -> None:
    """Wait, die or fail as the steering files say."""
    if is_told("hold", request):
        report(f"held {request['op']}", 1, 2)
    while is_told("hold", request):
        time.sleep(POLL_SECONDS)
    if is_told_once("crash", request):
        os._exit(3)
    if is_told_once("kill", request):
        os.kill(os.getpid(), signal.SIGKILL)
    if is_told_once("memory", request):
        raise FailedError("memory", "There is not enough memory for this job.")
    if is_told_once("data", request):
        raise FailedError("data", "The images of this job can't be used.")


def images_of(data: Document, labels: list[str]) -> dict[str, list[bytes]]:
    """Label -> contents of its images."""
    kind, _, rest = data["source"].partition(":")
    kept = [label for label in labels if data["labels"] is None or label in data["labels"]]
    if kind == "npz" and not Path(rest).is_file():
        raise FailedError("data", f"The file {rest} is not there.")
    if kind in ("digits", "npz"):
        return {label: [f"{rest or 0} {label} {n}".encode() for n in range(DIGITS_IMAGES)] for label in kept}
    if not Path(rest).is_dir():
        raise FailedError("data", f"The folder {rest} is not there.")
    found = {label: [path.read_bytes() for path in sorted((Path(rest) / label).glob("*"))] for label in kept}
    if data["labels"] and (empty := [label for label in kept if not found[label]]):
        raise FailedError("data", f"There is no image of the label {empty[0]!r} in {rest}.")
    return {label: images for label, images in found.items() if images}


def digest_of(images: list[bytes]) -> str:
    """The digest of a label's images, in whatever order."""
    return hashlib.sha256(b"".join(sorted(hashlib.sha256(image).digest() for image in images))).hexdigest()


def counts_of(found: dict[str, list[bytes]]) -> list[Document]:
    """How many training and held-out images each label has."""
    held = {label: len(images) // HOLDOUT_SHARE for label, images in found.items()}
    return [
        {"label": label, "images": len(images) - held[label], "holdout": held[label], "patients": None}
        for label, images in found.items()
    ]


def checkpoint_of(request: Document) -> Path:
    """Where a fit keeps its state until it is done."""
    return Path(request["out"] + ".checkpoint")


def check_images(request: Document, label: str, digest: str) -> int:
    """How many training images a label has; fails unless they are those that the spec names."""
    images = images_of(request["data"], request["labels"]).get(label, []) if request["data"] else []
    if digest_of(images) != digest:
        raise FailedError("data-changed", f"The images of label {label!r} have changed since they were scanned.")
    return len(images) - len(images) // HOLDOUT_SHARE


@op
def describe(request: Document) -> Document:
    kind, _, rest = request["source"].partition(":")
    folders = sorted(path.name for path in Path(rest).iterdir()) if kind == "folder" else map(str, range(10))
    labels = list(folders)
    images = images_of({"source": request["source"], "labels": None}, labels)
    rows = [{**row, "test": row["images"]} for row in counts_of(images)]
    return {"labels": labels, "size": 8, "channels": 1, "counts": rows, "bad": []}


@op
def scan(request: Document) -> Document:
    found = images_of(request["data"], request["labels"])
    return {"labels": [{**row, "digest": digest_of(found[row["label"]])} for row in counts_of(found)], "bad": []}


@op
def fit(request: Document) -> Document:
    spec = request["spec"]
    count = check_images(request, spec["label"], spec["images"])
    Path(request["out"]).write_bytes(weights_of(spec, is_told("bad", request)))
    checkpoint_of(request).unlink()
    return {"images": count}


@op
def audit(request: Document) -> Document:
    spec = request["spec"]
    check_images(request, spec["label"], spec["images"])
    Path(request["weights"]).read_bytes()
    passed = not is_told("fail", request)
    reasons = [] if passed else [f"The samples of {spec['label']} are too near to its images."]
    out = Path(request["out"])
    out.write_text(json.dumps({"passed": passed, "spec": seed_of(spec).hex()}))
    out.with_suffix(".html").write_text("<html></html>")
    return {"passed": passed, "reasons": reasons}


@op
def classifier(request: Document) -> Document:
    spec = request["spec"]
    counts = [check_images(request, label, digest) for label, digest in spec["own"]]
    Path(request["out"]).write_bytes(weights_of(spec, is_told("bad", request)))
    return {"images": sum(counts)}


@op
def audit_classifier(request: Document) -> Document:
    spec = request["spec"]
    for label, digest in spec["own"]:
        check_images(request, label, digest)
    Path(request["weights"]).read_bytes()
    passed = not is_told("fail", request)
    Path(request["out"]).write_text(json.dumps({"passed": passed, "spec": seed_of(spec).hex()}))
    return {"passed": passed, "reasons": [] if passed else ["The classifier tells its images from others."]}


@op
def distil(request: Document) -> Document:
    spec = request["spec"]
    for label, digest in spec["own"]:
        check_images(request, label, digest)
    for kind, inputs in (("classifiers", spec["inputs"]), ("generators", spec.get("generators", ()))):
        for one in inputs:
            Path(request[kind][one["weights"]]["weights"]).read_bytes()
    Path(request["out"]).write_bytes(weights_of(spec))
    return {"images": {"inverted": 100 * len(spec["inputs"])}}


@op
def import_classifier(request: Document) -> Document:
    data = Path(request["file"]).read_bytes()
    if BAD_MARK in data:
        raise FailedError("bad-weights", "The weights have a value that is not finite.")
    Path(request["out"]).write_bytes(weights_of({"file": hashlib.sha256(data).hexdigest()}))
    shape = {"family": "vit", "name": request["model"], "image": request["image"], "patch": 2}
    return {"architecture": {**shape, "width": 192, "depth": 12, "heads": 3, "outputs": len(request["labels"])}}


@op
def check(request: Document) -> Document:
    if BAD_MARK in Path(request["weights"]).read_bytes():
        raise FailedError("bad-weights", "The weights have a value that is not finite.")
    return {}


@op
def expert(request: Document) -> Document:
    spec = request["spec"]
    counts = {label: check_images(request, label, digest) for label, digest in spec["own"]}
    for one in spec["inputs"]:
        files = request["generators"][one["weights"]]
        weights = Path(files["weights"]).read_bytes()
        (Path(files["derived"]) / "samples.bin").write_bytes(weights[len(weights) // 4 :])
    Path(request["out"]).write_bytes(weights_of(spec))
    samples = [
        {"label": one["labels"][0][0], "donor": one["weights"], "asked": 16, "doubted": 1} for one in spec["inputs"]
    ]
    return {"images": {"real": sum(counts.values()), "synthetic": 200 * len(spec["inputs"])}, "samples": samples}


def check_product(request: Document) -> None:
    """Every part of the product is there to be read."""
    for part in (*request.get("experts", ()), *request["generators"], *request.get("classifiers", ())):
        Path(part["weights"]).read_bytes()


@op
def predict(request: Document) -> Document:
    check_product(request)
    labels = request["labels"]
    answers = []
    for image in request["images"]:
        data = base64.b64decode(image["data"])
        if data.startswith(b"no image"):
            answers.append({"name": image["name"], "error": "this is no image"})
            continue
        best = labels[hashlib.sha256(data).digest()[0] % len(labels)]
        rest = 0.5 / len(labels)
        probabilities = {label: rest + 0.5 * (label == best) for label in labels}
        answers.append({"name": image["name"], "label": best, "probabilities": probabilities})
    return {"answers": answers}


METRICS = {"accuracy": 0.75, "macro_auroc": 0.9, "f1": 0.7, "ece": 0.05}


def product_metrics(labels: list[str]) -> Document:
    recalls = [{"label": label, "images": 4, "recall": 0.75, "interval": [0.3, 0.95]} for label in labels]
    return {**METRICS, "log_loss": 0.5, "interval": [0.7, 0.8], "labels": recalls, "latency_ms": 0.1, "calls": 3}


@op
def evaluate(request: Document) -> Document:
    check_product(request)
    labels = request["labels"]
    found = images_of(request["data"], request["contract_labels"])
    present = {"experts": request["experts"], "generative": request["generators"], "ensemble": request["classifiers"]}
    products = [name for name, parts in present.items() if parts]
    return {
        "images": sum(len(images) for label, images in found.items() if label in labels),
        "labels": labels,
        "experts": [{"digest": one["digest"], **METRICS} for one in request["experts"]],
        "products": dict.fromkeys(products, product_metrics(labels)),
        "chosen": METRICS,
        "confusion": dict.fromkeys(products, [[0] * len(labels)] * len(labels)),
        "uncovered_images": sum(len(images) for label, images in found.items() if label not in labels),
    }


CELLS = ("both", "experts", "generative", "generative-high", "generative-low")
LOSSES = [9_000_000, 1_000_000, 5_000_000, 6_000_000, 7_000_000]


@op
def score(request: Document) -> Document:
    """Every held-out image is answered rightly by the cell in STANDIN_DIR/best, else by experts; by others all but one."""
    check_product(request)
    spec, best = request["spec"], FOLDER / "best"
    told = best.read_text() if best.exists() else "experts"
    scores = [{"cell": cell, "rows": [score_row(request, *own, cell == told) for own in spec["own"]]} for cell in CELLS]
    return {
        "scores": scores if spec["own"] else [],
        "latency": dict(zip(CELLS, (6.0, 1.0, 5.0, 3.0, 2.0), strict=True)),
    }


def score_row(request: Document, label: str, digest: str, right: bool) -> Document:
    """Five images; fails unless the own images are those of the spec."""
    check_images({**request, "labels": request["contract_labels"]}, label, digest)
    own = request["labels"].index(label)
    other = (own + 1) % len(request["labels"])
    answered = [[own, 5]] if right else sorted([[own, 4], [other, 1]])
    return {"label": label, "answered": answered, "losses": LOSSES}


@op
def samples(request: Document) -> Document:
    check_product(request)
    Path(request["out"]).write_bytes(b"\x89PNG\r\n\x1a\n")
    return {"labels": [label for label in request["labels"] if label in images_of(request["data"], request["labels"])]}


@op
def deal(request: Document) -> Document:
    """Node i gets all labels but the i-th; the files are empty, for a stand-in's npz has 40 images of each label."""
    for out in request["out"]:
        Path(out).touch()
    kept = [[label for at, label in enumerate(request["labels"]) if at != node] for node in range(len(request["out"]))]
    return {"parts": [dict.fromkeys(labels, DIGITS_IMAGES) for labels in kept]}


@op
def pace(request: Document) -> Document:
    return {"images_per_second": 640.0 if request["recipe"]["batch"] == 64 else 32.0}


@op
def baseline(request: Document) -> Document:
    return {"images": DIGITS_IMAGES, "labels": request["labels"], **METRICS}


def outcome(request: Document, report: Report) -> Document:
    """How a request ends."""
    try:
        if request["op"] == "fit":
            checkpoint_of(request).touch()
        steer(request, report)
        return {"event": "done", "result": OPS[request["op"]](request)}
    except FailedError as error:
        return {"event": "failed", "code": error.code, "message": str(error), "hint": ""}
    except FileNotFoundError as error:
        return {"event": "failed", "code": "internal", "message": f"{error.filename} is missing.", "hint": ""}


class Session:
    """The conversation on the real standard output."""

    def __init__(self, role: str, stream: BinaryIO) -> None:
        self._role = role
        self._stream = stream

    def say(self, message: Document) -> None:
        """Write one line."""
        self._stream.write(json.dumps(message).encode() + b"\n")
        self._stream.flush()

    def note(self, **fields: object) -> None:
        """Tell the test what this worker does."""
        line = {"pid": os.getpid(), "role": self._role, **fields}
        with (FOLDER / "requests.jsonl").open("a") as log:
            log.write(json.dumps(line) + "\n")

    def serve(self, request: Document) -> None:
        """Answer a request."""

        def report(phase: str, done: int, total: int) -> None:
            pace = {"done": done, "total": total, "rate": 10.0, "eta": 0.1}
            self.say({"id": request["id"], "event": "progress", "phase": phase, **pace})

        self.note(op=request["op"], label=request.get("spec", {}).get("label"), secret=request.get("secret"))
        report(request["op"], 0, 2)
        self.say({"id": request["id"], **outcome(request, report)})


def read_requests(stream: BinaryIO, requests: queue.Queue[bytes]) -> None:
    """Hand on each line; the end of the stream ends the process, whatever it does."""
    for line in stream:
        requests.put(line)
    os._exit(0)


def main() -> None:
    """Serve until standard input ends."""
    role, options = sys.argv[1], dict(zip(sys.argv[2::2], sys.argv[3::2], strict=True))
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    session = Session(role, sys.stdout.buffer)
    requests: queue.Queue[bytes] = queue.Queue()
    threading.Thread(target=read_requests, args=(sys.stdin.buffer, requests), daemon=True).start()
    numerics = {"device": "cpu", "threads": int(options["--threads"]), "dtype": "float32", "torch": "stand-in"}
    session.note(op="start", label=None)
    while (FOLDER / "hold-ready").exists():
        time.sleep(POLL_SECONDS)
    session.say({"event": "ready", "device": "cpu", "numerics": {**numerics, "deterministic": True}})
    while True:
        session.serve(json.loads(requests.get()))


if __name__ == "__main__":
    main()
