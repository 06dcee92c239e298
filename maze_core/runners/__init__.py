"""Runners: where and how the environments of a run are stepped."""
