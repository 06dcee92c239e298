"""Proximal policy optimisation for Maze."""
