"""Runs that were never trained, for every test here."""

from tests.maze_compare.made_runs import make_run

__all__ = ["make_run"]
