"""Compares runs: their records, the differences of their configurations, and their learning curves."""
