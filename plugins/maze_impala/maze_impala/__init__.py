"""Algorithms with actors for Maze: IMPALA and APPO."""
