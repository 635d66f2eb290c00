"""A typed confirmation before what can't simply be taken back."""

import sys

from fednode.errors import RefusedError


def confirm(word: str, consequence: str, yes: bool) -> None:
    """Return once the person has typed `word`, or at once with `yes`. Raises RefusedError otherwise."""
    if yes:
        return
    if not sys.stdin or not sys.stdin.isatty():
        raise RefusedError("Nobody is here to confirm it, so nothing was done.", "Add --yes to go on without asking.")
    print(f"{consequence}\nType {word} to go on: ", end="", file=sys.stderr, flush=True)
    if sys.stdin.readline().strip() != word:
        raise RefusedError(f"What was typed is not {word}, so nothing was done.")
