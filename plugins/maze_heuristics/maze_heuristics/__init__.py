"""Hand-written policies for Maze."""
