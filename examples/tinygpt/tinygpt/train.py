"""Train on a text: ``python -m tinygpt.train FILE``."""

import sys

import torch

from tinygpt.config import ModelConfig
from tinygpt.data import Corpus
from tinygpt.model import TinyGPT
from tinygpt.trainer import Trainer


def main() -> None:
    with open(sys.argv[1], encoding="utf-8") as file:
        text = file.read()
    letters = sorted(set(text))
    tokens = torch.tensor([letters.index(letter) for letter in text])
    config = ModelConfig(vocabulary=len(letters))
    corpus = Corpus(tokens, config.context)
    trainer = Trainer(TinyGPT(config))
    generator = torch.Generator().manual_seed(0)
    for step in range(1000):
        loss = trainer.step(*corpus.batch(16, generator))
        if step % 100 == 0:
            print(step, round(loss, 3))


if __name__ == "__main__":
    main()
