"""Run a function in a child process that dies at a failpoint, as kill -9 would end it."""

import gc
import multiprocessing
import os
import signal
from collections.abc import Callable


def dies_at(failpoint: str, function: Callable[[], object]) -> bool:
    """Whether `function`, run in a fork of this process, met the failpoint and died there.

    Raises AssertionError if it ended in any other way than by the failpoint or normally.
    """

    def child() -> None:
        os.environ["FEDNODE_FAILPOINT"] = f"{failpoint}:kill"
        function()

    gc.collect()  # a forgotten connection that is closed while the child runs spoils the locks of SQLite
    process = multiprocessing.get_context("fork").Process(target=child)
    process.start()
    process.join()
    assert process.exitcode in (0, -signal.SIGKILL)
    return process.exitcode != 0
