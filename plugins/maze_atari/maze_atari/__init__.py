"""Atari games for Maze."""
