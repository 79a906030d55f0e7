"""Drivers that prove the measurement core on real GPUs; commands in docs/measurement.md. Not collected by pytest."""
