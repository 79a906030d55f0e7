"""A change of environment over many nodes: what happens next, what was found, what it costs. Pure."""
