"""peers.yaml: what is read, what is refused and how that is said, and edits that touch nothing else."""

from pathlib import Path

import pytest

from fednode import peersfile
from fednode.contract import Contract, ImageShape
from fednode.errors import ConfigError
from fednode.peersfile import MAX_PEERS, Peer, Peers
from fednode_crypto.identity import Identity, PeerId

IDS = [Identity.generate().peer_id for _ in range(MAX_PEERS + 2)]

CONTRACT = """\
contract:
  federation: skin
  labels: [melanoma, nevus]
  image: {size: 28, channels: 3}
"""


def peers_text(*entries: str) -> str:
    """A file with these lines of peers after the contract."""
    return CONTRACT + "peers:\n" + "".join(entries)


def entry(at: int, address: str | None = None) -> str:
    """The lines of a peer named by its number."""
    lines = f"  - name: peer-{at}\n    id: {IDS[at]}\n"
    return lines + (f"    address: {address}\n" if address else "")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "peers.yaml"


def refusal(path: Path, text: str, me: PeerId | None = None) -> str:
    """What `load` says of a wrong file, without the name of its folder."""
    path.write_text(text)
    with pytest.raises(ConfigError) as caught:
        peersfile.load(path, me)
    return str(caught.value).replace(f"{path.parent}/", "")


def test_contract_and_peers_are_read(path: Path) -> None:
    path.write_text(peers_text(entry(0, "192.0.2.7:7777"), entry(1)))
    assert peersfile.load(path, IDS[2]) == Peers(
        contract=Contract(
            federation="skin", labels=("melanoma", "nevus"), image=ImageShape(size=28, channels=3), quorum=0
        ),
        peers=(
            Peer(name="peer-0", id=IDS[0], address="192.0.2.7:7777"),
            Peer(name="peer-1", id=IDS[1]),
        ),
    )


def test_labels_are_the_text_that_was_written(path: Path) -> None:
    labels = "  labels: [0, 1, no, on, null, 007, 'yes']\n"
    path.write_text(CONTRACT.replace("  labels: [melanoma, nevus]\n", labels))
    assert peersfile.load(path, None).contract.labels == ("0", "1", "no", "on", "null", "007", "yes")


@pytest.mark.parametrize("ending", ["", "peers:\n", "peers: []\n", "peers: null\n", "peers: # soon\n"])
def test_a_federation_may_begin_without_peers(path: Path, ending: str) -> None:
    path.write_text(CONTRACT + ending)
    assert peersfile.load(path, None).peers == ()


def test_an_id_is_read_in_any_spelling_and_kept_in_one(path: Path) -> None:
    spelled = IDS[0].upper().replace("-", " ")
    path.write_text(peers_text(f"  - name: peer-0\n    id: '\u200b{spelled}'\n"))
    assert peersfile.load(path, None).peers[0].id == IDS[0]


def test_a_missing_file_is_named_with_the_next_step(path: Path) -> None:
    with pytest.raises(ConfigError, match=r"There is no peers file at .*peers\.yaml\. Write the contract"):
        peersfile.load(path, None)


@pytest.mark.parametrize("text", ["", "\n\n", "# only a comment\n", "---\n"])
def test_an_empty_file_says_so(path: Path, text: str) -> None:
    assert refusal(path, text) == "peers.yaml is empty. It needs a contract and the list of peers."


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        (
            "  - name: a\n    id: {id0}\n    adress: b:1\n",
            "line 8, peers[0].adress: unknown key; did you mean 'address'?",
        ),
        ("  - name: a\n", "line 6, peers[0].id: this key is missing."),
        (
            "  - name: a\n    id: {id0}\n  - x\n",
            "line 8, peers[1]: must be a mapping of keys to values, and this is 'x'.",
        ),
        ("  - name:\n    id: {id0}\n", "line 6, peers[0].name: must be a text."),
        (
            "  - name: Clinic B\n    id: {id0}\n",
            "line 6, peers[0].name: may only have lower-case letters, digits and inner dashes, at most 32, "
            "and this is 'Clinic B'.",
        ),
        (
            "  - name: a\n    id: {id0}\n    address: b:80000\n",
            "line 8, peers[0].address: The port 80000 is not from 1 to 65535.",
        ),
        (
            "  - name: a\n    id: {id0}\n    address: b:0\n",
            "line 8, peers[0].address: The port 0 is not from 1 to 65535.",
        ),
        (
            "  - name: a\n    id: {id0}\n    address: [b]\n",
            "line 8, peers[0].address: must be a text.",
        ),
        (
            "  - name: a\n    id: {id0}\n  - id: {id1}\n    name: a\n",
            "line 9, peers[1].name: the peer a has the same name.",
        ),
        (
            "  - name: a\n    id: {id0}\n  - name: b\n    id: {ID0}\n",
            "line 9, peers[1].id: the peer a has the same id.",
        ),
        (
            "  - name: a\n    id: {id0}\n    address: H:1\n  - name: b\n    id: {id1}\n    address: h:01\n",
            "line 11, peers[1].address: the peer a has the same address.",
        ),
        (
            "  - name: a\n    id: {id1}\n  - name: b\n    id: {me}\n",
            "line 9, peers[1].id: this is our own id, and a node is no peer of itself.",
        ),
    ],
)
def test_a_wrong_peer_is_named_by_file_line_and_key(path: Path, entries: str, message: str) -> None:
    text = peers_text(entries.format(id0=IDS[0], ID0=IDS[0].upper(), id1=IDS[1], me=IDS[2]))
    assert refusal(path, text, me=IDS[2]) == f"peers.yaml {message}"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda text: "gn1" + text[3:], "A peer id begins with fn1-, and this text does not."),
        (lambda text: text[:5] + "0" + text[6:], "Character '0' at position 6 can't be in a peer id. Is it 'o'?"),
        (lambda text: text[:-3], "A peer id has 56 letters and digits after fn1-, and this one has 53: 3 are missing."),
        (
            lambda text: text[:4] + ("b" if text[4] == "a" else "a") + text[5:],
            "The peer id's checksum does not match. A letter is mistyped, or two are swapped.",
        ),
    ],
)
def test_the_wrong_part_of_a_peer_id_is_named(path: Path, change, message: str) -> None:
    text = peers_text(f"  - name: a\n    id: {change(IDS[0])}\n")
    assert refusal(path, text) == f"peers.yaml line 7, peers[0].id: {message}"


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("federation: skin", "federation: Skin", "line 2, contract.federation: may only have"),
        ("  federation: skin\n", "", "line 1, contract.federation: this key is missing."),
        ("federation: skin", "name: skin", "line 1, contract.federation: this key is missing."),
        ("[melanoma, nevus]", "melanoma", "line 3, contract.labels: must be a list, and this is 'melanoma'."),
        ("[melanoma, nevus]", "[melanoma]", "line 3, contract.labels: must have at least 2 entries."),
        ("[melanoma, nevus]", "[a, A]", "line 3, contract.labels[1]: may only have"),
        ("[melanoma, nevus]", "[a, b, a]", "line 1, contract: label 'a' is listed twice."),
        ("size: 28", "size: 3", "line 4, contract.image.size: must be at least 4, and this is 3."),
        ("size: 28", "size: '28'", "line 4, contract.image.size: must be a whole number, and this is '28'."),
        ("size: 28", "size: 28.5", "line 4, contract.image.size: must be a whole number, and this is '28.5'."),
        ("channels: 3", "channels: 2", "line 4, contract.image: channels is 1 for grey or 3 for colour."),
        ("channels: 3", "chanels: 3", "line 4, contract.image.channels: this key is missing."),
        (
            "channels: 3",
            "channels: 3, colour: 1",
            "line 4, contract.image.colour: unknown key; known are size, channels.",
        ),
        (
            "{size: 28, channels: 3}",
            "28",
            "line 4, contract.image: must be a mapping of keys to values, and this is '28'.",
        ),
        ("  image", "  quorum: 65\n  image", "line 4, contract.quorum: must be at most 64, and this is 65."),
        ("  image", "  quorom: 1\n  image", "line 4, contract.quorom: unknown key; did you mean 'quorum'?"),
        ("contract:", "kontract:", "line 1, contract: this key is missing."),
    ],
)
def test_a_wrong_contract_is_named_by_file_line_and_key(path: Path, old: str, new: str, message: str) -> None:
    assert refusal(path, CONTRACT.replace(old, new)).startswith(f"peers.yaml {message}")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("peers: 1\n", "peers: must be a list"),
        ("peers: {a: 1}\n", "peers: must be a list"),
        ("peer: []\n", "peer: unknown key; did you mean 'peers'?"),
        ("peers: []\npeers: []\n", "peers: this key is there twice."),
    ],
)
def test_a_wrong_list_of_peers_is_named(path: Path, text: str, message: str) -> None:
    assert message in refusal(path, CONTRACT + text)


def test_a_list_in_the_place_of_the_file_is_refused(path: Path) -> None:
    assert refusal(path, "- a\n") == "peers.yaml line 1, the file: must be a mapping of keys to values."


def test_sixty_four_peers_are_the_most(path: Path) -> None:
    path.write_text(peers_text(*(entry(at) for at in range(MAX_PEERS))))
    assert len(peersfile.load(path, None).peers) == 64
    more = peers_text(*(entry(at) for at in range(MAX_PEERS + 1)))
    assert refusal(path, more) == "peers.yaml line 134, peers[64]: there are more than 64 peers."
