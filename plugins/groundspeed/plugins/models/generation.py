"""A GPT-2 style decoder with a key-value cache of fixed slots: the reference target of the generation suite.

An engine is a mapping with ``start(slots, longest)`` → cache, ``prefill(cache, slot, tokens)`` → logits of the next
token (words,), ``decode(cache, slots, tokens)`` → logits (slots, words), ``vocabulary`` and, for the check,
``whole(tokens)`` → logits of the next token without a cache.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from groundspeed.plugins.models.training import SMALL
from groundspeed.plugins.models.transformer import Gpt

_DTYPES = {"fp16": torch.float16, "bf16": torch.bfloat16}


@dataclass(slots=True)
class Cache:
    """``keys`` and ``values``: (layers, slots, heads, longest, depth); ``lengths``: tokens held by each slot."""

    keys: Tensor
    values: Tensor
    lengths: Tensor


class Engine:
    """Prefill of one slot and decoding of several, on one model."""

    def __init__(self, model: Gpt, device: str) -> None:
        self.model = model.eval()
        self.device = device

    def start(self, slots: int, longest: int) -> Cache:
        shape = self.model.shape
        like: dict[str, Any] = {"device": self.device, "dtype": self.model.words.weight.dtype}
        size = (shape.layers, slots, shape.heads, longest, shape.width // shape.heads)
        return Cache(
            torch.zeros(size, **like),
            torch.zeros(size, **like),
            torch.zeros(slots, dtype=torch.long, device=self.device),
        )

    @torch.inference_mode()
    def prefill(self, cache: Cache, slot: int, tokens: list[int]) -> Tensor:
        """Fills a slot from its beginning; logits of the token after the last, (words,)."""
        places = torch.arange(len(tokens), device=self.device)
        x = self._embed(torch.tensor([tokens], device=self.device), places)
        for layer, block in enumerate(self.model.stack.blocks):
            query, key, value = block.attention.heads_of(block.norm1(x))  # type: ignore[operator, union-attr]
            cache.keys[layer, slot, :, : len(tokens)] = key[0]
            cache.values[layer, slot, :, : len(tokens)] = value[0]
            answer = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
            x = self._rest(block, x, answer)
        cache.lengths[slot] = len(tokens)
        return self._logits(x[:, -1])[0]

    @torch.inference_mode()
    def decode(self, cache: Cache, slots: list[int], tokens: list[int]) -> Tensor:
        """One token more for each of the slots; (slots, words)."""
        chosen = torch.tensor(slots, device=self.device)
        places = cache.lengths[chosen]
        x = self._embed(torch.tensor(tokens, device=self.device)[:, None], places[:, None])
        longest = cache.keys.shape[3]
        seen = torch.arange(longest, device=self.device)[None, :] <= places[:, None]
        for layer, block in enumerate(self.model.stack.blocks):
            query, key, value = block.attention.heads_of(block.norm1(x))  # type: ignore[operator, union-attr]
            cache.keys[layer, chosen, :, places] = key[:, :, 0]
            cache.values[layer, chosen, :, places] = value[:, :, 0]
            held = cache.keys[layer, chosen], cache.values[layer, chosen]
            answer = functional.scaled_dot_product_attention(query, *held, attn_mask=seen[:, None, None, :])
            x = self._rest(block, x, answer)
        cache.lengths[chosen] = places + 1
        return self._logits(x[:, -1])

    @torch.inference_mode()
    def whole(self, tokens: list[int]) -> Tensor:
        """Logits of the next token, the model called on the whole sequence, (words,)."""
        found: Tensor = self.model(torch.tensor([tokens], device=self.device))
        return found[0, -1]

    def _embed(self, tokens: Tensor, places: Tensor) -> Tensor:
        found: Tensor = self.model.words(tokens) + self.model.positions(places)
        return found

    @staticmethod
    def _rest(block: Any, x: Tensor, answer: Tensor) -> Tensor:
        x = x + block.attention.join(answer)
        result: Tensor = x + block.perceptron(block.norm2(x))
        return result

    def _logits(self, x: Tensor) -> Tensor:
        return functional.linear(self.model.norm(x), self.model.words.weight)


def _engine(model: Gpt, device: str, precision: str, words: int) -> dict[str, Any]:
    engine = Engine(model.to(device=device, dtype=_DTYPES.get(precision, torch.float32)), device)
    parts = {name: getattr(engine, name) for name in ("start", "prefill", "decode", "whole")}
    return {**parts, "vocabulary": words}


def gpt(device: str, precision: str = "fp32") -> dict[str, Any]:
    """GPT-2 small, with places for 2048 tokens."""
    with torch.device(device):
        model = Gpt(length=2048)
    return _engine(model, device, precision, 50257)


def gpt_small(device: str, precision: str = "fp32") -> dict[str, Any]:
    return _engine(Gpt(SMALL, 100, 64), device, precision, 100)
