"""Several processes fit one generator: equal weights in all, near those of one alone, and no process outlives its fit."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from fednode import ranks
from fednode.architecture import GeneratorArchitecture
from fednode.contract import ImageShape
from fednode.learning import generator
from fednode.learning.dataset import DataSettings, load
from fednode.learning.denoiser import Denoiser
from fednode.learning.fitting import Run, batch_loss
from fednode.learning.heldout import Judge
from fednode.learning.team import ALONE, Team
from fednode.manifest import Numerics
from fednode.ranks import Ranks
from fednode.recipe import GeneratorRecipe
from fednode.slots import slot_names

CPU = torch.device("cpu")
TINY = GeneratorArchitecture(image=ImageShape(size=4, channels=1), channels=(8, 8), blocks=1)
RECIPE = GeneratorRecipe(images=64, batch=8, looks=4, ema_choices_milli=(50, 100, 200), held_draws=8, patience=5)


def images(count: int = 12) -> torch.Tensor:
    return torch.randint(0, 256, (count, 1, 4, 4), generator=torch.Generator().manual_seed(2), dtype=torch.uint8)


def gradients(team: Team, recipe: GeneratorRecipe) -> list[torch.Tensor]:
    """Those of a first batch, before a team has averaged them."""
    torch.manual_seed(1)
    run = Run(TINY, recipe, CPU, team=team)
    torch.nn.init.constant_(run.model.leave_gain, 1.0)
    batch_loss(images().float() / 127.5 - 1, run).backward()
    return [parameter.grad for parameter in run.parameters if parameter.grad is not None]


def test_a_share_is_the_same_number_of_rows_for_each_process_and_all_of_them_for_one() -> None:
    assert [Team(rank, 4).share(32) for rank in range(4)] == [slice(0, 8), slice(8, 16), slice(16, 24), slice(24, 32)]
    assert ALONE.share(32) == slice(0, 32)


@pytest.mark.parametrize("augment", ["none", "dihedral"])
def test_the_mean_of_the_shares_gradients_is_that_of_the_whole_batch(augment: str) -> None:
    recipe = RECIPE.model_copy(update={"augment": augment})
    whole = gradients(ALONE, recipe)
    shares = [gradients(Team(rank, 4), recipe) for rank in range(4)]
    for index, gradient in enumerate(whole):
        mean = torch.stack([share[index] for share in shares]).mean(0)
        assert torch.allclose(mean, gradient, atol=1e-6)
    assert not torch.allclose(shares[0][0], shares[1][0])


SCRIPT = """
import hashlib, os, sys, torch
from pathlib import Path
from safetensors.torch import load_file
from fednode.learning import generator
from fednode.learning.checkpoint import Checkpoint
from fednode.learning.team import join, leave
from fednode.architecture import GeneratorArchitecture
from fednode.recipe import GeneratorRecipe
torch.set_num_threads(1)
torch.use_deterministic_algorithms(True)
folder, cpu = Path(sys.argv[1]), torch.device("cpu")
team = join(cpu, folder / "meeting")
tiny = GeneratorArchitecture.model_validate_json(sys.argv[2])
recipe = GeneratorRecipe.model_validate_json(sys.argv[3])
own = load_file(folder / "images")

def fit(name="", stop_at=0):
    def progress(done, total):
        if done == stop_at:
            raise KeyboardInterrupt
    checkpoint = Checkpoint(folder / name, "a", interval=0) if name else None
    return generator.fit(own["train"], tiny, recipe, 1, progress, cpu, generator.Aids(own["held"], checkpoint, team=team))

def say(tensors):
    print(hashlib.sha256(b"".join(tensors[name].numpy().tobytes() for name in sorted(tensors))).hexdigest())

say(fit())
say(fit())
try:
    fit("cut", stop_at=5)
except KeyboardInterrupt:
    torch.distributed.barrier()
last = fit("cut")
say(last)
if team.rank == 0:
    generator.save(folder / "weights", last)
leave()
"""


@pytest.mark.timeout(120)
def test_two_processes_hold_equal_weights_each_time_and_after_an_interruption(tmp_path: Path) -> None:
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path), "OMP_NUM_THREADS": "1"}
    environment |= {"WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2", "GLOO_SOCKET_IFNAME": ranks.LOOPBACK}
    save_file({"train": images(), "held": images(4)}, tmp_path / "images")
    given = [str(tmp_path), TINY.model_dump_json(), RECIPE.model_dump_json()]
    both = [
        subprocess.Popen(
            [sys.executable, "-c", SCRIPT, *given],
            stdout=subprocess.PIPE,
            env=environment | {"RANK": rank, "LOCAL_RANK": rank},
            text=True,
        )
        for rank in ("0", "1")
    ]
    said = [process.communicate(timeout=110)[0].split() for process in both]
    assert [process.returncode for process in both] == [0, 0]
    assert said[0] == said[1]
    assert len(said[0]) == 3
    assert len(set(said[0])) == 1
    judge = Judge(Denoiser(TINY), images(4), RECIPE.model_copy(update={"held_draws": 256}), 1)
    alone = generator.fit(images(), TINY, RECIPE, 1, lambda done, total: None, CPU, generator.Aids(images(4)))
    together = generator.load(tmp_path / "weights", TINY, CPU)
    names = [name for name, _ in together.named_parameters()]
    loss = judge.loss([alone[name].float() for name in names])
    assert judge.loss(list(together.parameters())) == pytest.approx(loss, rel=0.01)


def request(folder: Path) -> bytes:
    data = DataSettings(source="digits", labels=("7",))
    labels = tuple(str(number) for number in range(10))
    own = load(data, TINY.image, labels).labels["7"]
    spec = {"recipe": RECIPE.model_dump(mode="json"), "architecture": TINY.model_dump(mode="json")}
    asked = {
        "id": 7,
        "op": "fit",
        "data": data.model_dump(mode="json"),
        "image": TINY.image.model_dump(mode="json"),
        "labels": labels,
        "spec": {"job": "fit", "label": "7", "images": own.digest, **spec},
        "out": str(folder / "weights"),
    }
    return json.dumps(asked).encode()


@pytest.mark.timeout(120)
def test_a_fit_by_two_processes_leaves_one_file_and_says_how_many_made_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(sys.path))
    told: list[tuple[str, int, int]] = []
    (tmp_path / "weights.meeting").write_text("left by a fit that was killed")
    found = ranks.outcome(
        request(tmp_path), Ranks(2, "cpu", 1), lambda phase, done, total: told.append((phase, done, total))
    )
    assert found["event"] == "done", found
    assert Numerics(**found["result"]["numerics"]).processes == 2
    assert told[-1] == ("fit 7", 8, 8)
    assert [path.name for path in tmp_path.iterdir()] == ["weights"]
    generator.load(tmp_path / "weights", TINY, CPU)


def test_one_process_alone_is_no_team_and_neither_is_a_private_fit_or_another_op() -> None:
    plain = {"op": "fit", "spec": {"recipe": {"privacy": None}}}
    private = {"op": "fit", "spec": {"recipe": {"privacy": {"epsilon_milli": 8000}}}}
    two = Ranks(2, "cpu", 1)
    assert two.wants(json.dumps(plain).encode())
    assert not Ranks(1, "cpu", 1).wants(json.dumps(plain).encode())
    for other in (private, {"op": "audit", "spec": {"recipe": {}}}, {"op": "scan"}, [], {"op": "fit"}):
        assert not two.wants(json.dumps(other).encode())
    assert not two.wants(b"{")


def test_a_fit_by_several_processes_holds_an_accelerator_for_each_and_of_cores_a_larger_part() -> None:
    assert slot_names("cuda:0", 4, 16, 3) == [["cuda-0.lock"], ["cuda-1.lock"], ["cuda-2.lock"]]
    assert slot_names("cuda:1", 4, 16) == [["cuda-1.lock"]]
    assert slot_names("cpu", 1, 4) == [["cpu-0.lock", "cpu-1.lock", "cpu-2.lock", "cpu-3.lock"]]
    assert slot_names("cpu", 1, 4, 2) == [["cpu-0.lock", "cpu-1.lock"]]
    assert slot_names("cpu", 4, 4, 2) == [["cpu-0.lock"]]


def test_numerics_of_one_process_say_nothing_of_processes() -> None:
    alone = {"device": "cpu", "threads": 1, "dtype": "float32", "torch": "2.14.1", "deterministic": True}
    assert Numerics(**alone).model_dump(mode="json") == alone
    assert Numerics(**alone, processes=2).model_dump(mode="json") == {**alone, "processes": 2}


FAKE = """#!{python} -SE
import json, os, sys, time
request = json.loads(sys.stdin.readline())
with open(request["log"], "a") as log:
    log.write(f"{{os.getpid()}}\\n")
def say(**message):
    print(json.dumps({{"id": request["id"], **message}}), flush=True)
def fail(code):
    say(event="failed", code=code, message=f"It is {{code}}.", hint="")
    sys.exit(1)
rank = int(os.environ["RANK"])
say(event="ready")
say(event="progress", phase="fit", done=1, total=2)
{act}
"""


@pytest.mark.parametrize(
    ("act", "code"),
    [
        ("fail('memory') if rank == 1 else time.sleep(60)", "memory"),
        ("fail('data') if rank == 0 else time.sleep(60)", "data"),
        ("os.kill(os.getpid(), 9) if rank == 1 else time.sleep(60)", "crash"),
        ("os.kill(os.getpid(), 9) if rank == 0 else time.sleep(60)", "crash"),
        ("fail('gloo') if rank == 0 else (time.sleep(0.2), fail('memory'))", "memory"),
    ],
)
def test_a_process_that_fails_ends_all_and_its_words_are_the_fits(
    act: str, code: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program, log = tmp_path / "python", tmp_path / "log"
    program.write_text(FAKE.format(python=sys.executable, act=act))
    program.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(program))
    monkeypatch.setattr(ranks, "LAST_WORDS_S", 0.5)
    asked = json.dumps({"id": 3, "log": str(log), "out": str(tmp_path / "out")}).encode()
    found = ranks.outcome(asked, Ranks(2, "cpu", 1), lambda phase, done, total: None)
    assert (found["event"], found["code"]) == ("failed", code)
    assert "id" not in found
    for process in log.read_text().split():
        with pytest.raises(ProcessLookupError):
            os.kill(int(process), 0)
