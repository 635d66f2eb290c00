"""An audit that fails holds a generator back until its owner says why it is published all the same, for all peers to see."""

from pathlib import Path

import pytest
from federation import Federation

from fednode.errors import ExitCode

pytestmark = pytest.mark.process

TWO = {"a": ("ant", "bee"), "b": ("cat",)}


def test_an_override_publishes_what_failed_its_audit_and_every_peer_sees_the_reason() -> None:
    with Federation(TWO) as federation:
        a, b = federation["a"], federation["b"]
        a.pull("fail-audit-ant")
        federation.start()
        federation.settle()
        (failed,) = [audit for audit in a.status()["audits"] if not audit["passed"]]
        assert (failed["label"], failed["override"]) == ("ant", None)
        page = Path(failed["page"])
        assert page.stat().st_mode & 0o077 == 0
        assert (b.gamma()["a"].keys(), b.status()["overridden"]) == ({"bee"}, [])

        refused = a.run("override", "bee", "--reason", "why not", "--yes")
        assert (refused.returncode, "held back" in refused.stderr) == (ExitCode.REFUSED, True)
        done = a.run("override", "ant", "--reason", "the ants are public", "--yes")
        assert done.returncode == 0, done.stderr
        federation.until(lambda: b.gamma()["a"].keys() == {"ant", "bee"}, "B has the generator of ant")
        federation.settle()
        (told,) = b.status()["overridden"]
        assert (told["peer"], told["label"], told["reason"]) == ("a", "ant", "the ants are public")
        assert a.status()["failed"] == []
        assert "but published: the ants are public" in a.run("audit", "ant").stdout

        assert a.stop() == 0
        federation.start("a")
        federation.settle()
        assert a.status()["overridden"] == b.status()["overridden"] == [told]
        a.client.withdraw("ant")
        federation.until(lambda: b.status()["overridden"] == [], "B has unlearned ant")
        federation.until(lambda: not page.exists(), "the page of the audit went with the generator")
