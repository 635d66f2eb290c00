"""Seeds are pinned for ever: whatever was built from them must come out again."""

import hashlib

import pytest
import torch

from fednode.learning.seeds import seed_of


def test_the_seed_is_the_head_of_the_hash_of_digest_and_purpose() -> None:
    assert seed_of("ab12", "draw", "three", 7) == int(hashlib.sha256(b"ab12|draw|three|7").hexdigest()[:16], 16)


def test_a_known_seed_never_changes() -> None:
    assert seed_of("ab12", "fit") == 10736755285430045731


def test_digest_and_each_part_of_the_purpose_matter() -> None:
    seeds = {seed_of("ab", "draw", "one", 1), seed_of("ab", "draw", "one", 2), seed_of("ac", "draw", "one", 1)}
    assert len(seeds | {seed_of("ab", "draw", "two", 1), seed_of("ab", "draw")}) == 5


def test_purposes_that_would_read_alike_are_refused() -> None:
    with pytest.raises(ValueError, match="purpose"):
        seed_of("ab", "a|b")


def test_every_seed_is_one_that_torch_takes() -> None:
    for index in range(64):
        torch.Generator().manual_seed(seed_of("ff", index))
