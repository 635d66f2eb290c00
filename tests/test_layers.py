"""The floors of the house: a file imports only from lower floors, or on its own floor without circles."""

import ast
import graphlib
import os
import subprocess
import sys
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCE_ROOTS = [ROOT / name for name in ("node", "crypto", "cli", "protos")]

FLOORS = {
    1: "fednode_crypto fednode_protos fednode.disk fednode.errors fednode.failpoints",
    2: "fednode.address fednode.architecture fednode.catalogue fednode.config fednode.contract fednode.estimate "
    "fednode.evaluation fednode.grid fednode.lineage fednode.manifest fednode.peersedit fednode.peersfile fednode.presets "
    "fednode.recipe fednode.records fednode.revocation fednode.roster fednode.source fednode.statement fednode.tally "
    "fednode.vit_recipe fednode.yamlfile",
    3: "fednode.admission fednode.archive fednode.book fednode.counts fednode.drafts fednode.inventory fednode.ledger "
    "fednode.modes fednode.news fednode.partial fednode.store",
    4: "fednode.exchange fednode.learning",
    5: "fednode.answers fednode.audits fednode.core fednode.desk fednode.federated fednode.fields fednode.gather fednode.jobs "
    "fednode.offer fednode.parts fednode.plan fednode.planned fednode.ranks fednode.ready fednode.report fednode.scoring "
    "fednode.signing fednode.slots fednode.specs fednode.unlearning fednode.worker fednode.workers",
    6: "fednode.control fednode.daemon fednode.verbs",
    7: "fednode_cli",
}
PLACES = {part: floor for floor, parts in FLOORS.items() for part in parts.split()}
OWN = ("fednode", "fednode_crypto", "fednode_protos", "fednode_cli")

ONLY_IN = {
    "cryptography": {"fednode_crypto"},
    "torch": {"fednode.learning"},
    "torchvision": {"fednode.learning"},
    "timm": {"fednode.learning"},
    "diffusers": {"fednode.learning"},
    "accelerate": {"fednode.learning"},
    "opacus": {"fednode.learning"},
    "safetensors": {"fednode.learning"},
    "grpc": {"fednode.exchange", "fednode.control", "fednode_protos"},
    "grpc_health": {"fednode.exchange", "fednode.control"},
    "sqlite3": {"fednode.ledger"},
    "yaml": {"fednode.yamlfile", "fednode.peersedit"},
    "typer": {"fednode_cli"},
    "fednode.learning": {"fednode.learning", "fednode.worker"},
    "fednode.worker": set(),
}
BANNED_MODULES = {"pickle", "_pickle", "cloudpickle", "dill", "joblib", "marshal", "shelve"}
BANNED_CALLS = {"torch.load", "os.system", "os.popen", "os.fork"}
BANNED_METHODS = {"add_insecure_port", "from_pretrained"}


@cache
def sources() -> list[Path]:
    return sorted(path for root in SOURCE_ROOTS for path in root.rglob("*.py"))


def module_of(path: Path) -> str:
    root = next(root for root in SOURCE_ROOTS if path.is_relative_to(root))
    return ".".join(path.relative_to(root).with_suffix("").parts).removesuffix(".__init__")


@cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text(), str(path))


@cache
def imports_of(path: Path) -> frozenset[str]:
    """Every module that a file names in an import, wherever it stands; `from a import b` counts as a.b if that is a module."""
    modules = {module_of(other) for other in sources()}
    found: set[str] = set()
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno} imports relatively"
            inner = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= {name if name in modules else str(node.module) for name in inner}
    return frozenset(found)


def within(module: str, parts: Iterable[str]) -> bool:
    return any(module == part or module.startswith(f"{part}.") for part in parts)


def place_of(module: str) -> str:
    """The entry of PLACES that a module falls under."""
    return next((part for part in PLACES if within(module, [part])), "")


@cache
def graph() -> dict[str, frozenset[str]]:
    """Every own module, and the own modules that it imports."""
    return {
        module_of(path): frozenset(name for name in imports_of(path) if within(name, OWN) and name != "fednode")
        for path in sources()
    }


def edges() -> Iterator[tuple[str, str]]:
    return ((importer, imported) for importer, names in graph().items() for imported in names)


def test_every_module_has_a_place_in_the_house_and_every_place_a_module() -> None:
    modules = [module_of(path) for path in sources() if module_of(path) != "fednode"]
    assert [module for module in modules if not place_of(module)] == []
    assert sorted(set(PLACES) - {place_of(module) for module in modules}) == []


def test_no_module_imports_from_a_higher_floor() -> None:
    wrong = [(a, b) for a, b in edges() if PLACES[place_of(b)] > PLACES[place_of(a)]]
    assert wrong == []


def test_imports_form_no_circle() -> None:
    list(graphlib.TopologicalSorter(graph()).static_order())


def test_exchange_and_learning_never_meet() -> None:
    floor = {"fednode.exchange", "fednode.learning"}
    assert [(a, b) for a, b in edges() if {place_of(a), place_of(b)} == floor] == []


@pytest.mark.parametrize("package", ONLY_IN)
def test_a_package_is_imported_only_in_its_place(package: str) -> None:
    importers = {module_of(path) for path in sources() if any(within(name, [package]) for name in imports_of(path))}
    assert {module for module in importers if not within(module, ONLY_IN[package])} == set()


def test_workers_reach_neither_the_network_nor_the_daemon() -> None:
    reached: set[str] = set()
    front = {"fednode.worker"}
    while front:
        reached |= front
        front = {far for near in front for far in graph().get(near, ())} - reached
    foreign = ("fednode.exchange", "fednode.control", "fednode_protos", "fednode_crypto.identity", "fednode.daemon")
    assert {module for module in reached if within(module, foreign)} == set()


def checked_for_bans() -> list[Path]:
    return [path for path in [*sources(), *sorted((ROOT / "examples").rglob("*.py"))] if "_pb2" not in path.name]


def test_nothing_runs_code_from_data_or_opens_an_unprotected_port() -> None:
    assert [problem for path in checked_for_bans() for problem in dangers(path)] == []


def dangers(path: Path) -> Iterator[str]:
    for node in ast.walk(tree_of(path)):
        match node:
            case ast.Attribute():
                banned = ast.unparse(node) in BANNED_CALLS or node.attr in BANNED_METHODS
            case ast.keyword(arg="shell" | "allow_pickle", value=value):
                banned = ast.unparse(value) != "False"
            case _:
                banned = False
        if banned:
            yield f"{path}: {ast.unparse(node)}"
    yield from (f"{path} imports {name}" for name in imports_of(path) if name.split(".")[0] in BANNED_MODULES)


HELP = """
import sys
from fednode_cli.main import main
sys.argv = ["fednode", "--help"]
try:
    main()
except SystemExit as end:
    assert not end.code, end.code
heavy = {"torch", "torchvision", "grpc", "diffusers", "timm", "matplotlib", "sklearn", "numpy"} & set(sys.modules)
assert not heavy, heavy
"""


def test_help_imports_nothing_heavy() -> None:
    environ = os.environ | {"PYTHONPATH": os.pathsep.join(map(str, SOURCE_ROOTS))}
    done = subprocess.run(
        [sys.executable, "-c", HELP], check=False, env=environ, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    assert "Usage" in done.stdout
