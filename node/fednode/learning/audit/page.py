"""The page of an audit: verdict, reasons, pictures and figures in one HTML file that needs nothing else.

Rule 1: it shows own images, so it stays beside the generator that it is about, is read by its owner alone, and goes with it.
Rule 2: whatever is written on it is escaped, and it loads nothing from anywhere.
Rule 3: a figure from a few images stands beside its interval.
"""

import base64
import html
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import torch

from fednode.learning.audit import plots
from fednode.learning.audit.copies import nearest
from fednode.learning.audit.examination import Examination, Exhibit

SHOWN = 64
COLUMNS = 16
PAIRS = 8
MAP_SIDE = 16  # smaller images are seen whole in the grid, and a second of CPU is much for their audit

STYLE = """
body { font: 15px/1.5 sans-serif; margin: 2em auto; max-width: 60em; padding: 0 1em; color: #222 }
.passed { color: #176117 } .failed { color: #a11212 }
table { border-collapse: collapse; margin: .5em 0 1.5em }
td, th { padding: .2em .8em; text-align: left; border-bottom: 1px solid #ddd }
img { image-rendering: pixelated; max-width: 100% } .pairs { display: flex; flex-wrap: wrap; gap: 1em }
figure { margin: 0 } figcaption { font-size: 12px }
"""
POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'"


def write_page(path: Path, label: str, exhibit: Exhibit, examination: Examination) -> None:
    """Write the page of a generator of `label`."""
    report: Any = examination.report
    passed = report["passed"]
    parts = [
        f'<h1>Audit of the generator of {_text(label)}</h1><p class="{"passed" if passed else "failed"}"><b>',
        "It passed: nothing below gives its images away."
        if passed
        else "It failed: nobody gets it unless its owner overrides this.",
        "</b></p>",
        *(f'<p class="failed">{_text(reason)}</p>' for reason in report["reasons"]),
        *(_findings(exhibit, examination) if examination.points else ()),
    ]
    head = f'<meta charset="utf-8"><meta http-equiv="Content-Security-Policy" content="{POLICY}">'
    title = f"<title>Audit of {_text(label)}</title><style>{STYLE}</style>"
    body = "\n".join(parts)
    path.write_text(f'<!DOCTYPE html><html lang="en"><head>{head}{title}</head><body>\n{body}\n</body></html>\n')


def _findings(exhibit: Exhibit, examination: Examination) -> Iterable[str]:
    report: Any = examination.report
    train = len(exhibit.train)
    yield (
        f"<p>{report['samples']} samples stand beside {train} training images and {report['heldout']} that were held out. "
        f"Intervals hold with a confidence of {_text(report['confidence'])}; chances are those of so extreme a figure from a "
        "generator that gives nothing away.</p>"
    )
    yield f"<h2>Samples</h2>{_image(plots.tiles(exhibit.samples[:SHOWN], COLUMNS))}"
    yield "<h2>The samples nearest to a training image</h2>"
    yield "<p>Each row: the sample, the training image nearest to it, the held-out image nearest to it.</p>"
    yield f'<div class="pairs">{"".join(_pairs(exhibit))}</div>'
    yield from _copies(report["copies"])
    yield from _membership(report["membership"])
    yield _image(plots.histograms(examination.scores))
    yield from _gap(report["gap"])
    yield from _fidelity(report["fidelity"], report["features"])
    if exhibit.samples.shape[-1] >= MAP_SIDE and examination.points:
        picture = plots.feature_map(examination.points)
        yield f"<h2>Map of the features (t-SNE)</h2>{_image(picture)}" if picture else ""


def _pairs(exhibit: Exhibit) -> Iterable[str]:
    """The PAIRS samples that are nearest to a training image, each with both neighbours and their distances."""
    flat = [part.flatten(1).float() for part in (exhibit.samples, exhibit.train, exhibit.holdout)]
    (near, known), (far, fresh) = nearest(flat[0], flat[1]), nearest(flat[0], flat[2])
    for at in near[:, 0].argsort(stable=True)[:PAIRS].tolist():
        row = torch.stack([exhibit.samples[at], exhibit.train[known[at, 0]], exhibit.holdout[fresh[at, 0]]])
        told = "a copy of a training image" if near[at, 0] == 0 else f"{near[at, 0]:.0f} from training"
        caption = f"sample {at}: {told}, {far[at, 0]:.0f} from held out"
        yield f"<figure>{_image(plots.tiles(row, 3))}<figcaption>{_text(caption)}</figcaption></figure>"


def _copies(spaces: Any) -> Iterable[str]:
    yield "<h2>Copies</h2>"
    rows = []
    for space, tests in spaces.items():
        for name, title in (("distance", "nearest distance"), ("carlini_ratio", "Carlini ratio")):
            one = tests[name]
            share = f"{one['nearer']} below {one['threshold']}"
            rows.append((space, title, share, _between(one["interval"]), one["expected"], one["chance"]))
        one = tests["visits"]
        said = f"{one['heldout']} nearest to a held-out image"
        rows.append((space, "visits", said, _between(one["interval"]), one["expected"], one["chance"]))
    yield _table(("space", "test", "samples", "share, interval", "expected", "chance"), rows)
    yield f"<p>Exact copies of training images: {_text(spaces['pixels']['copies'])}.</p>"


def _membership(attacks: Any) -> Iterable[str]:
    yield "<h2>Membership</h2>"
    columns = (
        "attack",
        "area under the curve",
        "interval",
        "surely above",
        "limit",
        "members found at 1 % false alarms",
    )
    yield _table(
        columns,
        [
            (
                name,
                one["auc"],
                _between(one["interval"]),
                one["bound"],
                one["limit"],
                f"{one['share_found']} ({_between(one['share_interval'])})",
            )
            for name, one in attacks.items()
        ],
    )


def _gap(gap: Any) -> Iterable[str]:
    yield "<h2>Held-out against training loss</h2>"
    yield _table(
        ("noise level", "training", "held out"), list(zip(gap["levels"], gap["train"], gap["heldout"], strict=True))
    )
    yield (
        f"<p>Held-out images are explained worse by {_text(gap['nats'])} nats; with that in the place of the divergence, "
        f"Theorem 1 bounds the label's excess risk by {_text(gap['excess_risk_bound'])} for a loss bounded by 1 "
        "(above 1 it says nothing).</p>"
    )


def _fidelity(found: Any, features: str) -> Iterable[str]:
    yield f"<h2>Fidelity</h2><p>In the features {_text(features)}, whose figures compare with no others.</p>"
    rows = [
        ("Fréchet distance", found["fid"], "none: a few images raise it"),
        ("kernel distance", found["kid"], f"± {found['kid_deviation']} over subsets"),
        *((name, found[name]["share"], _between(found[name]["interval"])) for name in ("precision", "recall")),
    ]
    yield _table(("measure", "value", "interval"), rows)


def _table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    head = "".join(f"<th>{_text(column)}</th>" for column in columns)
    body = "".join("<tr>" + "".join(f"<td>{_text(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<table><tr>{head}</tr>{body}</table>"


def _between(interval: Sequence[str]) -> str:
    return f"{interval[0]} to {interval[1]}"


def _image(png: bytes) -> str:
    return f'<img alt="" src="data:image/png;base64,{base64.b64encode(png).decode()}">'


def _text(value: object) -> str:
    return html.escape(str(value))
