"""Numbers as people read them."""

from collections.abc import Mapping, Sequence

BAR_WIDTH = 20
UNITS = ("KiB", "MiB", "GiB", "TiB")


def size(count: int) -> str:
    """A number of bytes: `512 B`, `3.4 MiB`."""
    if count < 1024:
        return f"{count} B"
    steps = min((count.bit_length() - 1) // 10, len(UNITS))
    return f"{count / 1024**steps:.1f} {UNITS[steps - 1]}"


def duration(seconds: float | None) -> str:
    """A length of time: `4.8 s`, `2 min 05 s`, `3 h 20 min`; empty if it is not known."""
    if seconds is None:
        return ""
    if seconds < 59.95:  # more would be rounded to 60.0
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest:02d} s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02d} min"


def bar(done: float, total: float) -> str:
    """A progress bar with its percentage; empty if the total is not known."""
    if total <= 0:
        return ""
    share = min(max(done / total, 0.0), 1.0)
    filled = round(share * BAR_WIDTH)
    return f"{'█' * filled}{'░' * (BAR_WIDTH - filled)} {share:4.0%}"


def share(estimate: Mapping[str, float]) -> str:
    """A share with its interval: `0.981 (0.942 to 0.993)`."""
    return f"{estimate['value']:.3f} ({estimate['low']:.3f} to {estimate['high']:.3f})"


def number(value: float | None, digits: int = 3) -> str:
    """A measure; a dash if it is not defined."""
    return "-" if value is None else f"{value:.{digits}f}"


def count(value: int | None) -> str:
    """How many there are; a dash if that is not known."""
    return "-" if value is None else str(value)


def interval(ends: Sequence[float]) -> str:
    """An interval of a measure: `0.941 to 0.989`."""
    low, high = ends
    return f"{low:.3f} to {high:.3f}"
