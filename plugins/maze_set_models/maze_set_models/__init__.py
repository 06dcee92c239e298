"""Models over sets for Maze."""
