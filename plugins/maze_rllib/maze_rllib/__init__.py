"""RLlib's algorithms as algorithms of Maze."""
