"""The Adam optimiser, written out."""

from collections.abc import Iterable

import torch


class Adam:
    """Each weight moves by the running mean of its gradient over the root of the running mean of its square."""

    def __init__(self, parameters: Iterable[torch.nn.Parameter], rate: float) -> None:
        self.parameters = list(parameters)
        self.rate = rate
        self.steps = 0
        self.means = [torch.zeros_like(p) for p in self.parameters]
        self.squares = [torch.zeros_like(p) for p in self.parameters]

    def zero_grad(self) -> None:
        for parameter in self.parameters:
            parameter.grad = None

    @torch.no_grad()
    def step(self, fast: float = 0.9, slow: float = 0.99, eps: float = 1e-8) -> None:
        self.steps += 1
        rate = self.rate * (1 - slow**self.steps) ** 0.5 / (1 - fast**self.steps)
        for parameter, mean, square in zip(self.parameters, self.means, self.squares, strict=True):
            mean.lerp_(parameter.grad, 1 - fast)
            square.mul_(slow).addcmul_(parameter.grad, parameter.grad, value=1 - slow)
            parameter.addcdiv_(mean, square.sqrt().add_(eps), value=-rate)
