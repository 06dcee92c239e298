"""Logs runs with Weights & Biases."""
