"""How documents of the daemon look to a person: pure views, and the two forms in which they are printed."""

import io
import re
import sys

import pytest
from cli_documents import status_document
from rich.console import Console

from fednode_cli import units
from fednode_cli.output import Grid, clean, plain_lines, rich_view, show
from fednode_cli.status_view import status_blocks

NOW = 1_800_000_000


def view(**changes: object) -> str:
    return "\n".join(plain_lines(status_blocks(status_document(**changes), NOW)))


def test_the_first_line_says_who_what_and_where() -> None:
    first = view().splitlines()[0]
    for word in ("clinic-a", "skin", "training", "127.0.0.1:7777", "fn1-aaaaaaaa"):
        assert word in first


def test_jobs_show_progress_rate_and_time_left() -> None:
    jobs = [{"job": "fit 3", "phase": "fit", "done": 100, "total": 400, "rate": 31.24, "eta": 125.0}]
    line = next(line for line in view(jobs=jobs).splitlines() if "fit 3" in line)
    assert "25%" in line
    assert "31.2/s" in line
    assert "2 min 05 s" in line


def test_a_job_without_a_known_total_has_no_bar_and_no_time_left() -> None:
    jobs = [{"job": "scan", "phase": "scan", "done": 0, "total": 0, "rate": None, "eta": None}]
    line = next(line for line in view(jobs=jobs).splitlines() if line.startswith("  scan"))
    assert line.split() == ["scan", "scan"]


def test_gamma_has_a_row_for_each_peer_and_a_column_for_each_label() -> None:
    lines = view(gamma={"clinic-a": {"melanoma": "ab" * 32}, "clinic-b": {}}).splitlines()
    start = lines.index("Generators (Γ):")
    assert lines[start + 1].split() == ["peer", "melanoma", "nevus"]
    assert lines[start + 2].split() == ["clinic-a", "abababab", "-"]
    assert lines[start + 3].split() == ["clinic-b", "-", "-"]


def test_classifiers_show_what_they_have_seen_and_that_nobody_has_audited_one() -> None:
    seen = {"peer": "clinic-b", "digest": "cd" * 32, "labels": {"melanoma": 40, "nevus": 3}, "audited": True}
    found = [seen, {**seen, "peer": "clinic-c", "labels": {"nevus": 1}, "audited": False}]
    lines = [line.split() for line in view(classifiers=found).splitlines()]
    assert ["clinic-b", "cdcdcdcd", "melanoma:40", "nevus:3", "passed"] in lines
    assert ["clinic-c", "cdcdcdcd", "nevus:1", "NOT", "AUDITED"] in lines


def test_what_is_exchanged_is_said_where_it_is_not_the_default() -> None:
    assert "Exchanges" not in view()
    auto = {"asked": "auto", "kinds": ["classifier"], "why": "nodes hold 2.0 of 2 labels on the mean"}
    assert "Exchanges classifiers (auto: nodes hold 2.0 of 2 labels on the mean)" in view(exchange=auto)
    both = {"asked": "both", "kinds": ["classifier", "generator"], "why": "asked"}
    assert "Exchanges classifiers and generators" in view(exchange=both)
    assert "Exchanges nothing yet" in view(exchange={**auto, "kinds": []})


def test_gamma_of_many_labels_lists_them_by_name() -> None:
    labels = [f"l{i}" for i in range(40)]
    text = view(labels=labels, gamma={"clinic-a": dict.fromkeys(["l7", "l31"], "ab" * 32)})
    assert "l31 l7" in text
    assert "l12" not in text


def test_a_missing_peer_is_named_with_the_reason_and_what_it_still_owes() -> None:
    peer = {
        "name": "clinic-b",
        "id": "fn1-b",
        "address": None,
        "standing": "listed",
        "connected": False,
        "last_contact": NOW - 61,
        "skew": -400.0,
        "reason": "It refuses our key.",
        "publishes": ["nevus"],
        "missing": ["nevus"],
    }
    line = next(line for line in view(peers=[peer]).splitlines() if line.startswith("  clinic-b"))
    for words in ("listed", "1 min 01 s ago", "dials us", "It refuses our key.", "-400 s from ours"):
        assert words in line


@pytest.mark.parametrize(
    ("product", "sentence"),
    [
        ("experts", "the experts of clinic-a (cdcdcdcd)"),
        ("generative", "the generative product"),
        ("both", "the generative product and the experts of clinic-a (cdcdcdcd)"),
        ("none", "nothing can answer yet"),
    ],
)
def test_the_view_says_which_product_answers(product: str, sentence: str) -> None:
    experts = [{"peer": "clinic-a", "digest": "cd" * 32}]
    assert sentence in view(product={"default": product, "experts": experts, "stale": []})


def test_stale_experts_carry_their_reason() -> None:
    stale = [{"peer": "clinic-b", "digest": "ef" * 32, "reason": "It lacks the generator of clinic-c."}]
    text = view(product={"default": "none", "experts": [], "stale": stale})
    assert "It lacks the generator of clinic-c." in text


def test_receipts_name_who_has_confirmed_and_who_has_not() -> None:
    entry = {
        "subject": "fn1-c",
        "name": "clinic-c",
        "binding": True,
        "votes": 2,
        "needed": 2,
        "confirmed": ["clinic-a"],
        "waiting": ["clinic-b"],
    }
    line = next(line for line in view(revocations=[entry]).splitlines() if line.startswith("  clinic-c"))
    assert line.split() == ["clinic-c", "everywhere", "2", "clinic-a", "clinic-b"]
    line = next(iter(view(revocations=[entry | {"binding": False, "votes": 1}]).split("clinic-c")[1:]))
    assert line.split()[:5] == ["here", "only", "1", "of", "2"]


def test_own_generators_that_were_taken_back_have_receipts_too() -> None:
    entry = {"digest": "cd" * 32, "confirmed": [], "waiting": ["clinic-b"]}
    text = view(withdrawals=[entry], erased={"generator": 1, "expert": 2})
    assert "cdcdcdcd  -             clinic-b" in text
    assert "Erased here: 1 generator, 2 experts" in text


def test_one_line_says_what_the_federated_evaluation_has_found() -> None:
    found = {
        "nodes": ["clinic-a", "clinic-b"],
        "lacking": [],
        "scoring": False,
        "images": 34,
        "labels": 2,
        "product": "both",
        "levels": "all",
        "temperature": 0.5,
        "chosen_by": "federated evaluation",
        "accuracy": {"value": 0.97, "low": 0.85, "high": 0.995},
    }
    assert (
        "Federated evaluation by clinic-a, clinic-b: both, temperature 0.5 (federated evaluation) has "
        "0.970 (0.850 to 0.995) on 34 held-out images of 2 labels" in view(evaluation=found)
    )
    waits = {**found, "nodes": [], "lacking": ["clinic-c"]}
    assert "Federated evaluation waits for the experts of clinic-c" in view(evaluation=waits)
    assert "Federated" not in view()


def test_donors_whose_samples_get_another_label_are_named_and_no_others() -> None:
    good = {"label": "nevus", "peers": ["clinic-a"], "digest": "ab" * 32, "asked": 16, "doubted": 0, "dropped": 0}
    bad = {"label": "melanoma", "peers": ["clinic-b"], "digest": "cd" * 32, "asked": 16, "doubted": 15, "dropped": 188}
    text = view(expert={"digest": "ef" * 32, "membership": None, "samples": [good, bad]})
    line = next(line for line in text.splitlines() if line.startswith("  melanoma"))
    assert line.split() == ["melanoma", "clinic-b", "cdcdcdcd", "15", "of", "16", "188"]
    assert "abababab" not in text
    assert "another label" not in view(expert={"digest": "ef" * 32, "membership": None, "samples": [good]})


def test_uncovered_labels_failed_jobs_waits_and_the_last_error_are_said() -> None:
    text = view(
        uncovered=["nevus"],
        waiting=["the generator of nevus from clinic-b"],
        failed=[{"job": "expert", "code": "memory", "reason": "Out of memory.", "retry_in": 30}],
        last_error="The disk is full.",
    )
    for words in (
        "Uncovered labels: nevus",
        "Waits for the generator of nevus from clinic-b",
        "Out of memory.",
        "Last error: The disk",
    ):
        assert words in text


def test_generators_published_in_spite_of_a_failed_audit_are_named_with_the_reason() -> None:
    entry = {"peer": "clinic-b", "label": "nevus", "digest": "cd" * 32, "reason": "The images are public."}
    text = view(overridden=[entry])
    assert "Published in spite of a failed audit" in text
    assert "clinic-b  nevus  cdcdcdcd  The images are public." in text
    assert "in spite" not in view()


def test_a_node_without_data_says_so() -> None:
    assert "Own data: none" in view(data=None)


def test_images_that_were_left_out_are_named() -> None:
    data = {"source": "folder:/d", "labels": [], "bad": [{"name": "x.png", "reason": "It is truncated."}]}
    assert "x.png  It is truncated." in view(data=data)


def test_patients_are_counted_where_they_are_known() -> None:
    rows = [{"label": label, "images": 9, "holdout": 1, "patients": known} for label, known in (("a", 4), ("b", None))]
    lines = [line.split() for line in view(data={"source": "folder:/d", "labels": rows, "bad": []}).splitlines()]
    assert ["a", "9", "1", "4"] in lines
    assert ["b", "9", "1", "-"] in lines


def test_a_pipe_gets_no_escape(capsys: pytest.CaptureFixture[str]) -> None:
    show(status_blocks(status_document(), NOW))
    assert "\x1b" not in capsys.readouterr().out


def test_text_of_others_cannot_steer_the_terminal() -> None:
    hostile = "\x1b[2J[red]gone[/red]\nfednode: all is well"
    assert "\x1b" not in clean(hostile)
    assert "\n" not in clean(hostile)
    screen = io.StringIO()
    Console(file=screen, force_terminal=True, width=120).print(rich_view([hostile, Grid("t", ("c",), ((hostile,),))]))
    assert "\x1b[2J" not in screen.getvalue()
    assert screen.getvalue().count("[red]gone[/red]") == 2


def test_a_terminal_without_colour_shows_none(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = io.StringIO()
    monkeypatch.setattr(terminal, "isatty", lambda: True)
    monkeypatch.setattr(sys, "stdout", terminal)
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")
    show(status_blocks(status_document(), NOW))
    assert not re.search(r"\x1b\[(\d+;)*([349]\d|10\d)", terminal.getvalue())
    assert "\x1b[1m" in terminal.getvalue()


@pytest.mark.parametrize(
    ("count", "text"), [(0, "0 B"), (1023, "1023 B"), (1024, "1.0 KiB"), (3 * 2**20, "3.0 MiB"), (2**50, "1024.0 TiB")]
)
def test_sizes_have_binary_units(count: int, text: str) -> None:
    assert units.size(count) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (None, ""),
        (4.84, "4.8 s"),
        (60, "1 min 00 s"),
        (59.96, "1 min 00 s"),
        (3599.9, "1 h 00 min"),
        (12000, "3 h 20 min"),
    ],
)
def test_durations_never_show_sixty_of_a_unit(seconds: float | None, text: str) -> None:
    assert units.duration(seconds) == text


@pytest.mark.parametrize(("done", "total", "text"), [(0, 0, ""), (-1, 4, "  0%"), (9, 4, "100%")])
def test_a_bar_stays_within_its_ends(done: float, total: float, text: str) -> None:
    assert units.bar(done, total).endswith(text)
    assert len(units.bar(done, total)) in (0, units.BAR_WIDTH + 5)
