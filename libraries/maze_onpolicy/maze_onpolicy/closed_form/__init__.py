"""Losses of small fully connected networks whose gradients are written out, without a graph."""
