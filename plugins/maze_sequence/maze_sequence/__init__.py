"""Sequence models that act: the Decision Transformer for Maze."""
