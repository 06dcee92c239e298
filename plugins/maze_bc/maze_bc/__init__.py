"""Behavioural cloning for Maze."""
