"""Forks of runs: new runs that begin with the whole state of others."""
