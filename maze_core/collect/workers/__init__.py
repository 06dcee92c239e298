"""What workers collect for a run: rollouts and transitions of their share of the environments."""
