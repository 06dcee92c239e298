"""Bayesian search for the sweeps of Maze, by Optuna."""
