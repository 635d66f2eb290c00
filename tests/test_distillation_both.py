"""An expert that learns from classifiers and generators at once."""

import json
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError
from test_distillation import IMAGE, about, animals, ask, distil_request, own_of, two

from fednode.architecture import GeneratorArchitecture
from fednode.learning.specs import DistilSpec
from fednode.recipe import GeneratorRecipe, SamplerRecipe, SynthesisRecipe
from fednode_crypto.digest import sha256_hex

__all__ = ["animals", "two"]

DENOISER = GeneratorArchitecture(image=IMAGE, channels=(8,), blocks=1).model_dump(mode="json")
FIT = GeneratorRecipe(images=64, batch=16, looks=1).model_dump(mode="json")
SYNTHESIS = SynthesisRecipe(samples_per_label=6, sampler=SamplerRecipe(steps=2)).model_dump(mode="json")


def generator(root: Path, label: str, out: Path) -> dict[str, Any]:
    """A barely fitted generator of a label as an input of an expert."""
    spec = {
        "job": "fit",
        "recipe": FIT,
        "architecture": DENOISER,
        "label": label,
        "images": own_of(root, [label])[0][1],
    }
    ask("fit", **about(root, [label]), spec=spec, out=str(out))
    return {"weights": sha256_hex(out.read_bytes()), "labels": [[label, 35]], "architecture": DENOISER}


def test_synthetic_images_of_the_generators_join_the_inverted_ones(
    animals: Path, two: list[tuple[dict[str, Any], Path]], tmp_path: Path
) -> None:
    made = [generator(animals, label, tmp_path / label) for label in ("cat", "fox")]
    found = []
    for out in (tmp_path / "one", tmp_path / "other", tmp_path / "alone"):
        request = distil_request(two, out, tmp_path / "kept")
        if out.name != "alone":
            request["spec"] |= {"generators": made, "synthesis": SYNTHESIS}
            files = zip(made, (tmp_path / "cat", tmp_path / "fox"), strict=True)
            request["generators"] = {one["weights"]: {"weights": str(path), "derived": None} for one, path in files}
        found.append((ask("distil", **request)["images"], out.read_bytes()))
    assert found[0] == found[1]
    assert found[0][0] == {"real": 0, "inverted": 48, "synthetic": 12}
    assert found[2][0] == {"real": 0, "inverted": 48}
    assert found[2][1] != found[0][1]


def test_generators_and_how_they_draw_come_together(two: list[tuple[dict[str, Any], Path]], tmp_path: Path) -> None:
    spec = distil_request(two, tmp_path / "e", None)["spec"]
    plain = DistilSpec.model_validate_json(json.dumps(spec))
    assert plain.model_dump(mode="json") == spec
    with pytest.raises(ValidationError, match="synthesis belongs to generators"):
        DistilSpec.model_validate_json(json.dumps({**spec, "synthesis": SYNTHESIS}))
