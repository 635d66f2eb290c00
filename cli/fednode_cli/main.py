"""The command line: one verb a module, put together here.

Rule 1: data goes to stdout; logs, notes and errors go to stderr.
Rule 2: a verb imports the control client or the daemon when it runs, so `fednode --help` knows no grpc and no torch.
"""

import sys
from collections.abc import Sequence
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from fednode.errors import ExitCode
from fednode_cli import (
    audit,
    budget,
    describe,
    evaluate,
    id,
    import_classifier,
    init,
    leave,
    override,
    paths,
    peer,
    predict,
    rescan,
    restore,
    revoke,
    samples,
    start,
    status,
    stop,
    version,
    withdraw,
)
from fednode_cli.demo import verb as demo
from fednode_cli.guard import exit_code_of, say_usage, unwritable_output
from fednode_cli.output import prepare_streams, set_verbosity

TYPER_INTERRUPTED = 130  # what typer makes of Ctrl-C while it reads the command line


class Verbs(TyperGroup):
    """The verbs, with every error turned into words and an exit code."""

    def invoke(self, ctx: Any) -> Any:
        """Run the verb that was asked for, and end with its exit code."""
        raise typer.Exit(exit_code_of(lambda: super(Verbs, self).invoke(ctx)))


app = typer.Typer(
    cls=Verbs,
    help="A node of a federation that exchanges signed generators of images, and never images.",
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"fednode {version.program_version()}")
        raise typer.Exit


@app.callback()
def options(
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Log more on stderr.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Say only errors on stderr.")] = False,
    _version: Annotated[
        bool, typer.Option("--version", help="Print the version.", is_eager=True, callback=_print_version)
    ] = False,
) -> None:
    """Read the options that stand before the verb."""
    if verbose and quiet:
        raise typer.BadParameter("--verbose and --quiet don't go together.")
    set_verbosity(verbose, quiet)


app.command("init")(init.init)
app.command("id")(id.peer_id)
app.add_typer(peer.app, name="peer")
app.command("describe")(describe.describe)
app.command("start")(start.start)
app.command("budget")(budget.budget)
app.command("stop")(stop.stop)
app.command("status")(status.status)
app.command("predict")(predict.predict)
app.command("evaluate")(evaluate.evaluate)
app.command("samples")(samples.samples)
app.command("audit")(audit.audit)
app.command("override")(override.override)
app.command("import-classifier")(import_classifier.import_classifier)
app.command("revoke")(revoke.revoke)
app.command("restore")(restore.restore)
app.command("withdraw")(withdraw.withdraw)
app.command("leave")(leave.leave)
app.command("rescan")(rescan.rescan)
app.command("demo")(demo.demo)
app.command("paths")(paths.paths)
app.command("version")(version.version)


def run(arguments: Sequence[str]) -> int:
    """Run one command line and give its exit code."""
    try:
        code: int = app(list(arguments), prog_name="fednode", standalone_mode=False)
        sys.stdout.flush()
    except typer.TyperException as error:
        return say_usage(error)
    except (typer.Abort, KeyboardInterrupt):
        return ExitCode.INTERRUPTED
    except OSError as error:
        return unwritable_output(error)
    return ExitCode.INTERRUPTED if code == TYPER_INTERRUPTED else code


def main() -> None:
    """The console script `fednode`."""
    prepare_streams()
    sys.exit(run(sys.argv[1:]))
