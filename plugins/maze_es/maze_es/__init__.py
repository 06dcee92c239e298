"""Evolution strategies for Maze."""
