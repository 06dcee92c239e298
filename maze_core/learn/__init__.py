"""Learning: what an algorithm is, the gradient step, and what algorithms are made of."""
