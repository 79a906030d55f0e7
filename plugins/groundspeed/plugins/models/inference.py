"""Factories of reference inference tasks: the models of training.py answering one batch."""

from __future__ import annotations

from typing import Any

import torch

from groundspeed.plugins.models.resnet import ResNet
from groundspeed.plugins.models.training import SMALL
from groundspeed.plugins.models.transformer import Bert, Gpt, VisionTransformer


def _on(device: str, make: Any) -> Any:
    """Made where it will run: making a hundred million numbers on the host takes seconds."""
    with torch.device(device):
        return make()


def resnet50(device: str, batch_size: int = 1) -> dict[str, Any]:
    return {"model": _on(device, ResNet), "inputs": torch.randn(batch_size, 3, 224, 224, device=device)}


def vit_b16(device: str, batch_size: int = 1) -> dict[str, Any]:
    return {"model": _on(device, VisionTransformer), "inputs": torch.randn(batch_size, 3, 224, 224, device=device)}


def bert_base(device: str, batch_size: int = 1, length: int = 128) -> dict[str, Any]:
    return {"model": _on(device, Bert), "inputs": torch.randint(0, 30522, (batch_size, length), device=device)}


def bert_small(device: str, batch_size: int = 1) -> dict[str, Any]:
    return {"model": Bert(SMALL, 100, 32).to(device), "inputs": torch.randint(0, 100, (batch_size, 16), device=device)}


def gpt(device: str, batch_size: int = 1, length: int = 512) -> dict[str, Any]:
    return {"model": _on(device, Gpt), "inputs": torch.randint(0, 50257, (batch_size, length), device=device)}


def gpt_small(device: str, batch_size: int = 1) -> dict[str, Any]:
    return {"model": Gpt(SMALL, 100, 32).to(device), "inputs": torch.randint(0, 100, (batch_size, 16), device=device)}
