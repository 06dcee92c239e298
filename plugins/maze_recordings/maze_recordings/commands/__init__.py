"""The commands `maze rollout` and `maze trajectories`."""
