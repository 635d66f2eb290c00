"""Wrong input to a daemon: one sentence with the next step on stderr, the documented exit code, and nothing lost."""

import json
import re
import socket
from collections.abc import Callable, Iterator

import pytest
from federation import Federation
from nodes import Node

from fednode_crypto.identity import Identity

pytestmark = pytest.mark.process

TWO = {"a": ("ant", "bee"), "b": ("cat",)}
LOG_LINE = re.compile(r"\d{4}-\d\d-\d\d ")


@pytest.fixture
def federation() -> Iterator[Federation]:
    with Federation(TWO) as made:
        yield made


def refusal(node: Node, code: int, *flags: str) -> str:
    """Start a node in vain: the sentence and its hint, after checking that there is nothing else."""
    done = node.run("start", *flags)
    assert done.returncode == code, done.stderr
    assert done.stdout == ""
    lines = [line for line in done.stderr.splitlines() if not LOG_LINE.match(line)]
    assert lines[0].startswith("fednode: "), done.stderr
    assert len(lines) in (1, 2), done.stderr
    assert all(line.startswith("  ") for line in lines[1:]), done.stderr
    assert lines[0][-1] in ".?", lines[0]
    return "\n".join(lines)


def edit(node: Node, old: str, new: str) -> None:
    """Change the text of a node's peers.yaml."""
    text = node.home.peers.read_text()
    assert old in text
    node.home.peers.write_text(text.replace(old, new, 1))


def test_a_second_daemon_in_one_home_is_refused_and_the_first_goes_on(federation: Federation) -> None:
    a = federation["a"]
    federation.start()
    experts = federation.settle()
    assert str(a.process.pid) in refusal(a, 7)
    assert a.product() == experts


def test_a_port_that_is_in_use_is_refused(federation: Federation) -> None:
    a = federation["a"]
    with socket.create_server(("127.0.0.1", a.port)):
        assert f"127.0.0.1:{a.port}" in refusal(a, 6)
    federation.start()
    federation.settle()


def test_a_port_that_there_is_not_is_refused(federation: Federation) -> None:
    assert "80000" in refusal(federation["a"], 6, "--listen", "127.0.0.1:80000")


def test_processes_that_can_not_share_a_batch_or_a_device_are_refused(federation: Federation) -> None:
    assert "batches of 64" in refusal(federation["a"], 3, "--processes", "3")
    assert "cuda:1" in refusal(federation["a"], 3, "--processes", "2", "--device", "cuda:1")


def test_a_key_that_others_can_read_is_refused(federation: Federation) -> None:
    a = federation["a"]
    a.home.identity.chmod(0o644)
    assert "chmod 600" in refusal(a, 4)
    assert a.home.identity.stat().st_mode & 0o777 == 0o644


def test_a_missing_identity_beside_a_past_is_refused_and_never_made_anew(federation: Federation) -> None:
    a = federation["a"]
    federation.start()
    experts = federation.settle()
    assert a.stop() == 0
    a.home.identity.rename(a.folder / "kept")
    assert "identity" in refusal(a, 4)
    assert a.run("init").returncode == 4
    assert not a.home.identity.exists()
    (a.folder / "kept").rename(a.home.identity)
    federation.start("a")
    assert federation.settle() == experts


def own_id(a: Node, b: Node) -> None:
    edit(a, b.id, a.id)


def listed_twice(a: Node, b: Node) -> None:
    text = a.home.peers.read_text()
    a.home.peers.write_text(text + f"  - name: other\n    id: {b.id}\n    address: 127.0.0.1:{a.port + 1}\n")


def wrong_checksum(a: Node, b: Node) -> None:
    edit(a, b.id, b.id[:-1] + ("a" if b.id[-1] != "a" else "b"))


def too_short(a: Node, b: Node) -> None:
    edit(a, b.id, b.id[:-9])


@pytest.mark.parametrize(
    ("break_it", "words"),
    [
        (lambda a, b: edit(a, "address", "adress"), ("line 9", "address")),
        (lambda a, b: edit(a, "quorum: 0", "quota: 0"), ("line 5", "quorum")),
        (lambda a, b: edit(a, "quorum: 0", "quorum: many"), ("line 5", "quorum")),
        (lambda a, b: edit(a, "peers:", "peers: ["), ("line",)),
        (lambda a, b: edit(a, f":{b.port}", ":80000"), ("line 9", "80000")),
        (own_id, ("line 8", "own")),
        (listed_twice, ("line 11", "same id")),
        (wrong_checksum, ("line 8", "check")),
        (too_short, ("line 8",)),
        (lambda a, b: a.home.peers.unlink(), ("peers.yaml",)),
    ],
    ids=[
        *("unknown-key", "unknown-contract-key", "wrong-type", "no-yaml", "wrong-port"),
        *("own-id", "duplicate", "bad-checksum", "bad-length", "no-file"),
    ],
)
def test_a_wrong_peers_file_is_refused_with_the_place_that_is_wrong(
    federation: Federation, break_it: Callable[[Node, Node], object], words: tuple[str, ...]
) -> None:
    a, b = federation["a"], federation["b"]
    break_it(a, b)
    sentence = refusal(a, 3)
    assert all(word in sentence for word in words), sentence


def test_data_that_are_not_there_are_refused(federation: Federation) -> None:
    a = federation["a"]
    assert "nowhere" in refusal(a, 5, "--data", f"folder:{a.folder}/nowhere")


def test_data_of_no_known_kind_are_refused_before_the_port_is_opened(federation: Federation) -> None:
    a = federation["a"]
    with socket.create_server(("127.0.0.1", a.port)):
        assert "not a kind of data" in refusal(a, 5, "--data", "dogs/train")


def test_a_label_that_has_no_image_is_refused_by_name(federation: Federation) -> None:
    a = federation["a"]
    assert "eel" in refusal(a, 5, "--labels", "ant,eel")


def test_data_that_vanish_from_a_node_with_a_past_leave_it_serving(federation: Federation) -> None:
    a = federation["a"]
    federation.start()
    experts = federation.settle()
    a.data.rename(a.folder / "moved")
    a.client.rescan()
    federation.until(lambda: a.status()["failed"], "A says that its images are gone")
    (failed,) = a.status()["failed"]
    assert failed["job"] == "scan"
    assert str(a.data) in failed["reason"]
    assert a.product() == experts
    assert a.predict()["product"] == "experts"
    (a.folder / "moved").rename(a.data)
    a.client.rescan()
    federation.until(lambda: not a.status()["failed"], "A has its images again")
    assert federation.settle() == experts


def test_a_start_that_forgets_the_images_is_refused_and_unlearns_nothing(federation: Federation) -> None:
    a = federation["a"]
    federation.start()
    experts = federation.settle()
    assert a.stop() == 0
    settings = a.home.config.read_text()
    a.home.config.write_text(json.dumps({key: value for key, value in json.loads(settings).items() if key != "data"}))
    assert "ant, bee" in refusal(a, 5)
    a.home.config.write_text(settings)
    federation.start("a")
    assert federation.settle() == experts


def test_a_label_that_vanishes_from_the_images_stays_until_the_operator_takes_it_back(federation: Federation) -> None:
    a, b = federation["a"], federation["b"]
    federation.start()
    experts = federation.settle()
    assert a.stop() == 0
    a.start("--labels", "bee")
    federation.until(lambda: a.status()["failed"], "A says that images are gone")
    (failed,) = a.status()["failed"]
    assert (failed["job"], failed["code"], failed["retry_in"]) == ("scan", "data", None)
    assert "ant" in failed["reason"]
    assert a.product() == b.product() == experts
    assert a.run("withdraw", "ant", "--yes").returncode == 0
    federation.until(lambda: b.gamma()["a"].keys() == {"bee"}, "the label is taken back")
    federation.settle()
    assert not a.status()["failed"]


def test_a_label_is_taken_back_also_while_the_own_images_can_not_be_read(federation: Federation) -> None:
    a, b = federation["a"], federation["b"]
    federation.start()
    before = federation.settle()
    gone = b.gamma()["a"]["ant"]
    assert a.stop() == 0
    a.data.rename(a.folder / "moved")
    federation.start("a")
    federation.until(lambda: a.status()["failed"], "A says that its images are gone")
    assert a.run("withdraw", "ant", "--yes").returncode == 0
    federation.until(lambda: b.gamma()["a"].keys() == {"bee"}, "B has unlearned the label")
    federation.until(lambda: not (b.home.store / a.id / gone).exists(), "its bytes are gone at B")
    assert not (a.home.store / a.id / gone).exists()
    assert b.gamma()["a"]["bee"] == a.gamma()["a"]["bee"]
    (a.folder / "moved").rename(a.data)
    a.client.rescan()
    after = federation.settle()
    assert not before.items() & after.items()


def test_another_contract_in_a_home_with_a_past_is_refused_and_nothing_is_lost(federation: Federation) -> None:
    a = federation["a"]
    federation.start()
    experts = federation.settle()
    assert a.stop() == 0
    edit(a, "federation: test", "federation: other")
    assert "contract" in refusal(a, 9)
    edit(a, "federation: other", "federation: test")
    federation.start("a")
    assert federation.settle() == experts


def test_nodes_with_different_contracts_both_say_so_and_what_differs(federation: Federation) -> None:
    a, b = federation["a"], federation["b"]
    edit(b, "quorum: 0", "quorum: 1")
    federation.start()
    for node, other in ((a, "b"), (b, "a")):
        federation.until(
            lambda node=node, other=other: "contract" in (node.peer(other)["reason"] or ""), f"{node.name} says why"
        )
        reason = node.peer(other)["reason"]
        assert a.status()["contract"][:12] in reason
        assert b.status()["contract"][:12] in reason
        assert not node.peer(other)["connected"]
        assert node.gamma().keys() <= {node.name}
        assert any(other in sentence for sentence in node.status()["waiting"])


def test_a_node_whose_key_is_not_listed_is_kept_out(federation: Federation) -> None:
    a, b = federation["a"], federation["b"]
    b.home.identity.unlink()
    b.identity = Identity.generate()
    b.identity.save(b.home.identity)
    federation.start()
    federation.until(lambda: b.peer("a")["reason"], "B gives a reason")
    federation.until(lambda: a.peer("b")["reason"], "A gives a reason")
    assert not a.peer("b")["connected"]
    assert not b.peer("a")["connected"]
    federation.until(lambda: a.gamma().keys() == {"a"}, "A has its own generators")
    assert b.gamma().keys() <= {"b"}
