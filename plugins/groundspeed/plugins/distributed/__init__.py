"""Several ranks of one benchmark: starting, watching and ending them, and what runs inside."""
