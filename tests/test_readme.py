"""What the README shows runs: its federation by hand, word for word but for the ports, and the verbs that it names."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from nodes import ROOT, STANDIN, free_port

from fednode.config import KEYS

README = (ROOT / "README.md").read_text()
STOP_ALL = 'for home in home-a home-b home-c; do FEDNODE_HOME="$PWD/$home" fednode stop >/dev/null 2>&1 || true; done'


def block_after(marker: str) -> str:
    found = re.search(re.escape(marker) + r"\n```bash\n(.*?)```", README, re.DOTALL)
    assert found is not None
    return found[1]


@pytest.mark.process
def test_the_federation_by_hand_runs_word_for_word(tmp_path: Path) -> None:
    script = block_after("<!-- by hand -->")
    for port in ("7701", "7702", "7703"):
        script = script.replace(port, str(free_port()))
    (tmp_path / ".venv").symlink_to(sys.prefix)
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    told = tmp_path / "told"
    told.mkdir()
    runtime = tmp_path / "run"  # its own build slots: other federations on this machine are not waited for
    runtime.mkdir(mode=0o700)
    own = {"FEDNODE_WORKER": STANDIN, "STANDIN_DIR": str(told), "XDG_RUNTIME_DIR": str(runtime), "TERM": "dumb"}
    environment = {**os.environ, **own}
    try:
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", script],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
    finally:
        path = f"{sys.prefix}/bin:{environment['PATH']}"
        subprocess.run(
            ["bash", "-c", STOP_ALL], cwd=tmp_path, env={**environment, "PATH": path}, timeout=60, check=False
        )

    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout.count("fn1-") >= 3
    assert "revoked" in done.stdout


def test_every_verb_that_help_lists_is_in_the_readme() -> None:
    shown = subprocess.run(
        [sys.executable, "-m", "fednode_cli", "--help"], capture_output=True, text=True, timeout=60, check=True
    ).stdout
    verbs = re.findall(r"^  ([a-z-]+)  ", shown.split("Commands:")[1], re.MULTILINE)
    named = re.findall(r"`([a-z |\\-]+)`", README.split("| verb |")[1].split("\n\n")[0])
    assert {name.split()[0] for name in named} == set(verbs)


def test_every_verb_has_its_json_document_described() -> None:
    named = re.findall(r"`([a-z |\\-]+)`", README.split("| verb |")[1].split("\n\n")[0])
    page = (ROOT / "docs" / "json.md").read_text()
    headings = set(re.split(r"[ ,]+", " ".join(re.findall(r"^## (.+)$", page, re.MULTILINE))))
    assert {name.split()[0] for name in named} <= headings


def test_every_setting_is_in_the_readme() -> None:
    table = README.split("| flag, key |")[1].split("\n\n")[0]
    assert {key for key in KEYS if f"`{key}`" in table} == set(KEYS)


def test_the_two_commands_are_targets_of_the_makefile() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert set(re.findall(r"`?make ([a-z]+)`?", README)) <= targets
