"""Recorded trajectories: their files, written and read."""
