"""Sizes of a model."""

from dataclasses import dataclass


@dataclass(frozen=True)
class ModelConfig:
    """``vocabulary`` counts tokens, ``context`` is the longest sequence."""

    vocabulary: int = 512
    context: int = 64
    layers: int = 2
    heads: int = 4
    width: int = 96
