"""`fednode start`: runs the node's daemon."""

import os
from typing import Annotated

import typer

from fednode.config import ensure_home
from fednode.errors import ExitCode
from fednode_cli import connect, detached
from fednode_cli.options import SOURCE_HELP, AsJson, KeptLabels, NumberType, PeersFile, PresetName, SkipBad
from fednode_cli.output import note, report, show_json


def start(  # noqa: PLR0913, PLR0917 - one parameter for each option
    peers: PeersFile = None,
    data: Annotated[str | None, typer.Option(metavar="SOURCE", help=SOURCE_HELP)] = None,
    labels: KeptLabels = None,
    listen: Annotated[str | None, typer.Option(metavar="HOST:PORT", help="Where peers reach us.")] = None,
    device: Annotated[str | None, typer.Option(metavar="DEVICE", help="auto, cpu, cuda or cuda:N.")] = None,
    threads: Annotated[int | None, typer.Option(metavar="N", help="CPU threads of each worker.")] = None,
    processes: Annotated[
        int | None, typer.Option(metavar="N", help="Processes that fit a generator together, on an accelerator each.")
    ] = None,
    gather_deadline: Annotated[
        float | None, typer.Option(metavar="SECONDS", help="How long to wait for the peers' generators.")
    ] = None,
    skip_bad: SkipBad = False,
    preset: PresetName = None,
    fit_images: Annotated[
        int | None, typer.Option(metavar="N", help="Images that the fit of a generator sees; see `fednode budget`.")
    ] = None,
    dtype: NumberType = None,
    dp: Annotated[
        float | None, typer.Option("--dp", metavar="EPSILON", help="Fit with differential privacy of this epsilon.")
    ] = None,
    exchange: Annotated[
        str | None,
        typer.Option(
            metavar="KINDS", help="What to offer and use: generators, classifiers, both, or auto by the labels."
        ),
    ] = None,
    augment: Annotated[str | None, typer.Option(metavar="POLICY", help="How experts see images changed.")] = None,
    experts_see: Annotated[
        str | None, typer.Option(metavar="WHAT", help="What the own expert is trained on: all or synthetic images.")
    ] = None,
    max_latency: Annotated[
        float | None, typer.Option(metavar="MS", help="Answer with nothing slower an image than this.")
    ] = None,
    detach: Annotated[bool, typer.Option("--detach", help="Return once the daemon runs.")] = False,
    as_json: AsJson = False,
) -> None:
    """Run this node until `fednode stop` or Ctrl-C.

    What is not given here comes from FEDNODE_* variables (FEDNODE_LISTEN for --listen), then from config.yaml in the home.
    With --json, one object with the process and the peer id is printed: with --detach at once, else at the end.
    """
    flags = {
        "peers": peers,
        "data": data,
        "labels": labels,
        "listen": listen,
        "device": device,
        "threads": threads,
        "processes": processes,
        "gather_deadline": gather_deadline,
        "skip_bad": skip_bad or None,
        "preset": preset,
        "fit_images": fit_images,
        "dtype": dtype,
        "exchange": exchange,
        "augment": augment,
        "experts_see": experts_see,
        "max_latency": max_latency,
        "dp": dp,
    }
    settings, own, home = connect.settings(flags), connect.identity().peer_id, connect.home()
    ensure_home(home)
    if detach:
        pid = detached.launch(home, flags)
        report({"pid": pid, "peer_id": own}, [f"{settings.name} runs as process {pid}."], as_json)
        note("`fednode status --watch` shows what it does.")
        return
    from fednode.daemon import run  # noqa: PLC0415 - it brings grpc, which --help does without

    code = run(home, settings)
    if as_json and code == ExitCode.OK:
        show_json({"pid": os.getpid(), "peer_id": own})
    raise typer.Exit(code)
