"""Events that environments report, and the statistics of an episode."""
