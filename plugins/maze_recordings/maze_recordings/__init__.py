"""Plays episodes of any policy, records them, and reads recordings: `maze rollout` and `maze trajectories`."""
