"""Campaigns: one change of environment over many nodes, from the first baseline to the verdict."""
