"""How long each phase of the demo may take on digits with two idle cores, in seconds; it grows with what there is to do."""

from fednode_cli.demo.homes import Shares


def budgets(shares: Shares) -> dict[str, float]:
    """Seconds for each phase of a demo with these nodes, of which the last one leaves and is not in the reference."""
    nodes, labels = len(shares), sum(map(len, shares.values()))
    kept = labels - len(list(shares.values())[-1])
    return {
        **_building(nodes, labels),
        "evaluate": 15.0 + 6.0 * nodes,
        "baselines": 9.0 * nodes,
        "leave": 10.0 + 4.0 * nodes,
        "rebuild": 10.0 + 7.0 * nodes,
        "verify": sum(_building(nodes - 1, kept).values()),
    }


def _building(nodes: int, labels: int) -> dict[str, float]:
    """From fresh homes to the experts."""
    return {"start": 5.0 + 3.0 * nodes, "fit": 6.0 * labels, "gather": 2.0 * nodes, "train": 10.0 * nodes}
