"""When the gather deadline has passed: each missing generator was waited for, and what arrived late has settled.

Times are seconds of one steady clock, handed in.
"""

from collections.abc import Collection

from fednode.inventory import Missing
from fednode.lineage import Lineage

SETTLE_SECONDS = 30.0


class Gather:
    """Remembers since when each thing is missing, and when something last arrived."""

    def __init__(self, deadline: float) -> None:
        self._deadline = deadline
        self._settle = min(deadline, SETTLE_SECONDS)
        self._since: dict[Missing, float] = {}
        self._live: Lineage = frozenset()
        self._arrived = 0.0

    def note(self, missing: Collection[Missing], live: Lineage, now: float) -> None:
        """What is missing and what is live at `now`."""
        self._since = {item: self._since.get(item, now) for item in missing}
        if live - self._live:
            self._arrived = now
        self._live = live

    def passed(self, now: float) -> bool:
        """Whether building need not wait any longer."""
        return now >= self.passes_at()

    def passes_at(self) -> float:
        """When the deadline passes if nothing happens until then."""
        if not self._since:
            return 0.0
        return max(max(self._since.values()) + self._deadline, self._arrived + self._settle)
