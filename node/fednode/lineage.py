"""Lineage: which artifact came from which, as pairs (issuer, weight digest), and what that makes void, tainted or current.

Rule 1: a pair is void when its issuer's word no longer stands behind it; equal bytes under another issuer are not touched.
Rule 2: what has a void pair in its lineage, or is one, is tainted; taint is checked wherever a thing is used.
Rule 3: an expert is current when its lineage equals the live set, no more and no less.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from fednode.statement import Digest, PeerIdText


class Pair(NamedTuple):
    """An artifact as lineage names it: who stands behind it, and the digest of its weights."""

    issuer: PeerIdText
    digest: Digest


Lineage = frozenset[Pair]


def descendants(void: Iterable[Pair], lineages: Mapping[Pair, Lineage]) -> Lineage:
    """The artifacts in `lineages` that are void or have a void pair among their inputs, directly or through others."""
    reached = set(void)
    while grown := {pair for pair, inputs in lineages.items() if pair not in reached and inputs & reached}:
        reached |= grown
    return frozenset(reached & lineages.keys())
