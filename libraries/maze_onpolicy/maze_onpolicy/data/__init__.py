"""Rows of rollouts: returns, discounts, scales of rewards, and transitions of single rows."""
