"""Documents of a daemon, for tests of the command line."""

from typing import Any

PEER_ID = "fn1-" + "-".join(["aaaaaaaa"] * 7)


def status_document(**changes: object) -> dict[str, Any]:
    """The status of a node that trains alone; `changes` replace fields."""
    document: dict[str, Any] = {
        "name": "clinic-a",
        "peer_id": PEER_ID,
        "phase": "training",
        "listen": "127.0.0.1:7777",
        "federation": "skin",
        "contract": "ab" * 32,
        "labels": ["melanoma", "nevus"],
        "data": {
            "source": "digits",
            "labels": [{"label": "nevus", "images": 90, "holdout": 10, "patients": None}],
            "bad": [],
        },
        "jobs": [],
        "waiting": [],
        "exchange": {"asked": "generators", "kinds": ["generator"], "why": "asked"},
        "gamma": {},
        "classifiers": [],
        "peers": [],
        "product": {"default": "none", "experts": [], "stale": []},
        "evaluation": {
            "nodes": [],
            "lacking": [],
            "scoring": False,
            "images": 0,
            "labels": 0,
            "product": "none",
            "levels": None,
            "temperature": 1.0,
            "chosen_by": "default",
            "accuracy": None,
        },
        "uncovered": [],
        "withdrawn": [],
        "failed": [],
        "audits": [],
        "expert": None,
        "overridden": [],
        "revocations": [],
        "withdrawals": [],
        "erased": {},
        "bytes": {"sent": {"generator": 2048}, "received": {}},
        "seconds": {"fit": 12.5},
        "last_error": None,
        "workers": {"build": "busy", "serve": "off"},
    }
    return document | changes
