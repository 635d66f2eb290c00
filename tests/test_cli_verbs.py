"""Each verb against a daemon that is played: what it asks, what it prints, how it ends."""

import io
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

import pytest
from cli_documents import status_document
from typer.main import get_command

from fednode import errors
from fednode.control import client as control
from fednode.errors import ExitCode, FednodeError, RefusedError
from fednode_cli import predict
from fednode_cli.main import app, run

SUBJECT = "fn1-" + "-".join(["bbbbbbbb"] * 7)
REVOKED = {"subject": SUBJECT, "name": "clinic-b", "binding": True, "votes": 2, "needed": 2, "suspended": True}
RESTORED = {"subject": SUBJECT, "name": "clinic-b", "standing": "listed", "vote_stands": True}
AUDIT: dict[str, Any] = {
    "label": "nevus",
    "digest": "ab" * 32,
    "passed": False,
    "reasons": ["There are 9 images, and at least 20 are needed."],
    "override": None,
    "report": "/home/a/audit.json",
    "page": None,
}
OVERRIDE = {"label": "nevus", "digest": "ab" * 32, "reasons": AUDIT["reasons"], "override": "public"}
EVALUATION: dict[str, Any] = {
    "images": 450,
    "labels": ["melanoma", "nevus"],
    "experts": [{"peer": "clinic-a", "digest": "ab" * 32, "accuracy": 0.9, "macro_auroc": None, "f1": 0.8, "ece": 0.1}],
    "products": {
        "experts": {
            "accuracy": 0.97531,
            "macro_auroc": 0.99,
            "f1": 0.9,
            "ece": 0.0,
            "log_loss": 0.25,
            "interval": [0.95, 0.99],
            "labels": [
                {"label": "melanoma", "images": 450, "recall": 0.97531, "interval": [0.95, 0.99]},
                {"label": "nevus", "images": 0, "recall": None, "interval": None},
            ],
            "latency_ms": 1.5,
            "calls": 3,
        }
    },
    "default": "experts",
    "chosen": {
        "product": "experts",
        "levels": None,
        "temperature": 0.5,
        "chosen_by": "federated evaluation",
        "accuracy": 0.97531,
        "macro_auroc": 0.99,
        "f1": 0.9,
        "ece": 0.04,
    },
    "confusion": {"experts": [[1, 0], [0, 1]]},
    "uncovered_images": 0,
}


class Daemon:
    """What a verb meets in place of the control client: canned documents, and a list of what was asked."""

    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []
        self.documents: dict[str, Any] = {"status": status_document()}

    def __call__(self, _socket: Path) -> Self:
        return self

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        return None

    def __getattr__(self, verb: str) -> Callable[..., Any]:
        def ask(*arguments: Any) -> Any:
            self.calls.append((verb, *arguments))
            document = self.documents[verb]
            if isinstance(document, BaseException):
                raise document
            return document(*arguments) if callable(document) else document

        return ask


@pytest.fixture
def daemon(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Daemon:
    played = Daemon()
    monkeypatch.setattr(control, "ControlClient", played)
    monkeypatch.setenv("FEDNODE_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(sys, "stdin", io.StringIO())
    return played


@pytest.fixture
def image(tmp_path: Path) -> Path:
    path = tmp_path / "a.png"
    path.write_bytes(b"picture")
    return path


def answered(images: list[tuple[str, bytes]], _product: str) -> dict[str, Any]:
    answers = [
        {"name": name, "label": "nevus", "probabilities": {"melanoma": 0.25, "nevus": 0.75}} for name, _ in images
    ]
    return {"answers": answers, "product": "experts", "experts": 2, "lineage": [["fn1-a", "ab" * 32]], "uncovered": []}


def type_at_terminal(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    terminal = io.StringIO(text)
    monkeypatch.setattr(terminal, "isatty", lambda: True)
    monkeypatch.setattr(sys, "stdin", terminal)


def commands() -> list[tuple[str, ...]]:
    """All verbs, as they are typed."""
    names: list[tuple[str, ...]] = [()]
    for name, command in get_command(app).commands.items():  # type: ignore[attr-defined]
        names += [(name, *([inner] if inner else [])) for inner in ("", *getattr(command, "commands", {}))]
    return names


@pytest.mark.parametrize("verb", commands(), ids=" ".join)
def test_every_verb_has_help_that_says_what_it_does(verb: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*verb, "--help"]) == 0
    out, err = capsys.readouterr()
    assert out.startswith(" ".join(["Usage: fednode", *verb]))
    assert not err


@pytest.mark.parametrize("verb", [verb for verb in commands() if verb not in ((), ("peer",))], ids=" ".join)
def test_every_verb_takes_json(verb: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    run([*verb, "--help"])
    assert "--json" in capsys.readouterr().out


def test_help_lists_each_verb_with_a_whole_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    run(["--help"])
    listed = capsys.readouterr().out.split("Commands:\n")[1].rstrip().splitlines()
    assert len(listed) == len(get_command(app).commands)  # type: ignore[attr-defined]
    assert [line for line in listed if line.endswith("...") or not line.endswith(".")] == []


@pytest.mark.parametrize(
    ("line", "answers", "question"),
    [
        (["status"], {"status": status_document()}, ("status",)),
        (["revoke", "clinic-b", "--reason", "lost key", "--yes"], {"revoke": REVOKED}, ("revoke", "clinic-b", "lost key")),
        (["restore", "clinic-b"], {"restore": RESTORED}, ("restore", "clinic-b")),
        (["withdraw", "nevus", "--yes"], {"withdraw": {"label": "nevus", "digest": "ab" * 32}}, ("withdraw", "nevus")),
        (
            ["override", "nevus", "--reason", "public", "--yes"],
            {"override": OVERRIDE},
            ("override", "nevus", "public"),
        ),
        (["leave", "--reason", "merger", "--yes"], {"leave": {"signed_at": 1_800_000_000, "told": []}}, ("leave", "merger")),
        (["rescan"], {"rescan": {"rescanning": True}}, ("rescan",)),
        (["evaluate", "--data", "digits"], {"evaluate": EVALUATION}, ("evaluate", "digits", (), "", False)),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else "",
)  # fmt: skip
def test_json_is_the_daemons_document_and_nothing_else(
    line: list[str],
    answers: dict[str, Any],
    question: tuple[Any, ...],
    daemon: Daemon,
    capsys: pytest.CaptureFixture[str],
) -> None:
    daemon.documents |= answers
    assert run([*line, "--json"]) == 0
    extra = {"confusion_png": None} if line[0] == "evaluate" else {}
    assert json.loads(capsys.readouterr().out) == answers[line[0]] | extra
    assert daemon.calls[-1] == question


@pytest.mark.parametrize(
    "kind", [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, FednodeError)]
)
def test_an_error_is_two_lines_on_stderr_and_its_own_exit_code(
    kind: type[FednodeError], daemon: Daemon, capsys: pytest.CaptureFixture[str]
) -> None:
    code = ("a-code",) if kind in (errors.WorkerError, errors.PeerError) else ()
    daemon.documents["status"] = kind(*code, "It went wrong.", "Do this.")  # type: ignore[arg-type]
    assert run(["status", "--json"]) == kind.exit_code
    assert capsys.readouterr() == ("", "fednode: It went wrong.\n  Do this.\n")


def test_an_unknown_error_is_one_sentence_with_a_hint_and_no_traceback(
    daemon: Daemon, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    daemon.documents["status"] = ValueError("a\nb")
    assert run(["status"]) == 1
    out, err = capsys.readouterr()
    assert not out
    assert err.splitlines()[0] == "fednode: internal error: ValueError: a b"
    assert "Traceback" not in err
    monkeypatch.setenv("FEDNODE_DEBUG", "1")
    assert run(["status"]) == 1
    assert "Traceback" in capsys.readouterr().err


def test_an_interruption_ends_quietly_with_its_own_code(daemon: Daemon, capsys: pytest.CaptureFixture[str]) -> None:
    daemon.documents["status"] = KeyboardInterrupt()
    assert run(["status"]) == 14
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize(
    "line",
    [
        [],
        ["peer"],
        ["statsu"],
        ["status", "--jsn"],
        ["status", "more"],
        ["status", "--json", "--watch"],
        ["predict"],
        ["predict", "a.png", "--product", "best"],
        ["evaluate"],
        ["evaluate", "--data", "digits", "--federation"],
        ["evaluate", "--data", "digits", "--confusion", "x.jpg"],
        ["samples", "x"],
        ["samples", "x.png", "--per-label", "0"],
        ["revoke", "clinic-b"],
        ["revoke", "clinic-b", "--reason", " "],
        ["revoke", "clinic-b", "--reason", "x" * 501],
        ["leave", "--reason", ""],
        ["stop", "--timeout", "-1"],
        ["start", "--threads", "many"],
        ["peer", "add", "clinic-b"],
        ["-v", "-q", "status"],
    ],
    ids=" ".join,
)
def test_wrong_usage_is_two_lines_and_exit_code_2(
    line: list[str], daemon: Daemon, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(line) == 2
    out, err = capsys.readouterr()
    assert not out
    assert err.startswith("fednode: ")
    assert len(err.splitlines()) == 2
    assert daemon.calls == []


def test_a_mistyped_verb_is_answered_with_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    run(["evalute"])
    assert "'evaluate'" in capsys.readouterr().err


def test_status_shows_the_view(daemon: Daemon, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["status"]) == 0
    assert capsys.readouterr().out.startswith("clinic-a in skin: training")


def test_watch_shows_the_status_again_until_it_is_interrupted(
    daemon: Daemon, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = iter([status_document(), status_document(phase="ready")])

    def next_status() -> dict[str, Any]:
        try:
            return next(answers)
        except StopIteration:
            raise KeyboardInterrupt from None

    daemon.documents["status"] = next_status
    monkeypatch.setattr("fednode_cli.status.PERIOD", 0)
    assert run(["status", "--watch"]) == 0
    assert [line for line in capsys.readouterr().out.splitlines() if line.startswith("clinic-a in")] == [
        f"clinic-a in skin: {phase}, listening on 127.0.0.1:7777, peer id {status_document()['peer_id']}"
        for phase in ("training", "ready")
    ]


def test_predict_prints_name_label_probability_and_product(
    daemon: Daemon, image: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    daemon.documents["predict"] = answered
    assert run(["predict", str(image), "--product", "experts"]) == 0
    assert capsys.readouterr().out.split() == [str(image), "nevus", "0.7500", "experts"]
    assert daemon.calls == [("predict", [(str(image), b"picture")], "experts")]


def test_predict_answers_the_other_images_and_ends_with_5_when_one_is_missing(
    daemon: Daemon, image: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    daemon.documents["predict"] = answered
    missing = str(tmp_path / "missing.png")
    assert run(["predict", missing, str(image), str(tmp_path), "--json"]) == 5
    out, err = capsys.readouterr()
    answers = json.loads(out)["answers"]
    assert [answer["name"] for answer in answers] == [missing, str(image), str(tmp_path)]
    assert ["error" in answer for answer in answers] == [True, False, True]
    assert err.splitlines() == [
        f"fednode: {missing} can't be read: No such file or directory.",
        f"fednode: {tmp_path} is not a file.",
    ]


def test_predict_asks_nothing_when_no_image_can_be_read(daemon: Daemon, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["predict", "nowhere.png", "--json"]) == 5
    assert not capsys.readouterr().out
    assert daemon.calls == []


def test_predict_says_which_image_the_node_could_not_read(
    daemon: Daemon, image: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    answers = [{"name": "a.png", "error": "The file is truncated."}]
    daemon.documents["predict"] = {**answered([], ""), "answers": answers}
    assert run(["predict", str(image)]) == 5
    assert capsys.readouterr() == ("", "fednode: a.png: The file is truncated.\n")


def test_predict_tells_of_labels_that_nobody_covers(
    daemon: Daemon, image: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    daemon.documents["predict"] = lambda images, product: {**answered(images, product), "uncovered": ["melanoma"]}
    assert run(["predict", str(image)]) == 0
    assert "melanoma" in capsys.readouterr().err
    assert run(["-q", "predict", str(image)]) == 0
    assert not capsys.readouterr().err


def test_predict_refuses_images_that_are_too_large(
    daemon: Daemon, image: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(predict, "REQUEST_LIMIT", 13)
    assert run(["predict", str(image), str(image)]) == 5
    monkeypatch.setattr(predict, "IMAGE_LIMIT", 6)
    assert run(["predict", str(image)]) == 5
    assert daemon.calls == []
    assert not capsys.readouterr().out


@pytest.mark.parametrize("name", ["nowhere/c.png", "folder.png", "c.jpg"])
def test_a_picture_that_can_not_be_written_is_refused_before_any_work(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "folder.png").mkdir()
    for line in (
        ["samples", str(tmp_path / name)],
        ["evaluate", "--data", "digits", "--confusion", str(tmp_path / name)],
    ):
        assert run(line) == 2
        assert "internal" not in capsys.readouterr().err


@pytest.mark.parametrize("verb", ["withdraw", "override", "revoke", "restore"])
def test_a_name_that_is_no_text_is_asked_for_as_one_that_nobody_has(verb: str, daemon: Daemon) -> None:
    daemon.documents[verb] = RefusedError("There is no such name.")
    options = {"withdraw": ["--yes"], "override": ["--reason", "r", "--yes"], "revoke": ["--reason", "r", "--yes"]}
    assert run([verb, "\udcff", *options.get(verb, [])]) == ExitCode.REFUSED
    assert daemon.calls[-1][:2] == (verb, "?")


def test_predict_shows_a_file_name_that_is_no_text(
    daemon: Daemon, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    daemon.documents["predict"] = answered
    name = f"{tmp_path}/\udcff.png"
    Path(name).write_bytes(b"picture")
    assert run(["predict", name]) == 0
    assert capsys.readouterr().out.startswith(f"{tmp_path}/?.png")


def test_evaluate_shows_each_model_and_which_product_answers(
    daemon: Daemon, capsys: pytest.CaptureFixture[str]
) -> None:
    daemon.documents["evaluate"] = EVALUATION
    assert run(["evaluate", "--data", "digits"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "450 images of 2 labels: melanoma, nevus"
    assert lines[2].split() == ["expert", "of", "clinic-a", "abababab", "0.900", "-", "0.800", "0.100"]
    assert lines[3].split()[:3] == ["experts", "product", "0.975"]
    assert lines[4].split()[:4] == ["what", "predict", "uses", "0.975"]
    assert lines[4].endswith("experts, temperature 0.5 (federated evaluation)")
    assert lines[5:] == [
        "Products:",
        "  product  accuracy  95 % interval   log loss  ms an image  network calls an image",
        "  experts  0.975     0.950 to 0.990  0.250     1.500        3",
        "Recall by label:",
        "  label     images  experts",
        "  melanoma  450     0.975 (0.950 to 0.990)",
        "  nevus     0       -",
    ]


COUNTED: dict[str, Any] = {"value": 0.8, "low": 0.3755, "high": 0.9638}
FEDERATION: dict[str, Any] = {
    "labels": ["melanoma", "nevus"],
    "unscored": ["nevus"],
    "nodes": ["clinic-a"],
    "images": 5,
    "cells": {"experts": {**COUNTED, "temperature": 0.5, "log_loss": 0.4, "log_losses": {"0.5": 0.4, "1": 0.61}}},
    "rows": [
        {
            "label": "melanoma",
            "nodes": ["clinic-a"],
            "images": 5,
            "cells": {"experts": {**COUNTED, "log_loss": 0.4, "answered": {"melanoma": 4, "nevus": 1}}},
        }
    ],
    "chosen": {
        "cell": "generative-low",
        "product": "generative",
        "levels": "low",
        "temperature": 1,
        "chosen_by": "default",
    },
    "latency_ms": {},
}


def test_the_federated_evaluation_is_shown_label_by_label(daemon: Daemon, capsys: pytest.CaptureFixture[str]) -> None:
    daemon.documents["evaluate_federation"] = FEDERATION
    assert run(["evaluate", "--federation"]) == 0
    out = capsys.readouterr().out
    assert out.splitlines()[0] == "5 held-out images of 1 labels, counted by clinic-a"
    assert "  melanoma  5       0.800 (0.376 to 0.964)" in out
    assert "  mean      5       0.800 (0.376 to 0.964)" in out
    assert "  temperature 1    0.610" in out
    assert "Predictions use generative, low levels, temperature 1 (default)" in out
    assert "Nobody has scored nevus" in out
    assert run(["evaluate", "--federation", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == FEDERATION


def test_evaluate_counts_images_that_nobody_covers_and_names_the_picture(
    daemon: Daemon, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    daemon.documents["evaluate"] = {**EVALUATION, "uncovered_images": 45}
    assert run(["evaluate", "--data", "digits", "--confusion", str(tmp_path / "c.png")]) == 0
    out = capsys.readouterr().out
    assert "Left out: 45 images" in out
    assert f"Confusion matrices: {tmp_path}/c.png" in out


@pytest.mark.parametrize(
    ("given", "sent"),
    [
        ("folder:x/y", "folder:{cwd}/x/y"),
        ("npz:a:b.npz", "npz:{cwd}/a:b.npz"),
        ("folder:/abs", "folder:/abs"),
        ("npz:~/a.npz", "npz:{home}/a.npz"),
        ("csv:x/a.csv", "csv:{cwd}/x/a.csv"),
        ("torchvision:MNIST", "torchvision:MNIST"),
        ("torchvision:MNIST:x", "torchvision:MNIST:{cwd}/x"),
        ("torchvision:MNIST:~/x", "torchvision:MNIST:{home}/x"),
        ("medmnist:bloodmnist:64", "medmnist:bloodmnist:64"),
        ("digits:7", "digits:7"),
        ("folder:", "folder:"),
    ],
)
def test_paths_in_sources_reach_the_daemon_absolute(
    given: str, sent: str, daemon: Daemon, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", "/home/of-ours")
    daemon.documents["evaluate"] = EVALUATION
    assert run(["evaluate", "--data", given, "--labels", "a, b", "--confusion", "c.png", "--skip-bad"]) == 0
    source = sent.format(cwd=tmp_path, home="/home/of-ours")
    assert daemon.calls == [("evaluate", source, ("a", "b"), f"{tmp_path}/c.png", True)]


def test_samples_go_into_an_absolute_file(daemon: Daemon, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    daemon.documents["samples"] = {}
    assert run(["samples", "s.png", "--per-label", "3"]) == 0
    assert daemon.calls == [("samples", f"{tmp_path}/s.png", 3)]


def test_a_revocation_that_binds_says_so(daemon: Daemon, capsys: pytest.CaptureFixture[str]) -> None:
    daemon.documents["revoke"] = REVOKED
    assert run(["revoke", "clinic-b", "--reason", "lost key", "--yes"]) == 0
    out = capsys.readouterr().out
    assert "clinic-b is revoked" in out
    assert "stands for ever: 2 of 2 needed" in out


def test_a_vote_that_does_not_bind_yet_says_what_holds_and_what_is_missing(
    daemon: Daemon, capsys: pytest.CaptureFixture[str]
) -> None:
    daemon.documents["revoke"] = {**REVOKED, "binding": False, "votes": 1, "needed": 3}
    assert run(["revoke", "clinic-b", "--reason", "lost key", "--yes"]) == 0
    out = capsys.readouterr().out
    for words in ("suspended here", "vote stands for ever: 1 of 3", "2 more", "fednode restore clinic-b"):
        assert words in out


def test_a_restored_peer_is_named_with_its_standing_and_the_vote_is_said_to_stand(
    daemon: Daemon, capsys: pytest.CaptureFixture[str]
) -> None:
    daemon.documents["restore"] = {**RESTORED, "vote_stands": False}
    assert run(["restore", "clinic-b"]) == 0
    assert not capsys.readouterr().err
    daemon.documents["restore"] = RESTORED
    assert run(["restore", "clinic-b"]) == 0
    out, err = capsys.readouterr()
    assert out == "clinic-b is listed.\n"
    assert "stands for ever" in err


def test_a_leave_says_when_and_who_heard_it(daemon: Daemon, capsys: pytest.CaptureFixture[str]) -> None:
    daemon.documents["leave"] = {"signed_at": 1_800_000_000, "told": ["clinic-b"]}
    assert run(["leave", "--yes"]) == 0
    assert (
        capsys.readouterr().out
        == "This node left the federation at 2027-01-15 08:00:00 UTC.\nTold at once: clinic-b.\n"
    )


STEPS = [
    (["revoke", "clinic-b", "--reason", "lost key"], "clinic-b", {"revoke": REVOKED}),
    (["override", "nevus", "--reason", "public"], "nevus", {"override": OVERRIDE}),
    (["withdraw", "nevus"], "nevus", {"withdraw": {"label": "nevus", "digest": "ab" * 32}}),
    (["leave"], "clinic-a", {"leave": {"signed_at": 1_800_000_000, "told": []}}),
]


@pytest.mark.parametrize(("line", "word", "answers"), STEPS, ids=["revoke", "override", "withdraw", "leave"])
def test_what_cannot_be_taken_back_waits_for_the_name_to_be_typed(
    line: list[str],
    word: str,
    answers: dict[str, Any],
    daemon: Daemon,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    daemon.documents |= answers
    for typed in ("yes\n", "", f"{word}x\n"):
        type_at_terminal(monkeypatch, typed)
        assert run(line) == 13
        out, err = capsys.readouterr()
        assert not out
        assert "nothing was done" in err
    assert line[0] not in [call[0] for call in daemon.calls]
    type_at_terminal(monkeypatch, f"{word}\n")
    assert run(line) == 0
    assert daemon.calls[-1][0] == line[0]


@pytest.mark.parametrize(("line", "word", "answers"), STEPS, ids=["revoke", "override", "withdraw", "leave"])
@pytest.mark.parametrize("stdin", [io.StringIO("clinic-a\nclinic-b\nnevus\n"), None], ids=["pipe", "closed"])
def test_without_a_terminal_only_yes_confirms(
    line: list[str],
    word: str,
    answers: dict[str, Any],
    stdin: io.StringIO | None,
    daemon: Daemon,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sys, "stdin", stdin)
    daemon.documents |= answers
    assert run(line) == 13
    assert "--yes" in capsys.readouterr().err
    assert line[0] not in [call[0] for call in daemon.calls]
    assert run([*line, "--yes"]) == 0


@pytest.mark.parametrize(("line", "word", "answers"), STEPS, ids=["revoke", "override", "withdraw", "leave"])
def test_nobody_is_asked_to_confirm_when_no_daemon_runs(
    line: list[str], word: str, answers: dict[str, Any], daemon: Daemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    daemon.documents["status"] = errors.NotRunningError("No fednode daemon runs for this home.")
    type_at_terminal(monkeypatch, f"{word}\n")
    assert run(line) == 8
    assert sys.stdin.read() == f"{word}\n"


def test_audits_show_verdict_reasons_and_files(daemon: Daemon, capsys: pytest.CaptureFixture[str]) -> None:
    passed = {**AUDIT, "label": "melanoma", "passed": True, "reasons": [], "page": "/home/a/audit.html"}
    daemon.documents["status"] = status_document(audits=[passed, AUDIT])
    assert run(["audit"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "melanoma (abababab): passed",
        "  page: /home/a/audit.html",
        "  report: /home/a/audit.json",
        "nevus (abababab): failed",
        "  There are 9 images, and at least 20 are needed.",
        "  report: /home/a/audit.json",
    ]
    assert run(["audit", "Nevus", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"audits": [AUDIT], "expert": None}
    assert run(["audit", "cat"]) == 13


@pytest.mark.parametrize(
    ("membership", "words"),
    [
        ({"auc": "0.5512", "interval": ["0.4730", "0.6261"]}, "an area of 0.5512 (0.4730 to 0.6261)"),
        (None, "no own images"),
    ],
)
def test_audits_say_what_the_own_expert_gives_away(
    membership: Any, words: str, daemon: Daemon, capsys: pytest.CaptureFixture[str]
) -> None:
    daemon.documents["status"] = status_document(expert={"digest": "cd" * 32, "membership": membership})
    assert run(["audit"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("own expert (cdcdcdcd): ")
    assert words in out
