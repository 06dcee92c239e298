"""Searchers choose the points of a sweep. They are plugins of the group `maze.searchers`."""
