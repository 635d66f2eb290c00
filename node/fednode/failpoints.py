"""Failpoints: named places where a test lets this process die, or its disk run full.

`FEDNODE_FAILPOINT=NAME:kill` ends the process there as kill -9 would; `NAME:enospc` makes the disk full there.
"""

import errno
import os
import signal

TRANSACTIONS = (
    "bytes",
    "catalogue",
    "check",
    "erase",
    "erasure",
    "evaluation",
    "event",
    "job",
    "listed",
    "manifest",
    "quarantine",
    "receipt",
    "revocation",
    "roster",
    "scan",
    "schema",
    "setting",
    "standing",
    "withdrawn",
)

NAMES = frozenset(
    {f"ledger.commit.{name}" for name in TRANSACTIONS}
    | {f"ledger.committed.{name}" for name in TRANSACTIONS}
    | {
        "store.copied",
        "store.described",
        "store.synced",
        "store.placed",
        "store.piece",
        "store.erase",
        "store.unlinked",
        "store.erased",
    }
)


def hit(name: str) -> None:
    """Pass the failpoint `name`; does nothing unless the environment names it.

    Raises OSError (ENOSPC) if it is set to `enospc`, and RuntimeError if `name` is not one of NAMES.
    """
    if name not in NAMES:
        raise RuntimeError(f"there is no failpoint {name!r}")
    wanted = os.environ.get("FEDNODE_FAILPOINT")
    if wanted == f"{name}:kill":
        os.kill(os.getpid(), signal.SIGKILL)
    elif wanted == f"{name}:enospc":
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
