"""Training from a corpus, for its memory."""

import torch
from tinygpt.config import ModelConfig
from tinygpt.data import Corpus, synthetic
from tinygpt.model import TinyGPT
from tinygpt.trainer import Trainer

LENGTH = 32
TOKENS = 50_000


def make(batch_size: int, device: str):
    """One whole training step on a fresh batch of a corpus that stays in memory."""
    config = ModelConfig()
    corpus = Corpus(synthetic(config.vocabulary, TOKENS), LENGTH)
    trainer = Trainer(TinyGPT(config).to(device))
    generator = torch.Generator().manual_seed(0)

    def step() -> float:
        tokens, targets = corpus.batch(batch_size, generator)
        return trainer.step(tokens.to(device), targets.to(device))

    return step
