"""Converts Minari data sets into recordings of Maze, and recordings into Minari data sets."""
