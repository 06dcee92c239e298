"""Observation normalisation by running or estimated statistics, which merge."""
