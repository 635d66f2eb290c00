"""Relabelling (2605.10748): an inverted image's own patches teach its label, the others what all classifiers make of them.

H are the own patches of an image, L the rest, g the expert, f_k the classifiers:

    loss = CE(g(x|H), y) + lambda T^2 KL(softmax(z_L / T) || softmax(g(x|L) / T)),  z_L = sum_k w_k f_k(x|L)
"""

import torch
from torch import Tensor, nn
from torch.nn import functional

from fednode.learning import vit
from fednode.vit_recipe import DistilRecipe


def voting(counts: Tensor, recipe: DistilRecipe) -> Tensor:
    """Weights (P, K) of P classifiers' logits for K labels, from their image counts (P, K).

    A label that no classifier has seen is voted on by all alike, for logits of it exist.
    """
    totals = counts.sum(1, keepdim=True).expand_as(counts)
    weights = {"uniform": torch.ones_like(counts), "counts": totals, "labels": counts}[recipe.weights].double()
    if recipe.voters == "seen":
        weights = weights * (counts > 0)
    return torch.where(weights.sum(0) > 0, weights, 1.0)


def ensemble(logits: Tensor, weights: Tensor) -> Tensor:
    """z (N, K): for each label the mean of the logits (P, N, K) of P classifiers, weighted by `weights` (P, K)."""
    shares = (weights / weights.sum(0)).to(logits.dtype)
    return (logits * shares[:, None, :]).sum(0)


def divergence(logits: Tensor, wanted: Tensor, temperature: float) -> Tensor:
    """T^2 KL(softmax(wanted / T) || softmax(logits / T)) (Hinton et al., 1503.02531), for each row of (..., K)."""
    said = torch.log_softmax(logits.float() / temperature, -1)
    soft = torch.log_softmax(wanted.float() / temperature, -1)
    return temperature**2 * functional.kl_div(said, soft, reduction="none", log_target=True).sum(-1)


def relabelled_loss(
    network: nn.Module, x: Tensor, patches: tuple[Tensor, Tensor], targets: Tensor, soft: Tensor, recipe: DistilRecipe
) -> Tensor:
    """(N,): the loss above for images (N, C, H, W) in data units, in the recipe's reading.

    `patches` are H (N, h) and L (N, l), `targets` (N,) the labels, `soft` (N, K) the classifiers' z_L.
    """
    if recipe.relabel == "dense":
        return _dense_loss(network, x, patches, targets, soft, recipe)
    own, rest = patches
    hard = functional.cross_entropy(vit.answers(network, x, own).float(), targets, reduction="none")
    if recipe.relabel == "none" or not rest.shape[1]:
        return hard
    return hard + recipe.strength_milli / 1e3 * divergence(vit.answers(network, x, rest), soft, _temperature(recipe))


def _dense_loss(
    network: nn.Module, x: Tensor, patches: tuple[Tensor, Tensor], targets: Tensor, soft: Tensor, recipe: DistilRecipe
) -> Tensor:
    """Token labelling (LV-ViT, 2104.10858, eq. 4): CE at CLS, and `token_milli` of the mean losses at H and at L."""
    answers = vit.token_answers(network, x).float()
    cls, at_patches = answers[:, 0], answers[:, 1:]
    own, rest = (at_patches.gather(1, one[:, :, None].expand(-1, -1, answers.shape[2])) for one in patches)
    hard = functional.cross_entropy(own.transpose(1, 2), targets[:, None].expand(own.shape[:2]), reduction="none")
    loss = hard.mean(1)
    if rest.shape[1]:
        wanted = soft[:, None].expand_as(rest)
        loss = loss + recipe.strength_milli / 1e3 * divergence(rest, wanted, _temperature(recipe)).mean(1)
    return functional.cross_entropy(cls, targets, reduction="none") + recipe.token_milli / 1e3 * loss


def _temperature(recipe: DistilRecipe) -> float:
    return recipe.temperature_milli / 1e3
