"""Several processes compute the gradients of a run."""
