"""Meta-learning for Maze: MAML."""
