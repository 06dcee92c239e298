"""Adversarial imitation for Maze: GAIL and AIRL."""
