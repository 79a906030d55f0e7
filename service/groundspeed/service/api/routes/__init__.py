"""Routes: wire in, use case, wire out."""
