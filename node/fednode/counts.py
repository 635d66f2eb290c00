"""Counts: which evaluations are kept.

Rule 1: of an issuer the newest is kept, by its time, which only rises.
Rule 2: one that names something void for everybody is dropped: an artifact of a revoked issuer, or one that its issuer has listed
        and does not list any more. What only we do not use now, of a suspended peer say, may come back.
Rule 3: an artifact that was never heard of is not void: its issuer's newer catalogue may be on its way.
"""

from collections.abc import Collection

from fednode.archive import Archive
from fednode.evaluation import Evaluation
from fednode.lineage import Lineage, Pair


def is_news(archive: Archive, received: Evaluation) -> bool:
    """Whether an evaluation is newer than what is held of its issuer, and about nothing that is void."""
    held = archive.evaluations.get(received.issuer)
    if held and held.statement.created >= received.created:
        return False
    return not void_for_all(archive, received.lineage)


def forget_void(archive: Archive) -> None:
    """Drop the evaluations that Rule 2 drops."""
    held = {issuer: signed.statement for issuer, signed in archive.evaluations.items()}
    gone = void_for_all(archive, {pair for evaluation in held.values() for pair in evaluation.lineage})
    revoked = archive.roster.tombstones
    if void := {issuer for issuer in held if issuer in revoked or gone & set(held[issuer].lineage)}:
        archive.drop_evaluations(void)


def void_for_all(archive: Archive, pairs: Collection[Pair]) -> Lineage:
    """Those of `pairs` that are void for everybody (Rules 2 and 3)."""
    if not pairs:
        return frozenset()
    revoked = archive.roster.tombstones
    known = {signed.statement.pair for signed in archive.manifests.values()}
    stand = archive.word(frozenset(archive.catalogues) - revoked).offers().keys()
    return frozenset(pair for pair in pairs if pair.issuer in revoked or pair in known - stand)
