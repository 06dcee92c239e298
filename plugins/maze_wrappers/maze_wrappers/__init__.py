"""Environment wrappers for Maze."""
