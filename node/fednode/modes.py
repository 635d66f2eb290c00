"""Which kinds of artifacts a node offers and uses: what was asked for, or what the labels that nodes hold speak for. Pure.

Rule 1: it is a node's own choice, and no part of the contract: nodes that choose differently use what they have in common.
Rule 2: `auto` takes classifiers where a node holds, on the mean over all nodes with images, at least two labels and half of those
        that anybody holds, else generators: a classifier of one label has nothing to tell apart, and so nothing to invert.
Rule 3: it counts labels alone, which every node says before it makes anything, so that all choose alike, in whatever order they
        hear of each other, and a peer that is gone leaves no trace in the choice.
Rule 4: it waits until every peer in good standing has spoken, or until the gather deadline has passed; till then what was
        chosen before stays.
"""

from collections.abc import Iterable, Set
from dataclasses import dataclass

from fednode.config import Exchange
from fednode.inventory import GENERATORS, SOURCES, Word
from fednode.manifest import Kind
from fednode_crypto.identity import PeerId

LEAST_LABELS = 2
CLASSIFIERS: frozenset[Kind] = frozenset({"classifier"})
KINDS: dict[Exchange, frozenset[Kind]] = {"generators": GENERATORS, "classifiers": CLASSIFIERS, "both": SOURCES}


@dataclass(frozen=True)
class Choice:
    """The kinds that a node offers and uses, and why, in words; none while it has not chosen."""

    kinds: frozenset[Kind]
    why: str


UNDECIDED = Choice(frozenset(), "nothing is known yet")


def choose(asked: Exchange, word: Word, me: PeerId, before: frozenset[Kind], waited: bool) -> Choice:
    """What a node takes that has chosen `before`; `waited`: the gather deadline for first words has passed."""
    if asked != "auto":
        return Choice(KINDS[asked], "asked")
    silent = word.good - word.catalogues.keys()
    if me in silent or (silent and not waited):
        return Choice(before, "waits for what every node says it holds")
    return by_labels([word.catalogues[peer].declared for peer in word.good & word.catalogues.keys()])


def by_labels(declared: Iterable[Set[str]]) -> Choice:
    """Rule 2, from the labels that each node holds."""
    held = [labels for labels in declared if labels]
    nodes, total, parts = len(held), len(frozenset().union(*held)), sum(map(len, held))
    if not nodes:
        return Choice(GENERATORS, "no node holds a label")
    said = f"nodes hold {parts / nodes:.1f} of {total} labels on the mean"
    if parts < LEAST_LABELS * nodes:
        return Choice(GENERATORS, f"{said}, which is less than {LEAST_LABELS}")
    if 2 * parts < total * nodes:
        return Choice(GENERATORS, f"{said}, which is less than half")
    return Choice(CLASSIFIERS, f"{said}, which is half or more")


def silent(word: Word, me: PeerId) -> list[PeerId]:
    """The peers in good standing that have said nothing yet."""
    return sorted(word.good - word.catalogues.keys() - {me})
