"""What a worker keeps between requests: the device, its numerics, and models and images that it has read once."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import torch
from torch import nn

from fednode.architecture import ExpertShape, GeneratorArchitecture
from fednode.contract import ImageShape
from fednode.learning import dataset, generator, networks
from fednode.learning.dataset import Dataset, DataSettings
from fednode.learning.denoiser import Denoiser
from fednode.learning.team import ALONE, Team, join
from fednode_crypto.strict_json import JSON

Report = Callable[[str, int, int], None]

KEPT_MODELS = 256
KEPT_DATASETS = 2


@dataclass(frozen=True)
class Session:
    """Loaders that remember: `generator(path, digest, architecture)`, `expert(...)`, `data(settings, image, labels)`.

    Jobs check the digests of remembered images against their specs; whatever else looks at images reads them anew.
    """

    device: torch.device
    numerics: dict[str, JSON]
    generator: Callable[[str, str, GeneratorArchitecture], Denoiser]
    expert: Callable[[str, str, ExpertShape], nn.Module]
    data: Callable[[DataSettings, ImageShape, Sequence[str]], Dataset]
    forget_data: Callable[[], None]
    team: Team = ALONE


def make_deterministic(threads: int) -> None:
    """One way to compute each thing: fixed threads, deterministic kernels, full float32 products."""
    torch.set_num_threads(threads)
    torch.use_deterministic_algorithms(True)
    # Filling memory before it is written costs 3 % of a fit, and nothing here reads what it has not written.
    torch.utils.deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]
    torch.set_float32_matmul_precision("highest")
    torch.backends.cudnn.benchmark = False
    torch.backends.cudnn.allow_tf32 = False


def numerics_of(device: torch.device, threads: int, team: Team = ALONE) -> dict[str, JSON]:
    """What decides which digests may be compared; `processes` only where there are several."""
    kind = torch.cuda.get_device_name(device).replace(" ", "-") if device.type == "cuda" else "cpu"
    return {
        "device": kind,
        "threads": threads,
        "dtype": "float32",
        "torch": torch.__version__.split("+")[0],
        "deterministic": torch.are_deterministic_algorithms_enabled(),
        **({"processes": team.size} if team.size > 1 else {}),
    }


def lacking(device: torch.device, processes: int) -> str:
    """Why so many processes can't have a device each, or an empty text if they can."""
    here = torch.cuda.device_count() if device.type == "cuda" else processes
    return "" if processes <= here else f"There are {here} accelerators here, and {processes} processes want one each."


def open_session(device_name: str, threads: int, meeting: Path | None = None) -> Session:
    """A session on `cpu`, `cuda[:n]`, or `auto`: an accelerator if there is one. Call after `make_deterministic`.

    With `meeting` this process joins a team there.
    """
    chosen = ("cuda" if torch.cuda.is_available() else "cpu") if device_name == "auto" else device_name
    device = torch.device("cuda:0" if chosen == "cuda" else chosen)

    @lru_cache(KEPT_MODELS)
    def load_generator(path: str, digest: str, architecture: GeneratorArchitecture) -> Denoiser:
        return generator.load(Path(path), architecture, device)

    @lru_cache(KEPT_MODELS)
    def load_expert(path: str, digest: str, architecture: ExpertShape) -> nn.Module:
        return networks.load(Path(path), architecture, device)

    load_data = lru_cache(KEPT_DATASETS)(dataset.load)
    team = join(device, meeting) if meeting else ALONE
    numerics = numerics_of(device, threads, team)
    return Session(device, numerics, load_generator, load_expert, load_data, load_data.cache_clear, team)
