"""From a text to batches."""

import torch


class Corpus:
    """A text as tokens, cut into windows of ``length`` tokens, each with the tokens that follow."""

    def __init__(self, tokens: torch.Tensor, length: int) -> None:
        self.tokens = tokens
        self.length = length

    def __len__(self) -> int:
        return len(self.tokens) - self.length

    def window(self, start: int) -> torch.Tensor:
        return self.tokens[start : start + self.length + 1]

    def batch(self, size: int, generator: torch.Generator) -> tuple[torch.Tensor, torch.Tensor]:
        starts = torch.randint(len(self), (size,), generator=generator).tolist()
        windows = torch.stack([self.window(start) for start in starts])
        return windows[:, :-1], windows[:, 1:]


def synthetic(vocabulary: int, count: int, seed: int = 0) -> torch.Tensor:
    """Tokens with some structure to learn: each depends on the one before."""
    generator = torch.Generator().manual_seed(seed)
    jumps = torch.randint(1, 7, (count,), generator=generator)
    return jumps.cumsum(0) % vocabulary
