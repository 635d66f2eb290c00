"""How long each phase of the demo may take on digits with two cores, in seconds; it grows with what there is to do."""

from fednode_cli.demo.homes import Shares

START, START_EACH = 10.0, 3.0  # a node's start, and the import of torch by its workers
FIT_LABEL = 6.0
TRAIN_EACH = 8.0
EVALUATE, DRAW_EACH = 60.0, 3.0
BASELINE_EACH = 6.0
LEAVE, LEAVE_EACH = 10.0, 5.0


def budgets(shares: Shares) -> dict[str, float]:
    """Seconds for each phase of a demo with these nodes, of which the last one leaves."""
    nodes, labels = len(shares), sum(map(len, shares.values()))
    kept = labels - len(list(shares.values())[-1])
    return {
        "start": START + START_EACH * nodes,
        "fit": FIT_LABEL * labels,
        "gather": START_EACH * nodes,
        "train": TRAIN_EACH * nodes,
        "evaluate": EVALUATE + DRAW_EACH * nodes,
        "baselines": BASELINE_EACH * (nodes + 1),
        "leave": LEAVE + LEAVE_EACH * nodes,
        "rebuild": 2 * TRAIN_EACH * nodes,  # the cores are shared with the questions
        "verify": START + 2 * START_EACH * nodes + FIT_LABEL * kept + TRAIN_EACH * nodes,
    }
