"""Seeds: every random number in learning follows from a digest and a purpose, never from a clock or a process."""

from hashlib import sha256


def seed_of(digest: str, *purpose: str | int) -> int:
    """A seed in 0..2^64-1 that depends on `digest` (hex) and on each part of `purpose`, in order.

    A part must not contain the separator `|`: two purposes could read alike.
    """
    parts = [digest, *(str(part) for part in purpose)]
    if any("|" in part for part in parts):
        raise ValueError("a part of a seed's purpose contains '|'")
    return int.from_bytes(sha256("|".join(parts).encode()).digest()[:8], "big")
