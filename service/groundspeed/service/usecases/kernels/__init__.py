"""Kernel tables: kept as they arrive, and compared where two sides differ."""
