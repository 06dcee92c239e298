"""Collecting steps into a replay buffer."""
