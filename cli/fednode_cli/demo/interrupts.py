"""Ctrl-C and its kin, turned into one KeyboardInterrupt that never cuts into what must be done whole.

Rule 1: what starts a process and notes it down, and what ends processes and removes files, runs inside `held()`.
Rule 2: only the first signal counts; what follows it is already the way out.
"""

import contextlib
import signal
from collections.abc import Iterator
from types import FrameType, TracebackType
from typing import Any, Self

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Interrupts:
    """While entered, SIGINT, SIGTERM and SIGHUP raise KeyboardInterrupt in the main thread, once."""

    def __init__(self) -> None:
        self._depth = 0
        self._came = self._raised = False
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Self:
        self._before = {number: signal.signal(number, self._on_signal) for number in SIGNALS}
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """A block that a signal does not cut into: its KeyboardInterrupt comes at the end of the block."""
        self._depth += 1
        try:
            yield
        finally:
            self._depth -= 1
        self._raise_if_due()

    def _on_signal(self, _number: int, _frame: FrameType | None) -> None:
        self._came = True
        self._raise_if_due()

    def _raise_if_due(self) -> None:
        if self._came and not self._raised and not self._depth:
            self._raised = True
            raise KeyboardInterrupt
