"""Transformers in plain torch: ViT-B/16 (Dosovitskiy 2020), BERT-base (Devlin 2018) and a GPT-2 style decoder.

Attention through ``scaled_dot_product_attention``. Sizes default to the published ones; tests take smaller.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
import torch.utils.checkpoint
from torch import Tensor, nn
from torch.nn import functional


@dataclass(frozen=True, slots=True)
class Shape:
    """Depth, width and heads of a stack of blocks."""

    layers: int = 12
    width: int = 768
    heads: int = 12


class Attention(nn.Module):
    """Multi-head attention with one projection for query, key and value."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def heads_of(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Query, key, value as (batch, heads, length, width / heads)."""
        batch, length, width = x.shape
        parts = self.qkv(x).view(batch, length, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        return parts[0], parts[1], parts[2]

    def join(self, x: Tensor) -> Tensor:
        """The inverse of ``heads_of`` and the output projection."""
        batch, heads, length, depth = x.shape
        result: Tensor = self.out(x.transpose(1, 2).reshape(batch, length, heads * depth))
        return result

    def forward(self, x: Tensor, causal: bool = False) -> Tensor:
        query, key, value = self.heads_of(x)
        return self.join(functional.scaled_dot_product_attention(query, key, value, is_causal=causal))


class Block(nn.Module):
    """Attention and a four times wider perceptron; ``pre_norm`` as in GPT and ViT, else as in BERT."""

    def __init__(self, width: int, heads: int, *, pre_norm: bool, epsilon: float, approximate: str = "none") -> None:
        super().__init__()
        self.attention = Attention(width, heads)
        self.norm1, self.norm2 = nn.LayerNorm(width, epsilon), nn.LayerNorm(width, epsilon)
        self.wide, self.narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.pre_norm, self.approximate = pre_norm, approximate

    def perceptron(self, x: Tensor) -> Tensor:
        result: Tensor = self.narrow(functional.gelu(self.wide(x), approximate=self.approximate))
        return result

    def forward(self, x: Tensor, causal: bool = False) -> Tensor:
        if self.pre_norm:
            x = x + self.attention(self.norm1(x), causal)
            return x + self.perceptron(self.norm2(x))
        x = self.norm1(x + self.attention(x))
        result: Tensor = self.norm2(x + self.perceptron(x))
        return result


class Stack(nn.Module):
    """Blocks one after the other, their activations kept or made again in the backward pass."""

    def __init__(self, shape: Shape, **options: Any) -> None:
        super().__init__()
        self.blocks = nn.ModuleList([Block(shape.width, shape.heads, **options) for _ in range(shape.layers)])
        self.checkpointing = False

    def forward(self, x: Tensor, causal: bool = False) -> Tensor:
        for block in self.blocks:
            if self.checkpointing and torch.is_grad_enabled():
                x = torch.utils.checkpoint.checkpoint(block, x, causal, use_reentrant=False)
            else:
                x = block(x, causal)
        return x


class VisionTransformer(nn.Module):
    """ViT-B/16 at 224 pixels by default: 86,567,656 parameters."""

    def __init__(self, shape: Shape | None = None, pixels: int = 224, patch: int = 16, classes: int = 1000) -> None:
        super().__init__()
        shape = shape or Shape()
        self.patches = nn.Conv2d(3, shape.width, patch, patch)
        self.token = nn.Parameter(torch.zeros(1, 1, shape.width))
        self.position = nn.Parameter(torch.randn(1, (pixels // patch) ** 2 + 1, shape.width) * 0.02)
        self.stack = Stack(shape, pre_norm=True, epsilon=1e-6)
        self.norm = nn.LayerNorm(shape.width, 1e-6)
        self.head = nn.Linear(shape.width, classes)

    def forward(self, images: Tensor) -> Tensor:
        """(batch, 3, pixels, pixels) → (batch, classes)."""
        x = self.patches(images).flatten(2).transpose(1, 2)
        x = torch.cat([self.token.expand(len(x), -1, -1), x], 1) + self.position
        result: Tensor = self.head(self.norm(self.stack(x))[:, 0])
        return result


class Bert(nn.Module):
    """BERT-base with its pooler: 109,482,240 parameters; and a head that predicts words for training."""

    def __init__(self, shape: Shape | None = None, words: int = 30522, length: int = 512) -> None:
        super().__init__()
        shape = shape or Shape()
        self.words = nn.Embedding(words, shape.width)
        self.positions = nn.Embedding(length, shape.width)
        self.segments = nn.Embedding(2, shape.width)
        self.norm = nn.LayerNorm(shape.width, 1e-12)
        self.stack = Stack(shape, pre_norm=False, epsilon=1e-12)
        self.pooler = nn.Linear(shape.width, shape.width)

    def encode(self, tokens: Tensor) -> Tensor:
        """(batch, length) → (batch, length, width)."""
        places = torch.arange(tokens.shape[1], device=tokens.device)
        x = self.words(tokens) + self.positions(places) + self.segments.weight[0]
        result: Tensor = self.stack(self.norm(x))
        return result

    def forward(self, tokens: Tensor, wanted: Tensor | None = None) -> Tensor:
        """The pooled output, (batch, width); with ``wanted`` words the loss of predicting them at every position.

        The output matrix is shared with the embedding, and the pooler takes part with weight 0, so that every parameter
        has a gradient.
        """
        encoded = self.encode(tokens)
        pooled = torch.tanh(self.pooler(encoded[:, 0]))
        if wanted is None:
            return pooled
        logits = functional.linear(encoded, self.words.weight)
        return functional.cross_entropy(logits.flatten(0, 1), wanted.flatten()) + 0.0 * pooled.sum()


class Gpt(nn.Module):
    """GPT-2 small by default: 124,439,808 parameters, the output matrix shared with the embedding."""

    def __init__(self, shape: Shape | None = None, words: int = 50257, length: int = 1024) -> None:
        super().__init__()
        self.shape = shape = shape or Shape()
        self.words = nn.Embedding(words, shape.width)
        self.positions = nn.Embedding(length, shape.width)
        self.stack = Stack(shape, pre_norm=True, epsilon=1e-5, approximate="tanh")
        self.norm = nn.LayerNorm(shape.width, 1e-5)
        nn.init.normal_(self.words.weight, std=0.02)
        nn.init.normal_(self.positions.weight, std=0.02)

    def forward(self, tokens: Tensor) -> Tensor:
        """(batch, length) → (batch, length, words)."""
        places = torch.arange(tokens.shape[1], device=tokens.device)
        x = self.stack(self.words(tokens) + self.positions(places), True)
        return functional.linear(self.norm(x), self.words.weight)

    def loss(self, tokens: Tensor) -> Tensor:
        """Cross entropy of the next token; (batch, length + 1)."""
        logits = self(tokens[:, :-1])
        return functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())
