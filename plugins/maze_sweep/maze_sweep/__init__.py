"""Sweeps: many runs that differ in some values of their configuration and in their seeds, and their results."""
