"""Searchers: what chooses the points of a sweep. Plugins of the group `maze.searchers`."""
