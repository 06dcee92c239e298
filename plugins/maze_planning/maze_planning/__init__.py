"""Planners: they choose actions by trying them out in copies of the environment."""
