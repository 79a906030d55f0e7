"""A small language model in PyTorch, made to be read."""
