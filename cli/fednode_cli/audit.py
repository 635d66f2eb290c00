"""`fednode audit [LABEL]`: what the audits of the own generators found, and where their reports are."""

from collections.abc import Iterable, Mapping
from typing import Annotated, Any

import typer

from fednode.contract import label_name
from fednode.errors import RefusedError
from fednode_cli.connect import daemon
from fednode_cli.options import AsJson, shown
from fednode_cli.output import Block, report

Document = Mapping[str, Any]


def audit(
    label: Annotated[
        str | None, typer.Argument(help="One own label, or classifier; without it, all.", callback=shown)
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show what the audits found, and where their pages are.

    Without a label it also says what the own expert gives away of the images that it saw.

    A page shows own images, so it stays on this machine.
    """
    with daemon() as client:
        status = client.status()
    wanted = [one for one in status["audits"] if label is None or one["label"] == label_name(label)]
    if label is not None and not wanted:
        raise RefusedError(f"Nothing of {label!r} was audited here.", "`fednode status` shows what the node does.")
    expert = status["expert"] if label is None else None
    report({"audits": wanted, "expert": expert}, [*audit_blocks(wanted), *expert_blocks(expert)], as_json)


def audit_blocks(audits: Iterable[Document]) -> Iterable[Block]:
    """Verdict, reasons and files of each audit."""
    for one in audits:
        override = f", but published: {one['override']}" if one["override"] else ""
        yield f"{one['label']} ({one['digest'][:8]}): {'passed' if one['passed'] else 'failed'}{override}"
        yield from (f"  {reason}" for reason in one["reasons"])
        yield from (f"  {name}: {one[name]}" for name in ("page", "report") if one[name])


def expert_blocks(expert: Document | None) -> Iterable[Block]:
    """What is known of the own expert."""
    if expert is None:
        return
    found = expert["membership"]
    if found is None:
        yield f"own expert ({expert['digest'][:8]}): it saw no own images, or none are held out to compare with"
        return
    area = f"{found['auc']} ({' to '.join(found['interval'])})"
    yield f"own expert ({expert['digest'][:8]}): tells its training images from held-out ones with an area of {area}"
