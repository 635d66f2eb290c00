"""What can go wrong in a worker becomes a code and one sentence, also what only torch knows how to say."""

import json
from typing import Any

import pytest
import torch

from fednode.errors import DataError, FednodeError
from fednode.learning import dispatch
from fednode.learning.answers import UnanswerableError
from fednode.learning.operations import DataChangedError
from fednode.learning.session import open_session
from fednode.learning.weights import BadWeightsError

SESSION = open_session("cpu", 1)
REQUEST = json.dumps({"id": 1, "op": "describe", "source": "digits"}).encode()


def outcome(monkeypatch: pytest.MonkeyPatch, error: Exception | None, action: Any = None) -> dict[str, Any]:
    def op(request: Any, session: Any, report: Any) -> dict[str, Any]:
        if error:
            raise error
        return {"made": action()}

    monkeypatch.setitem(dispatch.OPS, "describe", op)
    return dispatch.outcome(REQUEST, SESSION, lambda phase, done, total: None)


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (DataError("No.", "Then."), "data"),
        (DataChangedError("No.", "Then."), "data-changed"),
        (BadWeightsError("No.", "Then."), "bad-weights"),
        (UnanswerableError("No.", "Then."), "unanswerable"),
        (FednodeError("No.", "Then."), "internal"),
    ],
)
def test_each_error_of_ours_keeps_its_sentence_and_hint(
    monkeypatch: pytest.MonkeyPatch, error: Exception, code: str
) -> None:
    expected = {"event": "failed", "code": code, "message": "No.", "hint": "Then."}
    assert outcome(monkeypatch, error) == expected


@pytest.mark.parametrize("error", [MemoryError(), torch.OutOfMemoryError("CUDA out of memory.")])
def test_want_of_memory_has_its_own_code(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    assert outcome(monkeypatch, error)["code"] == "memory"


def test_what_torch_says_when_the_cpus_memory_is_used_up_is_understood(monkeypatch: pytest.MonkeyPatch) -> None:
    assert outcome(monkeypatch, None, lambda: torch.empty(1 << 50))["code"] == "memory"


def test_an_error_of_many_lines_is_told_in_one(monkeypatch: pytest.MonkeyPatch) -> None:
    answer = outcome(monkeypatch, RuntimeError("first line\nsecond line"))
    assert (answer["code"], answer["message"]) == ("internal", "The job failed: first line")


def test_a_result_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    assert outcome(monkeypatch, None, lambda: 5) == {"event": "done", "result": {"made": 5}}
