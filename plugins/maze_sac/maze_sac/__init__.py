"""Soft actor-critic for Maze."""
