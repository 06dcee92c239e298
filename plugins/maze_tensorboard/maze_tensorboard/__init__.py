"""Writes runs for TensorBoard."""
