"""ViTs: some patches stand for all of them, cost what they are, and the attention read is the network's own."""

import math
from typing import get_args

import pytest
import torch
from torch import Tensor

from fednode.architecture import ViTArchitecture, ViTName
from fednode.contract import ImageShape
from fednode.learning import expert, networks, vit
from fednode.learning.weights import BadWeightsError
from fednode.presets import vit_architecture

torch.set_num_threads(1)
CPU = torch.device("cpu")
TINY = ViTArchitecture(
    name="vit_tiny_patch16_224", image=ImageShape(size=8, channels=1), patch=2, width=24, depth=3, heads=2, outputs=4
)


def build(architecture: ViTArchitecture, seed: int = 0) -> torch.nn.Module:
    torch.manual_seed(seed)
    network: torch.nn.Module = vit.build(architecture).eval()
    return network


def pictures(architecture: ViTArchitecture, count: int = 3) -> Tensor:
    image = architecture.image
    return torch.randn(count, image.channels, image.size, image.size, generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize(("size", "channels", "grid"), [(8, 1, 4), (28, 1, 7), (32, 3, 8), (30, 3, 8), (64, 3, 8)])
def test_all_patches_gathered_give_what_the_network_of_timm_gives(size: int, channels: int, grid: int) -> None:
    architecture = vit_architecture(ImageShape(size=size, channels=channels), 5)
    network, x = build(architecture), pictures(architecture)
    assert architecture.grid == grid
    everything = torch.arange(grid**2).expand(len(x), -1)
    assert torch.allclose(vit.answers(network, x, everything), network(x), atol=1e-5)
    assert torch.equal(vit.answers(network, x), network(x))


def test_the_order_of_patches_does_not_matter_and_their_content_does() -> None:
    network, x = build(TINY), pictures(TINY)
    kept = torch.tensor([[0, 5, 9], [1, 2, 3], [15, 4, 8]])
    found = vit.answers(network, x, kept)
    assert torch.allclose(vit.answers(network, x, kept.flip(1)), found, atol=1e-5)
    unseen = x.clone()
    unseen[0, :, 0:2, 2:4] += 1  # patch 1, which the first image is not seen at
    assert torch.equal(vit.answers(network, unseen, kept), found)
    unseen[0, :, 2:4, 2:4] += 1  # patch 5
    assert not torch.allclose(vit.answers(network, unseen, kept)[0], found[0])


def test_blocks_compute_on_the_patches_kept_alone() -> None:
    network, seen = build(TINY), []
    for block in network.blocks:  # type: ignore[union-attr]
        block.register_forward_pre_hook(lambda module, inputs: seen.append(inputs[0].shape))
    vit.answers(network, pictures(TINY), torch.tensor([[0, 5, 9]] * 3))
    assert seen == [(3, 1 + 3, 24)] * 3


def test_the_attention_is_the_softmax_of_queries_and_keys_of_the_last_block() -> None:
    network, x = build(TINY), pictures(TINY, 1)
    kept = torch.tensor([[2, 3, 7, 11]])
    inputs: list[Tensor] = []
    last = network.blocks[-1]  # type: ignore[index]
    last.attn.register_forward_pre_hook(lambda module, given: inputs.append(given[0]))
    vit.answers(network, x, kept)
    q, k, _ = last.attn.qkv(inputs[0])[0].split(24, dim=1)
    by_hand = torch.zeros(5)
    for head in (slice(0, 12), slice(12, 24)):
        scores = torch.tensor([float((q[0, head] @ k[token, head]).detach()) / math.sqrt(12) for token in range(5)])
        by_hand += scores.exp() / scores.exp().sum() / 2
    found = vit.attention(network, x, kept)
    assert torch.allclose(found[0], by_hand[1:], atol=1e-5)
    assert float(found.sum()) < 1


def test_the_answer_at_cls_is_the_networks_and_each_patch_has_one_of_its_own() -> None:
    network, x = build(TINY), pictures(TINY)
    found = vit.token_answers(network, x)
    assert found.shape == (3, 17, 4)
    assert torch.equal(found[:, 0], network(x))


@pytest.mark.parametrize("name", get_args(ViTName))
def test_names_of_the_allow_list_have_the_tensors_of_their_timm_model(name: ViTName) -> None:
    import timm  # noqa: PLC0415

    with torch.device("meta"):
        plain = timm.create_model(name, num_classes=7)
    heads = plain.embed_dim // 64
    image = ImageShape(size=224, channels=3)
    architecture = ViTArchitecture(
        name=name, image=image, patch=16, width=plain.embed_dim, depth=12, heads=heads, outputs=7
    )
    found = {key: shape for key, (shape, _) in vit.vit_tensors(architecture).items()}
    assert found == {key: tuple(tensor.shape) for key, tensor in plain.state_dict().items()}
    assert plain.blocks[0].attn.num_heads == heads


def test_images_of_224_px_are_answered_from_46_of_196_patches() -> None:
    architecture = vit_architecture(ImageShape(size=224, channels=3), 10)
    network, x = build(architecture), pictures(architecture, 1)
    assert vit.answers(network, x, torch.arange(46)[None]).shape == (1, 10)
    assert vit.attention(network, x).shape == (1, 196)


def test_what_is_loaded_answers_like_any_expert(tmp_path: object) -> None:
    network = build(TINY)
    tensors = vit.wire(network)
    images = torch.randint(0, 256, (5, 1, 8, 8), dtype=torch.uint8, generator=torch.Generator().manual_seed(2))
    found = expert.logits(vit.placed(tensors, TINY, CPU), images, CPU)
    assert torch.allclose(found, network(images.float() / 127.5 - 1), atol=2e-3)
    assert networks.tensors_of(TINY) == {name: (tuple(t.shape), torch.float16) for name, t in tensors.items()}


def test_an_architecture_beyond_the_bound_is_refused_before_anything_is_built() -> None:
    huge = TINY.model_copy(update={"width": 1024, "depth": 24, "heads": 16})
    with pytest.raises(BadWeightsError, match="more than"):
        vit.vit_tensors(huge)


@pytest.mark.parametrize("change", [{"width": 25}, {"patch": 8}, {"name": "vit_huge_patch14_224"}])
def test_shapes_that_no_vit_has_are_no_architecture(change: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r"Input|heads|patches"):
        ViTArchitecture.model_validate({**TINY.model_dump(), **change})
