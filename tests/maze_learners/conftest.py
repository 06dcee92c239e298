"""Processes that `maze` starts, as the tests of training have them."""

from tests.training.conftest import maze, probes

__all__ = ["maze", "probes"]
