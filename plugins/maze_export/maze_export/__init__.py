"""Trained policies as files that run without Maze: `maze export`."""
