"""Importance weighted actor-learner architectures for Maze."""
