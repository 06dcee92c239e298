"""Two-dimensional cutting for Maze."""
