"""From a request's line to its outcome: the table of ops, and a code and one sentence for everything that can go wrong."""

import logging
from collections.abc import Callable
from typing import Any

import torch
from pydantic import ValidationError

from fednode.errors import DataError, FednodeError
from fednode.learning import answers, comparisons, distillation, operations, scoring
from fednode.learning.answers import UnanswerableError
from fednode.learning.dealing import deal
from fednode.learning.operations import DataChangedError
from fednode.learning.pace import pace
from fednode.learning.ready import import_classifier
from fednode.learning.requests import REQUEST
from fednode.learning.session import Report, Session
from fednode.learning.weights import BadWeightsError

log = logging.getLogger("fednode.worker")

OPS: dict[str, Callable[[Any, Session, Report], dict[str, Any]]] = {
    "describe": operations.describe,
    "scan": operations.scan,
    "fit": operations.fit,
    "audit": operations.audit,
    "classifier": distillation.classifier,
    "audit-classifier": distillation.audit_classifier,
    "check": operations.check,
    "import-classifier": import_classifier,
    "expert": operations.expert,
    "distil": distillation.distil,
    "predict": answers.predict,
    "evaluate": answers.evaluate,
    "score": scoring.score,
    "baseline": comparisons.baseline,
    "deal": deal,
    "samples": comparisons.samples_picture,
    "pace": pace,
}

CODES: dict[type[FednodeError], str] = {
    DataError: "data",
    DataChangedError: "data-changed",
    BadWeightsError: "bad-weights",
    UnanswerableError: "unanswerable",
}


def outcome(text: bytes, session: Session, report: Report) -> dict[str, Any]:
    """Runs one request: `done` with its result, or `failed` with code, message and hint. Raises nothing."""
    try:
        request = REQUEST.validate_json(text)
        result = OPS[request.op](request, session, report)
    except FednodeError as error:
        return _failed(CODES.get(type(error), "internal"), error.message, error.hint)
    except ValidationError as error:
        where = ".".join(str(part) for part in error.errors()[0]["loc"])
        return _failed("internal", f"The request is malformed at {where or 'its start'}: {error.errors()[0]['msg']}.")
    except Exception as error:
        if _out_of_memory(error):
            return _failed("memory", "There is not enough memory for this job.", "Use a smaller preset or batch.")
        log.exception("the request failed")
        return _failed("internal", f"The job failed: {_sentence(error)}")
    return {"event": "done", "result": result}


def _failed(code: str, message: str, hint: str = "") -> dict[str, Any]:
    return {"event": "failed", "code": code, "message": message, "hint": hint}


def _out_of_memory(error: Exception) -> bool:
    """CUDA has an error of its own; the allocator of the CPU says it in words."""
    if isinstance(error, MemoryError | torch.OutOfMemoryError):
        return True
    return isinstance(error, RuntimeError) and "allocate memory" in str(error)


def _sentence(error: Exception) -> str:
    lines = str(error).splitlines()
    return lines[0][:300] if lines else type(error).__name__
