"""Data: batches, rollouts and the returns computed from them."""
