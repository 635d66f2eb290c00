"""plan(): what should exist, what is missing, what must go. State in, jobs and erasures out; no IO, no clock, no torch.

Rule 1: a job is named by the digest of its spec: the same spec is the same job, everywhere and for ever.
Rule 2: specs name inputs by weight digest alone, sorted: never a peer, a manifest, an order of arrival or a time.
Rule 3: fit, audit, sign and list come in that order; a generator or classifier is live, also for its owner, only once listed.
Rule 4: the expert waits until all that is announced is here, or until the gather deadline has passed.
Rule 5: what is not wanted any more is erased before anything is built, and a receipt follows once the new expert stands.
Rule 6: scoring comes last, and nothing but the own evaluation follows from it.
"""

from dataclasses import replace

from fednode import inventory
from fednode.inventory import Inventory, Missing
from fednode.lineage import Pair
from fednode.offer import expert_jobs, next_step, publication
from fednode.planned import Check, Job, Plan, Scan, Score, SignEvaluation, State
from fednode.scoring import grid_of, lacking, parts_of, score_spec
from fednode.specs import finished, makings, own_labels
from fednode.unlearning import confirmation, to_erase, withdrawal
from fednode_crypto.identity import PeerId


def plan(state: State) -> Plan:
    """What must be done now so that what should exist exists, and nothing else."""
    erase = to_erase(state)
    state = replace(state, held=state.held.without(erase))
    stock = inventory.take(state.word, state.held)
    if state.own.left:
        return Plan((), tuple(sorted(erase)), (), (), stock)
    missing = inventory.missing(state.word, stock, state.peers, state.held.bad)
    jobs = (*_checks(state, stock), *_own_jobs(state, stock, missing))
    late = lacking(stock, state.peers, state.word.catalogues.keys())
    if not erase and not jobs:
        jobs = confirmation(state, stock) or _scoring(state, stock, missing, late)
    return Plan(jobs, tuple(sorted(erase)), _fetches(state, stock), missing, stock, late)


def _checks(state: State, stock: Inventory) -> tuple[Check, ...]:
    unchecked = state.held.files & stock.offered.keys() - state.held.checked - state.held.bad
    return tuple(Check(pair) for pair in sorted(unchecked))


def _fetches(state: State, stock: Inventory) -> tuple[Pair, ...]:
    """What is on offer of our kinds, and experts only while they are current, so that none crosses an edge in vain."""
    wanted = stock.offered.keys() - state.held.files - state.held.bad - stock.stale.keys()
    return tuple(sorted(pair for pair in wanted if pair.issuer != state.me))


def _own_jobs(state: State, stock: Inventory, missing: tuple[Missing, ...]) -> tuple[Job, ...]:
    if state.own.scan is None:
        return (*withdrawal(state), Scan())
    steps = tuple(job for making in makings(state) for job in next_step(state, making))
    publish = publication(state, stock)
    if steps or publish:
        return (*publish, *steps)
    return expert_jobs(state, stock, missing)


def _scoring(state: State, stock: Inventory, missing: tuple[Missing, ...], late: tuple[PeerId, ...]) -> tuple[Job, ...]:
    """The next step towards an evaluation of what answers now; none while that is not complete, or if it is signed.

    Every cell has to answer, so none is scored while a covered label has no generator.
    """
    labels = stock.covered(state.contract.labels)
    if len(labels) < 2 or not stock.experts or not stock.draws(labels):
        return ()
    if (missing and not state.waited) or (late and not state.waited_experts):
        return ()
    spec = score_spec(grid_of(state.recipes), labels, own_labels(state), stock, state.me)
    lineage = tuple(sorted(parts_of(stock)))
    scored, signed = finished(state, spec), state.own.evaluation
    if scored is None:
        return (Score(spec, lineage),)
    if scored.digest is None or (signed and (signed.lineage, signed.counts) == (lineage, scored.digest)):
        return ()
    return (SignEvaluation(spec, lineage),)
