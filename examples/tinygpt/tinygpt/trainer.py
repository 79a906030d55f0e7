"""One step of training, and the loop around it."""

import torch

from tinygpt.adam import Adam
from tinygpt.model import TinyGPT


class Trainer:
    """Holds what training needs: model, optimiser, and what is reported."""

    def __init__(self, model: TinyGPT, rate: float = 3e-4) -> None:
        self.model = model
        self.rate = rate
        self.optimizer = Adam(model.parameters(), rate)
        self.steps = 0

    def step(self, tokens: torch.Tensor, targets: torch.Tensor) -> float:
        """Learn from one batch; returns its loss."""
        self.optimizer.zero_grad()
        loss = self.model.loss(tokens, targets)
        loss.backward()
        self.optimizer.step()
        self.steps += 1
        return loss.item()
