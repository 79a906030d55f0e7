"""A training step."""

import torch
from tinygpt.config import ModelConfig
from tinygpt.data import Corpus, synthetic
from tinygpt.model import TinyGPT
from tinygpt.trainer import Trainer

LENGTH = 32


def make(batch_size: int, device: str):
    """One whole training step on one fixed batch."""
    config = ModelConfig()
    corpus = Corpus(synthetic(config.vocabulary, 4_000), LENGTH)
    batch = [part.to(device) for part in corpus.batch(batch_size, torch.Generator().manual_seed(0))]
    trainer = Trainer(TinyGPT(config).to(device))

    def step() -> float:
        return trainer.step(*batch)

    step.samples_per_step = batch_size
    return step
