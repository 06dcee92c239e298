"""Minari data sets become recordings of Maze, and recordings become Minari data sets."""
