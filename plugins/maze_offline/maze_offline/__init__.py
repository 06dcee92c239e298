"""Offline reinforcement learning for Maze."""
