"""RLlib's algorithms as Maze plugins."""
