"""Policies that act without learning: the plugins of the group `maze.policies`."""
