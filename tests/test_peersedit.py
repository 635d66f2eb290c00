"""Edits of peers.yaml touch the lines of one peer and nothing else, or nothing at all."""

import os
import stat
import textwrap
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fednode import peersedit, peersfile
from fednode.errors import ConfigError, StorageError
from fednode.peersfile import MAX_PEERS, Peer, Peers
from fednode_crypto.identity import Identity

IDS = [Identity.generate().peer_id for _ in range(MAX_PEERS + 1)]

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


def test_a_peer_is_added_after_the_last_one_and_all_else_stays(path: Path) -> None:
    path.write_text(
        textwrap.dedent(f"""\
        # the federation of three clinics
        peers:   # ours
            # the first
            - id: "{IDS[0]}"   # read to us by phone
              name: peer-0

            - {{name: peer-1, id: {IDS[1]}}}  # short
              # address: not yet

            # the end of the list
        contract: {{federation: skin, labels: [a, b], image: {{size: 8, channels: 1}}}}
        """)
    )
    before = path.read_text()
    peersfile.add(path, Peer(name="peer-2", id=IDS[2], address="[2001:db8::7]:7777"))
    added = f'    - name: peer-2\n      id: {IDS[2]}\n      address: "[2001:db8::7]:7777"\n'
    assert path.read_text() == before.replace("# address: not yet\n", f"# address: not yet\n{added}")
    assert peersfile.remove(path, "peer-1").id == IDS[1]
    assert path.read_text() == before.replace(
        f"    - {{name: peer-1, id: {IDS[1]}}}  # short\n      # address: not yet\n", added
    )


@pytest.mark.parametrize(
    ("ending", "after"),
    [
        ("", "peers:\n{item}"),
        ("# trailing\n", "peers:\n{item}# trailing\n"),
        ("peers:\n", "peers:\n{item}"),
        ("peers: []\n", "peers:\n{item}"),
        ("peers: []  # none yet\n\n# end\n", "peers:  # none yet\n{item}\n# end\n"),
        ("peers: []\n  # - name: example\n", "peers:\n  # - name: example\n{item}"),
        ("peers: ~", "peers:\n{item}"),
    ],
)
def test_the_first_peer_is_added_to_a_list_that_is_empty_or_missing(path: Path, ending: str, after: str) -> None:
    path.write_text(CONTRACT + ending)
    peersfile.add(path, Peer(name="peer-0", id=IDS[0]))
    assert path.read_text().rstrip("\n") == (CONTRACT + after.format(item=entry(0))).rstrip("\n")


def test_when_the_last_peer_goes_an_empty_list_stays(path: Path) -> None:
    path.write_text(peers_text(entry(0), "# end\n"))
    peersfile.remove(path, str(IDS[0]).upper())
    assert path.read_text() == CONTRACT + "peers: []\n# end\n"


@pytest.mark.parametrize("name", ["null", "-", "---", "-a", "0", "no", "7e3"])
def test_names_that_yaml_would_take_for_something_else_survive(path: Path, name: str) -> None:
    path.write_text(CONTRACT)
    peersfile.add(path, Peer(name=name, id=IDS[0], address="h:1"))
    assert peersfile.load(path, None).peers == (Peer(name=name, id=IDS[0], address="h:1"),)


def test_adding_what_is_listed_is_refused_and_changes_nothing(path: Path) -> None:
    path.write_text(peers_text(entry(0, "h:1")))
    before = path.read_bytes()
    for peer, what in (
        (Peer(name="peer-0", id=IDS[1]), "name"),
        (Peer(name="b", id=IDS[0]), "id"),
        (Peer(name="b", id=IDS[1], address="H:1"), "address"),
    ):
        with pytest.raises(ConfigError, match=f"can't be added to .*: the peer peer-0 has the same {what}"):
            peersfile.add(path, peer)
    with pytest.raises(ConfigError, match="our own id"):
        peersfile.add(path, Peer(name="b", id=IDS[1]), me=IDS[1])
    assert path.read_bytes() == before


def test_the_sixty_fifth_peer_is_not_added(path: Path) -> None:
    path.write_text(peers_text(*(entry(at) for at in range(MAX_PEERS))))
    with pytest.raises(ConfigError, match="more than 64 peers"):
        peersfile.add(path, Peer(name="one-more", id=IDS[MAX_PEERS]))


def test_removing_a_peer_that_is_not_there_names_those_that_are(path: Path) -> None:
    path.write_text(peers_text(entry(0), entry(1)))
    with pytest.raises(ConfigError, match=r"no peer 'peer-2' in .* It lists peer-0, peer-1\."):
        peersfile.remove(path, "peer-2")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (CONTRACT + f"peers: [{{name: peer-0, id: {IDS[0]}}}]\n", "the list of peers is in brackets"),
        (CONTRACT + "peers:\n  []\n", "does not begin in the line of its key"),
        ("{contract: {federation: a, labels: [a, b], image: {size: 8, channels: 1}}}\n", "it is written in braces"),
    ],
)
def test_a_list_that_is_not_written_line_by_line_is_left_alone(path: Path, text: str, why: str) -> None:
    path.write_text(text)
    with pytest.raises(ConfigError, match=why):
        peersfile.add(path, Peer(name="peer-1", id=IDS[1]))
    assert path.read_text() == text


def test_a_peer_whose_dash_is_not_on_a_line_of_its_own_is_left_alone(path: Path) -> None:
    text = f"{CONTRACT}? peers\n: - name: peer-0\n    id: {IDS[0]}\n"
    path.write_text(text)
    with pytest.raises(ConfigError, match="dash does not begin its line"):
        peersfile.remove(path, "peer-0")
    assert path.read_text() == text


def test_an_edit_that_would_read_back_as_something_else_is_refused(path: Path, monkeypatch) -> None:
    path.write_text(peers_text(entry(0)))
    before = path.read_bytes()
    for text in (CONTRACT, peers_text(entry(0)), "not: peers\n"):
        monkeypatch.setattr(peersedit, "appended", lambda *_, text=text: text)
        with pytest.raises(ConfigError, match="is unchanged"):
            peersfile.add(path, Peer(name="peer-1", id=IDS[1]))
    assert path.read_bytes() == before


def test_a_full_disk_leaves_the_file_and_no_litter(path: Path, monkeypatch) -> None:
    path.write_text(peers_text(entry(0)))
    before = path.read_bytes()

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(StorageError, match=r"can't be written: No space left on device\. It is unchanged\."):
        peersfile.add(path, Peer(name="peer-1", id=IDS[1]))
    assert path.read_bytes() == before
    assert list(path.parent.iterdir()) == [path]


def test_mode_and_link_of_the_file_stay(path: Path, tmp_path: Path) -> None:
    real = tmp_path / "real" / "shared.yaml"
    real.parent.mkdir()
    real.write_text(peers_text(entry(0)))
    real.chmod(0o640)
    path.symlink_to(real)
    peersfile.add(path, Peer(name="peer-1", id=IDS[1]))
    assert path.is_symlink()
    assert stat.S_IMODE(real.stat().st_mode) == 0o640
    assert len(peersfile.load(real, None).peers) == 2


def test_a_file_in_a_missing_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="can't be edited: No such file or directory"):
        peersfile.remove(tmp_path / "nowhere" / "peers.yaml", "a")


COMMENTS = st.sampled_from(["", "\n", "# note\n", "  # note\n", "    # note\n", "      # deep\n", "\n  # apart\n"])
STYLES = [
    "{indent}- name: peer-{at}\n{indent}  id: {id}\n",
    "{indent}- name: peer-{at}   # whose\n{indent}  id: {id}\n{indent}  address: h:{port}\n",
    "{indent}-\n{indent}    id: '{id}'\n{indent}    name: peer-{at}\n",
    "{indent}- {{id: {id}, name: peer-{at}}}  # short\n",
    "{indent}- name: >-\n{indent}    peer-{at}\n{indent}  id: {id}\n",
    "{indent}- id: {id}\n{indent}  name: peer-{at}\n{indent}  address:\n",
]


@st.composite
def block_files(draw: st.DrawFn) -> str:
    """A peers file in block style, with comments and blank lines anywhere, and any line ending."""
    indent = draw(st.sampled_from(["", "  ", "   "]))
    count = draw(st.integers(0, 3))
    text = draw(st.sampled_from(["", "# head\n", "---\n"])) + CONTRACT + draw(COMMENTS)
    text += "peers:  # who\n" if count else "peers: []  # nobody\n"
    for at in range(count):
        style = draw(st.sampled_from(STYLES))
        text += draw(COMMENTS) + style.format(indent=indent, at=at, id=IDS[at], port=at + 1)
    text += draw(COMMENTS) + draw(st.sampled_from(["", "# tail\n", "# tail", "...\n"]))
    text = text.rstrip("\n") if draw(st.booleans()) else text
    return text.replace("\n", draw(st.sampled_from(["\n", "\r\n"])))


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(text=block_files(), address=st.sampled_from([None, "h:99", "[::1]:99"]), by_id=st.booleans())
def test_adding_and_then_removing_a_peer_gives_the_same_bytes(
    path: Path, text: str, address: str | None, by_id: bool
) -> None:
    path.write_bytes(text.encode())
    before = peersfile.load(path, None)
    peer = Peer(name="new", id=IDS[9], address=address)
    peersfile.add(path, peer)
    assert peersfile.load(path, None) == Peers(contract=before.contract, peers=(*before.peers, peer))
    assert peersfile.remove(path, peer.id if by_id else peer.name) == peer
    assert path.read_bytes() == text.encode()


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(text=block_files(), data=st.data())
def test_removing_any_peer_leaves_the_others_and_every_comment_outside_it(
    path: Path, text: str, data: st.DataObject
) -> None:
    path.write_bytes(text.encode())
    before = peersfile.load(path, None)
    if not before.peers:
        return
    gone = data.draw(st.sampled_from(before.peers))
    peersfile.remove(path, gone.name)
    after = path.read_bytes().decode()
    assert peersfile.load(path, None).peers == tuple(peer for peer in before.peers if peer != gone)
    assert [line for line in text.splitlines() if line.startswith("#")] == [
        line for line in after.splitlines() if line.startswith("#")
    ]
