"""What a node sees of itself: an evaluation from its own future is none, and a lost secret of private generators is told."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from making import CONTRACT, generator, identity
from test_tally import GRID, evaluation

from fednode import core as cores
from fednode.book import Book
from fednode.config import Home, Settings, ensure_home
from fednode.core import Core
from fednode.errors import IdentityError
from fednode.ledger import Ledger
from fednode.manifest import Privacy
from fednode.peersfile import Peers
from fednode.presets import recipes
from fednode.store import Store
from fednode.vit_recipe import vit_recipes

ME = identity(1)


@pytest.fixture
def core(tmp_path: Path) -> Iterator[Core]:
    home = Home(tmp_path / "home", tmp_path / "run")
    ensure_home(home)
    ledger = Ledger(home.ledger)
    book = Book(ledger, CONTRACT, ME.peer_id, time.time)
    peers, made = Peers(contract=CONTRACT), recipes(CONTRACT.image)
    vits = vit_recipes(CONTRACT.image)
    yield Core(home, Settings(peers=home.peers), ME, peers, made, vits, ledger, Store(home.store), book)
    ledger.close()


@pytest.mark.parametrize(("ahead", "heard"), [(0, True), (240, True), (3600, False)])
def test_an_evaluation_that_was_signed_while_the_clock_was_ahead_is_signed_again(
    core: Core, ahead: int, heard: bool
) -> None:
    said = evaluation(ME.peer_id, {"ant": {"ant": 40}}, grid=GRID)
    said = said.model_copy(update={"contract": CONTRACT.id, "created": int(time.time()) + ahead})
    core.book.evaluate(ME, said)
    assert cores.state(core, waited=False).own.evaluation == (said if heard else None)


def publish(core: Core, dp: Privacy | None) -> None:
    manifest = generator(ME.peer_id).model_copy(update={"dp": dp})
    core.book.add_manifest(ME, manifest)
    core.book.publish(ME, ["ant"], [manifest.digest])


def test_published_private_generators_need_the_secret_that_their_noise_follows_from(core: Core) -> None:
    cores.check_secret(core)
    publish(core, Privacy(epsilon="8", delta="0.00001"))
    with pytest.raises(IdentityError, match=r"secret\.key is missing"):
        cores.check_secret(core)
    core.home.secret.write_bytes(b"s" * 32)
    cores.check_secret(core)


def test_generators_that_are_not_private_need_no_secret(core: Core) -> None:
    publish(core, None)
    cores.check_secret(core)
