"""Asking for the next token."""

import torch
from tinygpt.config import ModelConfig
from tinygpt.data import synthetic
from tinygpt.model import TinyGPT

PROMPT = 50


def make(batch_size: int, device: str):
    """A request: prompts in, the next token of each out."""
    config = ModelConfig()
    model = TinyGPT(config).to(device).eval()
    prompt = synthetic(config.vocabulary, batch_size * PROMPT).view(batch_size, -1).to(device)

    def request() -> torch.Tensor:
        return model.next_token(prompt)

    return request
