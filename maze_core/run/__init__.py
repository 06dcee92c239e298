"""Runs: their parts, the training loop, evaluation, checkpoints, and the run directory."""
