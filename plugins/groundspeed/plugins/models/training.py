"""Factories of reference training tasks.

FLOPs of a step: for transformers 6 x parameters x tokens + 12 x layers x width x length x tokens (forward and backward,
attention included; Chowdhery 2022, appendix B); for ResNet-50 three times the forward pass of 8.18 GFLOP an image.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.nn import functional

from groundspeed.plugins.models.resnet import ResNet
from groundspeed.plugins.models.transformer import Bert, Gpt, Shape, VisionTransformer

RESNET50_FORWARD_FLOP = 8.18e9
"""At 224 x 224: 4.09 G multiply-adds."""
SMALL = Shape(layers=2, width=64, heads=4)


def parameters(model: torch.nn.Module) -> int:
    return sum(parameter.numel() for parameter in model.parameters())


def transformer_flops(model: torch.nn.Module, shape: Shape, length: int, tokens: int) -> float:
    return (6.0 * parameters(model) + 12.0 * shape.layers * shape.width * length) * tokens


def resnet50(device: str, batch_size: int = 64) -> dict[str, Any]:
    with torch.device(device):
        model = ResNet()
    return _images(model, device, batch_size, 224, 3 * RESNET50_FORWARD_FLOP * batch_size)


def resnet_small(device: str, batch_size: int = 4) -> dict[str, Any]:
    return _images(ResNet((1, 1), 8, 10), device, batch_size, 32, 0.0, classes=10)


def vit_b16(device: str, batch_size: int = 64) -> dict[str, Any]:
    with torch.device(device):
        model = VisionTransformer()
    flops = transformer_flops(model, Shape(), 197, 197 * batch_size)
    return _images(model, device, batch_size, 224, flops)


def vit_small(device: str, batch_size: int = 4) -> dict[str, Any]:
    return _images(VisionTransformer(SMALL, 32, 8, 10), device, batch_size, 32, 0.0, classes=10)


def bert_base(device: str, batch_size: int = 32, length: int = 128) -> dict[str, Any]:
    with torch.device(device):
        model = Bert()
    return _bert(model, Shape(), device, batch_size, length, 30522)


def bert_small(device: str, batch_size: int = 4) -> dict[str, Any]:
    return _bert(Bert(SMALL, 100, 32), SMALL, device, batch_size, 16, 100)


def gpt(device: str, batch_size: int = 8, length: int = 512) -> dict[str, Any]:
    """GPT-2 small with its vocabulary padded to a multiple of 64, as training codes do: unaligned products are slow."""
    with torch.device(device):
        model = Gpt(words=50304)
    return next_token_task(model, device, batch_size, length, 50304)


def gpt_small(device: str, batch_size: int = 4) -> dict[str, Any]:
    return next_token_task(Gpt(SMALL, 100, 32), device, batch_size, 16, 100)


def _images(
    model: torch.nn.Module, device: str, batch_size: int, pixels: int, flops: float, classes: int = 1000
) -> dict[str, Any]:
    model.to(device)
    batch = (
        torch.randn(batch_size, 3, pixels, pixels, device=device),
        torch.randint(0, classes, (batch_size,), device=device),
    )
    return {
        "model": model,
        "batch": batch,
        "loss": lambda model, batch: functional.cross_entropy(model(batch[0]), batch[1]),
        "optimizer": lambda parameters, **how: torch.optim.SGD(parameters, lr=0.01, momentum=0.9, **how),
        "samples_per_step": batch_size,
        "flops_per_step": flops,
    }


def _bert(model: Bert, shape: Shape, device: str, batch_size: int, length: int, words: int) -> dict[str, Any]:
    model.to(device)
    batch = tuple(torch.randint(0, words, (batch_size, length), device=device) for _ in range(2))
    return {
        "model": model,
        "batch": batch,
        "loss": _word_loss,
        "optimizer": _adam,
        "samples_per_step": batch_size,
        "tokens_per_step": batch_size * length,
        "flops_per_step": transformer_flops(model, shape, length, batch_size * length),
    }


def next_token_task(model: Gpt, device: str, batch_size: int, length: int, words: int) -> dict[str, Any]:
    """Training of a decoder on random tokens; ``words``: its vocabulary."""
    model.to(device)
    return {
        "model": model,
        "batch": torch.randint(0, words, (batch_size, length + 1), device=device),
        "loss": _next_token_loss,
        "optimizer": _adam,
        "samples_per_step": batch_size,
        "tokens_per_step": batch_size * length,
        "flops_per_step": transformer_flops(model, model.shape, length, batch_size * length),
    }


def _adam(parameters: Any, **how: Any) -> torch.optim.Optimizer:
    return torch.optim.AdamW(parameters, lr=1e-4, **how)


def _next_token_loss(model: Any, tokens: torch.Tensor) -> torch.Tensor:
    logits = model(tokens[:, :-1])
    return functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())


def _word_loss(model: Any, batch: tuple[torch.Tensor, torch.Tensor]) -> torch.Tensor:
    loss: torch.Tensor = model(*batch)
    return loss
