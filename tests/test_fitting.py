"""What a fit may have beside its images: held-out ones, other precision, turned images, and a place for its state."""

import math
from pathlib import Path
from statistics import NormalDist, fmean

import pytest
import torch
from torch import Tensor, nn

from fednode.architecture import GeneratorArchitecture
from fednode.contract import ImageShape
from fednode.learning import generator, heldout, operations
from fednode.learning.checkpoint import Checkpoint
from fednode.learning.dataset import DataSettings
from fednode.learning.denoiser import Denoiser
from fednode.learning.fitting import CompileError, Look, Run
from fednode.learning.generator import Aids
from fednode.learning.heldout import Judge
from fednode.learning.pace import pace
from fednode.learning.precision import computing
from fednode.learning.requests import Fit, Pace
from fednode.learning.sampler import draw
from fednode.learning.session import open_session
from fednode.learning.specs import FitSpec
from fednode.learning.symmetry import Told, choose, turn
from fednode.recipe import GeneratorRecipe, SamplerRecipe

CPU = torch.device("cpu")
TINY = GeneratorArchitecture(image=ImageShape(size=4, channels=1), channels=(8, 8), blocks=1)
SHORT = GeneratorRecipe(images=80, batch=8, looks=5)
CHOOSY = SHORT.model_copy(update={"ema_choices_milli": (50, 100, 200), "held_draws": 8})


def images(count: int = 12) -> Tensor:
    return torch.randint(0, 256, (count, 1, 4, 4), generator=torch.Generator().manual_seed(2), dtype=torch.uint8)


def fit(recipe: GeneratorRecipe, aids: Aids = generator.NO_AIDS, stop_at: int = 0) -> tuple[dict[str, Tensor], int]:
    """The weights, and the last step; a fit that is stopped raises."""
    steps = 0

    def progress(done: int, total: int) -> None:
        nonlocal steps
        steps = done
        if done == stop_at:
            raise KeyboardInterrupt

    return generator.fit(images(), TINY, recipe, 1, progress, CPU, aids), steps


def are_equal(first: dict[str, Tensor], second: dict[str, Tensor]) -> bool:
    return first.keys() == second.keys() and all(torch.equal(first[name], second[name]) for name in first)


def test_the_held_out_loss_of_an_untrained_network_is_the_closed_form() -> None:
    """With D = c_skip x and an image of ones, lam E[error] = (s^2 + 1/16) / ((s^2 + 1/4) / 4)."""
    recipe = SHORT.model_copy(update={"held_draws": 4000})
    judge = Judge(Denoiser(TINY), torch.full((3, 1, 4, 4), 255, dtype=torch.uint8), recipe, 1)
    sigmas = [math.exp(-0.8 + 1.2 * NormalDist().inv_cdf((i + 0.5) / 4000)) for i in range(4000)]
    expected = fmean((s**2 + 1 / 16) / ((s**2 + 1 / 4) / 4) for s in sigmas)
    assert judge.loss(list(Denoiser(TINY).parameters())) == pytest.approx(expected, rel=0.01)


def test_equal_weights_have_equal_held_out_losses_and_judging_changes_nothing() -> None:
    judge, model = Judge(Denoiser(TINY), images(), SHORT, 1), Denoiser(TINY)
    before = [parameter.clone() for parameter in model.parameters()]
    assert judge.loss(before) == judge.loss(before)
    assert all(torch.equal(one, other) for one, other in zip(before, model.parameters(), strict=True))


def test_without_held_out_images_the_width_is_the_recipes_and_its_average_is_the_running_one() -> None:
    plain, _ = fit(SHORT)
    for aids in (generator.NO_AIDS, Aids(holdout=images(0))):
        chosen, _ = fit(CHOOSY, aids)
        for name, tensor in plain.items():
            assert torch.allclose(chosen[name].float(), tensor.float(), atol=2e-3)


def test_the_width_that_denoises_held_out_images_best_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    widths = {}
    for width in CHOOSY.ema_choices_milli:
        widths[width], _ = fit(CHOOSY.model_copy(update={"ema_milli": width}))
    losses = {50: 3.0, 100: 2.0, 200: 1.0}
    asked = iter([*[9.0] * CHOOSY.looks, *losses.values()])
    monkeypatch.setattr(Judge, "loss", lambda self, weights: next(asked))
    chosen, _ = fit(CHOOSY, Aids(holdout=images(4)))
    assert are_equal(chosen, widths[200])
    assert not are_equal(chosen, widths[50])


def looked(losses: list[float], patience: int) -> Run:
    run = Run(TINY, SHORT.model_copy(update={"patience": patience}), CPU)
    run.looks = [Look(number + 1, loss, ()) for number, loss in enumerate(losses)]
    return run


@pytest.mark.parametrize(
    ("losses", "patience", "stale", "best"),
    [
        ([3.0, 2.0], 2, False, 1),
        ([3.0, 2.0, 2.0], 2, False, 1),
        ([3.0, 2.0, 2.5, 2.0], 2, True, 1),
        ([3.0, 2.0, 2.5, 1.0], 2, False, 3),
        ([3.0, 2.0, 2.5, 2.6], 0, False, 3),
        ([math.nan, math.nan, math.nan], 2, False, 2),
    ],
)
def test_a_fit_is_stale_once_its_patience_has_passed_without_a_better_look(
    losses: list[float], patience: int, stale: bool, best: int
) -> None:
    run = looked(losses, patience)
    assert (run.stale, run.best) == (stale, best)


def test_a_stale_fit_stops_early_and_gives_the_average_of_its_best_look(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[list[Tensor]] = []
    losses = iter([3.0, 1.0, 2.0, 2.0])

    def loss(self: Judge, weights: list[Tensor]) -> float:
        seen.append([tensor.clone() for tensor in weights])
        return next(losses)

    monkeypatch.setattr(Judge, "loss", loss)
    found, steps = fit(SHORT.model_copy(update={"patience": 2}), Aids(holdout=images(4)))
    assert steps == 8
    best = [tensor.half() for tensor in seen[1]]
    assert all(
        torch.equal(found[name], one) for one, name in zip(best, dict(Denoiser(TINY).named_parameters()), strict=True)
    )


def test_the_learning_rate_of_a_fit_that_may_stop_early_is_of_the_whole_budget() -> None:
    plain, _ = fit(SHORT)
    patient, steps = fit(SHORT.model_copy(update={"patience": 5}))
    assert steps == 10
    assert are_equal(plain, patient)


@pytest.mark.parametrize("stop_at", [1, 7])
@pytest.mark.parametrize(
    "recipe", [SHORT, CHOOSY, CHOOSY.model_copy(update={"augment": "dihedral", "dropout_milli": 100})]
)
def test_an_interrupted_fit_goes_on_to_the_very_same_bits(
    recipe: GeneratorRecipe, stop_at: int, tmp_path: Path
) -> None:
    held = images(4)
    whole, _ = fit(recipe, Aids(held))
    with pytest.raises(KeyboardInterrupt):
        fit(recipe, Aids(held, Checkpoint(tmp_path / "c", "a", interval=0)), stop_at)
    first: list[int] = []
    aids = Aids(held, Checkpoint(tmp_path / "c", "a", interval=0))
    resumed = generator.fit(images(), TINY, recipe, 1, lambda done, total: first.append(done), CPU, aids)
    assert first[0] == stop_at + 1
    assert are_equal(whole, resumed)


def test_the_op_keeps_the_state_of_a_fit_beside_its_result_until_it_is_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    session, labels = open_session("cpu", 1), tuple(str(number) for number in range(10))
    data = DataSettings(source="digits", labels=("7",))
    own = session.data(data, TINY.image, labels).labels["7"]
    spec = FitSpec(job="fit", recipe=SHORT, architecture=TINY, label="7", images=own.digest)

    def ask(name: str, stop_at: int = 0) -> Path:
        def report(phase: str, done: int, total: int) -> None:
            if done == stop_at:
                raise KeyboardInterrupt

        out = tmp_path / name
        operations.fit(
            Fit(id=1, op="fit", data=data, image=TINY.image, labels=labels, spec=spec, out=str(out)), session, report
        )
        return out

    whole = ask("whole").read_bytes()
    monkeypatch.setattr(Checkpoint, "due", True)
    with pytest.raises(KeyboardInterrupt):
        ask("cut", stop_at=4)
    assert {path.name for path in tmp_path.iterdir()} == {"whole", "cut.checkpoint"}
    assert ask("cut").read_bytes() == whole
    assert {path.name for path in tmp_path.iterdir()} == {"whole", "cut"}


def spoil(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[-5] ^= 1
    path.write_bytes(data)


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-40])


@pytest.mark.parametrize("damage", [spoil, cut, lambda path: path.write_bytes(b""), lambda path: path.unlink()])
def test_a_damaged_checkpoint_is_none(damage: object, tmp_path: Path) -> None:
    checkpoint = Checkpoint(tmp_path / "c", "a")
    checkpoint.save({"x": torch.arange(20), "step": torch.tensor(3)})
    loaded = checkpoint.load()
    assert loaded is not None
    assert loaded["x"].tolist() == list(range(20))
    damage(tmp_path / "c")  # type: ignore[operator]
    assert checkpoint.load() is None


def test_a_checkpoint_of_another_spec_is_none_and_is_replaced(tmp_path: Path) -> None:
    Checkpoint(tmp_path / "c", "a").save({"x": torch.zeros(2)})
    other = Checkpoint(tmp_path / "c", "b")
    assert other.load() is None
    other.save({"x": torch.ones(2)})
    assert other.load() is not None
    assert [path.name for path in tmp_path.iterdir()] == ["c"]
    other.remove()
    assert list(tmp_path.iterdir()) == []


def test_a_checkpoint_is_private_and_its_clock_says_when_it_is_due(tmp_path: Path) -> None:
    checkpoint = Checkpoint(tmp_path / "c", "a")
    assert not checkpoint.due
    assert Checkpoint(tmp_path / "c", "a", interval=0).due
    checkpoint.save({"x": torch.zeros(2)})
    assert (tmp_path / "c").stat().st_mode & 0o777 == 0o600


def test_a_checkpoint_that_can_not_be_written_does_not_end_the_fit(tmp_path: Path) -> None:
    whole, _ = fit(SHORT)
    kept, _ = fit(SHORT, Aids(checkpoint=Checkpoint(tmp_path / "missing" / "c", "a", interval=0)))
    assert are_equal(whole, kept)


def test_a_network_in_bfloat16_or_another_layout_computes_nearly_the_same() -> None:
    model, x = Denoiser(TINY), torch.randn(6, 1, 4, 4)
    with torch.no_grad():
        model.leave_gain.fill_(1.0)
        exact = model.freeze()(x, torch.ones(6))
        model.layout = torch.contiguous_format
        assert torch.allclose(model(x, torch.ones(6)), exact, atol=1e-5)
        with computing("bfloat16", CPU):
            rough = model(x, torch.ones(6))
    assert rough.dtype == torch.float32
    assert not torch.equal(rough, exact)
    assert torch.allclose(rough, exact, atol=0.1)


def test_a_fit_in_bfloat16_keeps_its_weights_and_sums_in_float32() -> None:
    run = Run(TINY, SHORT.model_copy(update={"dtype": "bfloat16"}), CPU)
    run.advance(torch.rand(8, 1, 4, 4), 0.01)
    assert {tensor.dtype for tensor in run.state().values() if tensor.is_floating_point()} == {
        torch.float32,
        torch.float64,
    }


def test_a_network_that_can_not_be_compiled_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(self: nn.Module) -> None:
        raise RuntimeError("no compiler\nand a long story")

    monkeypatch.setattr(nn.Module, "compile", fail)
    with pytest.raises(CompileError, match=r"can't be compiled \(no compiler\)") as told:
        fit(SHORT.model_copy(update={"compile": True}))
    assert "C++ compiler" in told.value.hint


def test_the_eight_symmetries_are_those_of_the_square() -> None:
    image = torch.arange(9.0).view(1, 1, 3, 3)
    turned = turn(image.expand(8, 1, 3, 3), torch.arange(8)).flatten(1)
    assert torch.equal(turned[0], image.flatten())
    assert len({tuple(one.tolist()) for one in turned}) == 8
    assert turned[2].tolist() == image.flatten().flip(0).tolist()
    assert turned[4].view(3, 3).tolist() == [[2.0, 1.0, 0.0], [5.0, 4.0, 3.0], [8.0, 7.0, 6.0]]


def test_of_an_image_left_as_it_is_the_network_is_told_nothing() -> None:
    torch.manual_seed(1)
    told, model = Told(512), Denoiser(GeneratorArchitecture(image=TINY.image, channels=(512,), blocks=1))
    embedded = told(torch.arange(8))
    assert not embedded[0].any()
    assert float(embedded[1:].detach().square().mean().sqrt()) == pytest.approx(1.0, abs=0.1)
    noise = torch.zeros(8)
    alone, beside = model.embedded(noise), model.embedded(noise, embedded)
    assert torch.equal(alone[0], beside[0])
    assert float(beside[1:].detach().square().mean()) == pytest.approx(float(alone.detach().square().mean()), rel=0.2)


def test_as_many_images_are_turned_as_the_recipe_says_and_all_ways_alike() -> None:
    torch.manual_seed(1)
    counts = torch.bincount(choose(70_000, 0.7), minlength=8) / 70_000
    assert counts[0] == pytest.approx(0.3, abs=0.01)
    assert counts[1:].tolist() == pytest.approx([0.1] * 7, abs=0.01)


def test_turned_images_do_not_leak_into_samples_nor_into_the_file() -> None:
    recipe = GeneratorRecipe(images=16 * 150, max_passes=10**6, batch=16, lr_micro=20_000, augment="dihedral")
    architecture = TINY.model_copy(update={"channels": (16,)})
    tensors = generator.fit(images(1), architecture, recipe, 3, lambda done, total: None, CPU)
    model = Denoiser(architecture)
    model.load_state_dict({name: tensor.float() for name, tensor in tensors.items()})
    drawn = draw(model.freeze(), range(16), lambda i: i, SamplerRecipe(steps=6, batch=16))
    turns = turn(images(1).expand(8, 1, 4, 4), torch.arange(8))
    assert torch.cdist(drawn.flatten(1).float(), turns.flatten(1).float()).argmin(1).tolist() == [0] * 16


def test_the_pace_of_a_fit_is_measured_and_leaves_the_random_state_alone() -> None:
    before = torch.get_rng_state()
    asked = Pace(id=1, op="pace", architecture=TINY, recipe=SHORT, seconds=1)
    assert pace(asked, open_session("cpu", 1), lambda phase, done, total: None)["images_per_second"] > 0
    assert torch.equal(before, torch.get_rng_state())


def test_reconstruction_uses_looks_up_to_the_one_that_counts() -> None:
    looks = [Look(step, 0.0, ((torch.tensor([step / 10]),), (torch.tensor([step / 10 - 1]),))) for step in (5, 10)]
    (found,) = heldout.reconstruct(looks, (0.05, 0.10), 0.10)
    assert float(found) == pytest.approx(0.0, abs=1e-4)
