"""`fednode audit [LABEL]`: what the audits of the own generators found, and where their reports are."""

from collections.abc import Iterable, Mapping
from typing import Annotated, Any

import typer

from fednode.contract import label_name
from fednode.errors import RefusedError
from fednode_cli.connect import daemon
from fednode_cli.options import AsJson
from fednode_cli.output import Block, report

Document = Mapping[str, Any]


def audit(
    label: Annotated[str | None, typer.Argument(help="One own label; without it, all of them.")] = None,
    as_json: AsJson = False,
) -> None:
    """Show what the audits found, and where their pages are.

    A page shows own images, so it stays on this machine.
    """
    with daemon() as client:
        found = client.status()["audits"]
    wanted = [one for one in found if label is None or one["label"] == label_name(label)]
    if label is not None and not wanted:
        raise RefusedError(f"No generator of {label!r} was audited here.", "`fednode status` shows what the node does.")
    report({"audits": wanted}, list(audit_blocks(wanted)), as_json)


def audit_blocks(audits: Iterable[Document]) -> Iterable[Block]:
    """Verdict, reasons and files of each audit."""
    for one in audits:
        override = f", but published: {one['override']}" if one["override"] else ""
        yield f"{one['label']} ({one['digest'][:8]}): {'passed' if one['passed'] else 'failed'}{override}"
        yield from (f"  {reason}" for reason in one["reasons"])
        yield from (f"  {name}: {one[name]}" for name in ("page", "report") if one[name])
