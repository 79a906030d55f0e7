"""Kernel tables of two sides: which kernels make the difference, and what cannot be told. Pure."""
