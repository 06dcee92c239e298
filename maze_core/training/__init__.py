"""Training: the run, its loop, evaluation and checkpoints."""
