"""Fixtures that several test files share."""

from collections.abc import Iterator

import pytest


@pytest.fixture
def own_numerics() -> Iterator[None]:
    """What a script changes for its process is as it was."""
    import torch  # noqa: PLC0415 - most test files do without it

    before, threads = torch.are_deterministic_algorithms_enabled(), torch.get_num_threads()
    yield
    torch.use_deterministic_algorithms(before)
    torch.set_num_threads(threads)
