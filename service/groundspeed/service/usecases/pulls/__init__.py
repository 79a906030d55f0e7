"""A pull request gets its answer: what a forge says is stored, what follows is decided, and the forge is told.

deliveries → apply (state of the pull request) → evaluate (what runs) → the gate → report → answer (check, comment)
commands   → permission asked of the forge → approve, accept, run, cancel, bisect
reconcile  → what no delivery told; issues → regressions found after merging
"""
