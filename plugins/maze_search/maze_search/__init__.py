"""Tree search with a network for Maze: AlphaZero."""
