"""Advantage actor-critic for Maze."""
