"""Differential privacy on real nodes: whose generators are private, what says so, and that nobody else can repeat the noise."""

import pytest
from federation import Federation

from fednode.ledger import Ledger
from fednode.manifest import Manifest, Privacy

pytestmark = pytest.mark.process


def test_a_node_with_dp_signs_its_epsilon_and_its_noise_follows_from_a_secret_of_its_own() -> None:
    with Federation({"a": ("ant", "bee"), "b": ("cat",)}) as federation:
        a, b = federation["a"], federation["b"]
        a.start("--dp", "7.5")
        federation.start("b")
        before = federation.settle()
        secrets = {request["label"]: request["secret"] for request in a.requests("fit")}
        assert len(set(secrets.values())) == 2
        assert all(len(secret) == 64 for secret in secrets.values())
        assert [request["secret"] for request in b.requests("fit")] == [None]
        assert a.home.secret.stat().st_mode & 0o777 == 0o600
        assert not b.home.secret.exists()
        a.stop()
        b.stop()
        ledger = Ledger(b.home.ledger)
        manifests = [Manifest.read(record.envelope)[0] for record in ledger.statements("manifest")]
        ledger.close()
        said = {(manifest.issuer, manifest.kind): manifest.dp for manifest in manifests}
        private = Privacy(epsilon="7.5", delta="0.00001")
        assert said[a.id, "generator"] == private
        assert said[b.id, "generator"] is said[a.id, "expert"] is said[b.id, "expert"] is None
        for weaker in ((), ("--dp", "8")):
            done = a.run("start", *weaker)
            assert done.returncode == 3, done.stderr
            assert "7.5" in done.stderr
        a.home.secret.rename(a.folder / "kept")
        done = a.run("start", "--dp", "7.5")
        assert done.returncode == 4, done.stderr
        assert "secret.key is missing" in done.stderr
        assert not a.home.secret.exists()
        (a.folder / "kept").rename(a.home.secret)
        a.start("--dp", "7.5")
        federation.start("b")
        assert federation.settle() == before


def test_own_images_that_were_kept_out_of_the_expert_are_not_shown_by_a_forgotten_flag() -> None:
    with Federation({"a": ("ant", "bee"), "b": ("cat",)}) as federation:
        a = federation["a"]
        a.start("--experts-see", "synthetic")
        federation.start("b")
        before = federation.settle()
        a.stop()
        done = a.run("start")
        assert done.returncode == 3, done.stderr
        assert "--experts-see synthetic" in done.stderr
        a.start("--experts-see", "synthetic")
        assert federation.settle() == before
