"""Optimizers without the overhead of `torch.optim`."""
