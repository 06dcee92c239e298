"""Simulators in JAX for Maze: many environments stepped by one compiled call."""
